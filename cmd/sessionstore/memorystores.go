package main

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sessionstore/sessionstore/memory"
	"github.com/sessionstore/sessionstore/memory/memdir"
	"github.com/sessionstore/sessionstore/memory/memmap"
	"github.com/sessionstore/sessionstore/memory/mempg"
	"github.com/sessionstore/sessionstore/memory/memredis"
	"github.com/sessionstore/sessionstore/memory/mems3"
)

// memoryHandle is an open memory.
type memoryHandle struct {
	store memory.Store
	scope string
	name  string // of the store, for messages
	close func() error
}

// openMemory opens the memory of a scope in the store that --store or
// SESSIONSTORE_URL name.
func (a *app) openMemory(ctx context.Context, scope string, mode mode) (*memoryHandle, error) {
	given := a.storeURL
	if given == "" {
		given = os.Getenv("SESSIONSTORE_URL")
	}
	if given == "" {
		return nil, usagef("where is the memory? name the store with --store or SESSIONSTORE_URL")
	}
	m := &memoryHandle{scope: scope, name: redact(given), close: func() error { return nil }}
	kind, rest, hasScheme := cutScheme(given)
	var err error
	switch plain, variant, _ := strings.Cut(kind, "-"); {
	case !hasScheme:
		m.name = "file:" + given
		err = m.openDir(given, mode)
	case kind == "file":
		err = m.openDir(rest, mode)
	case plain == "redis" || plain == "rediss":
		err = m.openRedis(plain, variant, rest)
	case kind == "postgres" || kind == "postgresql":
		err = m.openPostgres(ctx, rest)
	case kind == "s3":
		err = m.openS3(ctx, given)
	default:
		err = usagef("no memory is kept in a store %q; known are file:DIR, postgres://…, redis://… and s3://…", kind)
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (m *memoryHandle) openDir(rest string, mode mode) error {
	if strings.Contains(rest, "?") {
		return usagef("file:%s: a memory in a directory has no options", rest)
	}
	if strings.HasPrefix(rest, "//") {
		path, err := fileURLPath(rest)
		if err != nil {
			return err
		}
		rest = path
	}
	dir, err := expandHome(rest)
	if err != nil {
		return err
	}
	if dir == "" {
		return usagef("file: names no directory; the form is file:DIR")
	}
	s, err := memdir.Open(dir, m.scope, &memdir.Options{ReadOnly: mode == reading})
	if errors.Is(err, fs.ErrNotExist) {
		if !isDir(dir) {
			return noStore(dir)
		}
		m.store, err = memmap.New(m.scope) // nothing was written yet
		return err
	}
	if err != nil {
		return err
	}
	m.store, m.close = s, s.Close
	return nil
}

func (m *memoryHandle) openRedis(plain, variant, rest string) error {
	if variant != "" {
		variant = "-" + variant
	}
	newClient := redisClients[variant]
	u, err := url.Parse(plain + ":" + rest)
	if err != nil || u.Host == "" || newClient == nil {
		return usagef("%s: not a URL of the form %s%s://host:port", m.name, plain, variant)
	}
	if u.Query().Has("ttl") {
		return usagef("%s: a memory has no ttl; see \"memory expire\"", m.name)
	}
	opts, err := redisOptions(u)
	if err != nil {
		return err
	}
	client, err := newClient(u.String())
	if err != nil {
		return usagef("%s: %v", m.name, err)
	}
	m.store, err = memredis.New(client, m.scope, &memredis.Options{Prefix: opts.Prefix, RetryFor: opts.RetryFor})
	if err != nil {
		client.Close()
		return usagef("%v", err)
	}
	m.close = client.Close
	return nil
}

func (m *memoryHandle) openPostgres(ctx context.Context, rest string) error {
	dsn, opts, err := postgresOptions("postgres:" + rest)
	if err != nil {
		return err
	}
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return usagef("%s: %v", m.name, errors.Unwrap(err))
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	m.store, err = mempg.New(pool, m.scope, &mempg.Options{Schema: opts.Schema, TablePrefix: opts.TablePrefix})
	if err != nil {
		pool.Close()
		return usagef("%v", err)
	}
	m.close = func() error { pool.Close(); return nil }
	return nil
}

// openS3 takes credentials and region from where all programs of AWS take them,
// unless the URL says something else.
func (m *memoryHandle) openS3(ctx context.Context, given string) error {
	u, err := url.Parse(given)
	if err != nil || u.Host == "" {
		return usagef("%s: not a URL of the form s3://bucket/prefix", m.name)
	}
	var options []func(*s3.Options)
	var load []func(*config.LoadOptions) error
	for name, v := range u.Query() {
		switch name {
		case "region":
			load = append(load, config.WithRegion(v[0]))
		case "endpoint":
			options = append(options, func(o *s3.Options) { o.BaseEndpoint = &v[0] })
		case "path_style":
			on, err := strconv.ParseBool(v[0])
			if err != nil {
				return usagef("%s: path_style=%s: write true or false", m.name, v[0])
			}
			options = append(options, func(o *s3.Options) { o.UsePathStyle = on })
		default:
			return usagef("%s: unknown option %q; known are endpoint, region and path_style", m.name, name)
		}
	}
	c, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return err
	}
	if c.Region == "" {
		return noRegion(given)
	}
	m.store, err = mems3.New(s3.NewFromConfig(c, options...), u.Host, m.scope, &mems3.Options{Prefix: strings.TrimPrefix(u.Path, "/")})
	if err != nil {
		return usagef("%v", err)
	}
	return nil
}
