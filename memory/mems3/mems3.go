package mems3

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/keyenc"
	"github.com/sessionstore/sessionstore/internal/s3util"
	"github.com/sessionstore/sessionstore/memory"
)

// Client is what the store needs of a [s3.Client].
type Client interface {
	GetObject(context.Context, *s3.GetObjectInput, ...func(*s3.Options)) (*s3.GetObjectOutput, error)
	HeadObject(context.Context, *s3.HeadObjectInput, ...func(*s3.Options)) (*s3.HeadObjectOutput, error)
	PutObject(context.Context, *s3.PutObjectInput, ...func(*s3.Options)) (*s3.PutObjectOutput, error)
	DeleteObject(context.Context, *s3.DeleteObjectInput, ...func(*s3.Options)) (*s3.DeleteObjectOutput, error)
	DeleteObjects(context.Context, *s3.DeleteObjectsInput, ...func(*s3.Options)) (*s3.DeleteObjectsOutput, error)
	ListObjectsV2(context.Context, *s3.ListObjectsV2Input, ...func(*s3.Options)) (*s3.ListObjectsV2Output, error)
}

var _ Client = (*s3.Client)(nil)

// Options of [New]. The zero value is fine.
type Options struct {
	// Prefix starts the name of every object, such as "agents/". A slash is
	// added if it does not end in one. At most 128 bytes. It may be that of a
	// session store.
	Prefix string

	// SSE asks for server-side encryption of every object: AES256 (SSE-S3) or
	// aws:kms (SSE-KMS). Empty leaves it to the bucket.
	SSE types.ServerSideEncryption
	// KMSKeyID is the key for SSE-KMS; empty is the account's default key.
	KMSKeyID string
}

// Store holds the files of one scope. It is safe for concurrent use. Make one
// with [New].
type Store struct {
	client   Client
	bucket   string
	scope    string
	base     string // what the names of all objects begin with
	sse      types.ServerSideEncryption
	kmsKeyID *string
	now      func() time.Time

	heeded   atomic.Bool // the server heeds conditions
	unquoted atomic.Bool // and wants their etags without quotes

	mu      sync.Mutex
	touched map[string]time.Time // uses that this handle has noted
}

var (
	_ memory.Store   = (*Store)(nil)
	_ memory.Expirer = (*Store)(nil)
)

const (
	memoryDir = "!memory/"

	// Names in the directory of a scope. No escaped name begins so.
	intentName = "!intent"
	usedName   = "!used"
	probeName  = "!probe-"

	// Metadata of objects.
	opsMetadata    = "memory-ops"    // the names of the last writes, the last first
	intentMetadata = "memory-intent" // the rename that has brought the file here
	markMetadata   = "memory-mark"   // of a file that is being moved or deleted

	// keptOps is how many names of writes an object carries.
	keptOps = 24
	// parallel is how many requests one operation makes at a time.
	parallel = 8
)

// New returns a store of a scope in a bucket, which must exist. The caller owns
// the client: credentials, region, endpoint, retries, checksums. An empty scope
// is an error. Options may be nil. New sends nothing.
func New(client Client, bucket, scope string, options *Options) (*Store, error) {
	var o Options
	if options != nil {
		o = *options
	}
	if o.Prefix != "" && !strings.HasSuffix(o.Prefix, "/") {
		o.Prefix += "/"
	}
	err := cmp.Or(s3util.CheckPrefix(o.Prefix), memory.CheckScope(scope))
	switch {
	case err != nil:
	case client == nil:
		err = errors.New("the client is nil")
	case bucket == "":
		err = errors.New("the bucket has no name")
	}
	if err != nil {
		return nil, &memory.OpError{Package: "mems3", Op: "new", Scope: scope, Err: err}
	}
	s := &Store{
		client: client, bucket: bucket, scope: scope, base: o.Prefix + memoryDir + keyenc.Encode(scope) + "/",
		sse: o.SSE, now: time.Now, touched: map[string]time.Time{},
	}
	if o.KMSKeyID != "" {
		s.kmsKeyID = &o.KMSKeyID
	}
	return s, nil
}

func (s *Store) wrap(op, path string, err error) error {
	if err == nil {
		return nil
	}
	var noBucket interface{ ErrorCode() string }
	if errors.As(err, &noBucket) && noBucket.ErrorCode() == "NoSuchBucket" {
		err = memory.NothingDone(err)
	}
	return &memory.OpError{Package: "mems3", Op: op, Scope: s.scope, Path: path, Err: err}
}

// name is the name of a file's object. A long last part is cut in two: a server
// over a file system needs room in the names of files for its own.
func (s *Store) name(path string) string {
	name := s.dirName(path)
	last := strings.LastIndexByte(name, '/') + 1
	if len(name)-last > longName {
		name = name[:last+longName] + cut + name[last+longName:]
	}
	return name
}

// dirName is the name of a directory, without a slash at its end.
func (s *Store) dirName(path string) string {
	return s.base + keyenc.EncodePath(strings.TrimPrefix(path, memory.Root+"/"))
}

const (
	longName = 200
	cut      = "!/" // is in no escaped path
)

// Read returns a file.
func (s *Store) Read(ctx context.Context, path string, max int64) (memory.File, error) {
	err := cmp.Or(memory.CheckPath(path), ctx.Err())
	var o object
	if err == nil {
		o, err = s.read(ctx, path, max)
	}
	if errors.Is(err, s3util.ErrGone) {
		err = memory.ErrNotFound
	}
	if err != nil {
		return memory.File{}, s.wrap("read", path, err)
	}
	if last := o.modified; s.now().Sub(last) > memory.UseInterval && s.now().Sub(s.lastTouch(path)) > memory.UseInterval {
		s.touch(ctx, path)
	}
	return memory.File{Data: o.data, Version: o.version()}, nil
}

func (s *Store) read(ctx context.Context, path string, max int64) (object, error) {
	if path == memory.Root {
		return object{}, memory.ErrNotFound
	}
	for {
		var in intent
		var intentErr error
		var wg sync.WaitGroup
		wg.Go(func() { in, intentErr = s.getIntent(ctx) })
		o, err := s.get(ctx, s.name(path), max)
		wg.Wait()
		if errors.Is(intentErr, s3util.ErrGone) && err == nil && o.mark != (mark{}) {
			in, intentErr = s.getIntent(ctx) // it may be of an intent that has begun since
		}
		switch {
		case intentErr == nil:
			if err := s.complete(ctx, in); err != nil {
				return object{}, err
			}
			continue
		case !errors.Is(intentErr, s3util.ErrGone):
			return object{}, intentErr
		case err != nil || o.mark == mark{}:
			return o, err
		}
		if healErr := s.heal(ctx, s.name(path), o); healErr == nil {
			continue
		}
		// Who may only read sees what will be there.
		if o.mark.kind == draft {
			return object{}, s3util.ErrGone
		}
		return o, nil
	}
}

// version has all that Write has to know of what it replaces.
func (o object) version() string {
	return fmt.Sprintf("%s|%d|%s", o.etag, len(o.data), strings.Join(o.ops, " "))
}

func parseVersion(version string) (c condition, size int64, ops []string, ok bool) {
	etag, rest, ok1 := strings.Cut(version, "|")
	length, names, ok2 := strings.Cut(rest, "|")
	size, err := strconv.ParseInt(length, 10, 64)
	return condition{etag}, size, strings.Fields(names), ok1 && ok2 && err == nil && etag != ""
}

// Write stores a file.
func (s *Store) Write(ctx context.Context, path string, data []byte, ifVersion string, limits memory.Limits) error {
	err := cmp.Or(memory.CheckWrite(path), ctx.Err())
	if err == nil {
		err = s.probe(ctx)
	}
	switch {
	case err != nil:
	case ifVersion == "":
		err = s.create(ctx, path, data, limits)
	default:
		err = s.replace(ctx, path, data, ifVersion, limits)
	}
	return s.wrap("write", path, err)
}

func (s *Store) replace(ctx context.Context, path string, data []byte, ifVersion string, limits memory.Limits) error {
	c, size, ops, ok := parseVersion(ifVersion)
	if !ok {
		return memory.ErrConflict
	}
	if more := int64(len(data)) - size; more > 0 && limits.Bytes > 0 {
		all, err := s.settled(ctx)
		if err != nil {
			return memory.NothingDone(err)
		}
		if err := limits.Check(len(all.files), all.bytes(), 0, more); err != nil {
			return err
		}
	}
	return s.putFirst(ctx, s.name(path), data, c, rand.Text(), ops)
}

// putFirst is put as the first request of an operation that changes anything.
func (s *Store) putFirst(ctx context.Context, name string, data []byte, c condition, op string, ops []string) error {
	lost := false
	_, err := s.putWatched(ctx, name, data, c, metadata{ops: append([]string{op}, ops...)}, &lost)
	return surely(err, lost)
}

// surely marks an error of a put that has surely changed nothing.
func surely(err error, lost bool) error {
	if err != nil && !lost && s3util.Answered(err) {
		return memory.NothingDone(err)
	}
	return err
}

// create stores a new file, and takes it back if it turns out that somebody has
// made a directory in its place, or a file in the place of a directory above
// it, at the same moment. Of two who meet at least one sees the other.
func (s *Store) create(ctx context.Context, path string, data []byte, limits memory.Limits) error {
	for try := 1; ; try++ {
		if err := s.mayCreate(ctx, path, int64(len(data)), limits); err != nil {
			return memory.NothingDone(err)
		}
		op := rand.Text()
		err := s.putFirst(ctx, s.name(path), data, condition{}, op, nil)
		switch {
		case err == nil:
			return s.confirm(ctx, path, op)
		case !errors.Is(err, memory.ErrConflict):
			return s.whyNot(ctx, path, err)
		case try == putTries:
			return memory.ErrExists
		}
		// There is a file, or what a host that came too late has left.
		if _, err := s.read(ctx, path, 0); !errors.Is(err, s3util.ErrGone) {
			return cmp.Or(err, memory.ErrExists)
		}
	}
}

// mayCreate looks before a new file is written. Only for limits it lists the
// whole scope.
func (s *Store) mayCreate(ctx context.Context, path string, size int64, limits memory.Limits) error {
	if limits.Files > 0 || limits.Bytes > 0 && size > 0 {
		all, err := s.settled(ctx)
		if err == nil {
			err = all.free(path)
		}
		if err == nil {
			err = limits.Check(len(all.files), all.bytes(), 1, size)
		}
		return err
	}
	for {
		in, err := s.around(ctx, path)
		if in == nil && (errors.Is(err, memory.ErrExists) || errors.Is(err, memory.ErrNotDirectory)) {
			all, listErr := s.settled(ctx) // if it is a file
			return cmp.Or(listErr, all.free(path))
		}
		if in == nil {
			return err
		}
		if err := s.complete(ctx, *in); err != nil {
			return err
		}
	}
}

// around looks, in parallel, for an intent, for files in the place of the
// directories above a path, and for files below it.
func (s *Store) around(ctx context.Context, path string) (open *intent, err error) {
	parents := memory.Parents(path)
	errs := make([]error, len(parents)+2)
	s3util.Parallel(len(errs), parallel, func(i int) {
		switch i {
		case 0:
			in, err := s.getIntent(ctx)
			if err == nil {
				open = &in
			} else if !errors.Is(err, s3util.ErrGone) {
				errs[0] = err
			}
		case 1:
			out, err := s.client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &s.bucket, Prefix: aws.String(s.dirName(path) + "/"), MaxKeys: aws.Int32(1)})
			if errs[1] = err; err == nil && len(out.Contents) > 0 {
				errs[1] = memory.ErrExists
			}
		default:
			_, err := s.head(ctx, s.name(parents[i-2]))
			if err == nil {
				errs[i] = memory.ErrNotDirectory
			} else if !errors.Is(err, s3util.ErrGone) {
				errs[i] = err
			}
		}
	})
	return open, cmp.Or(errs...)
}

// confirm looks whether a new file may stay.
func (s *Store) confirm(ctx context.Context, path, op string) error {
	in, err := s.around(ctx, path)
	if in != nil && in.Op == opRename && (path == in.To || memory.Below(path, in.To)) {
		err = cmp.Or(err, memory.ErrExists) // the rename came first
	}
	if err == nil {
		return nil
	}
	if backErr := s.takeBack(ctx, s.name(path), op); backErr != nil {
		return fmt.Errorf("%w (%v)", backErr, err) // it may stay
	}
	return err
}

// whyNot looks for what is in the way of a new file: a server over a file
// system refuses a file below a file.
func (s *Store) whyNot(ctx context.Context, path string, err error) error {
	if all, listErr := s.settled(ctx); listErr == nil {
		return cmp.Or(all.free(path), err)
	}
	return err
}

// probe makes sure, once, that the server heeds conditions, and finds out the
// form of etags that it takes.
func (s *Store) probe(ctx context.Context) error {
	if s.heeded.Load() {
		return nil
	}
	name := s.base + probeName + rand.Text()
	put := func(ifNoneMatch, ifMatch *string) (string, bool, error) {
		return s.tryPut(ctx, name, ifNoneMatch, ifMatch)
	}
	quoted := func(etag string) *string { return aws.String(`"` + etag + `"`) }
	const other = "00000000000000000000000000000000"
	etag, first, err1 := put(aws.String("*"), nil)
	_, again, err2 := put(aws.String("*"), nil)
	etag = cmp.Or(etag, "d41d8cd98f00b204e9800998ecf8427e")
	_, wrong, err3 := put(nil, quoted(other))
	_, right, err4 := put(nil, quoted(etag))
	unquoted := !right && !wrong
	if unquoted {
		var err5, err6 error
		_, wrong, err5 = put(nil, aws.String(other))
		_, right, err6 = put(nil, &etag)
		err4 = cmp.Or(err4, err5, err6)
	}
	deleteErr := s3util.DeleteEach(ctx, s.client, s.bucket, 1, []s3util.Object{{Key: name}})
	if err := cmp.Or(err1, err2, err3, err4, deleteErr); err != nil {
		return memory.NothingDone(err)
	}
	if again || wrong || !right {
		return memory.NothingDone(fmt.Errorf("the server does not heed If-Match and If-None-Match (new: %v, over an object: %v, over another: %v, over the right one: %v), without which edits could be lost: %w",
			first, again, wrong, right, errors.ErrUnsupported))
	}
	s.unquoted.Store(unquoted)
	s.heeded.Store(true)
	return nil
}

// tryPut puts an empty object, and says whether the conditions let it.
func (s *Store) tryPut(ctx context.Context, name string, ifNoneMatch, ifMatch *string) (etag string, done bool, err error) {
	in := s.putInput(name, condition{}, metadata{})
	in.IfNoneMatch, in.IfMatch, in.Body = ifNoneMatch, ifMatch, bytes.NewReader(nil)
	out, err := s.client.PutObject(ctx, in)
	switch {
	case err == nil:
		return bare(out.ETag), true, nil
	case s3util.IsPrecondition(err):
		return "", false, nil
	}
	return "", false, err
}

// corrupt says that an object of the store's own cannot be read.
func corrupt(name string, err error) error {
	return fmt.Errorf("%w: %s: %w", sessionstore.ErrCorrupt, name, err)
}
