package main

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionstore/sessionstore/redisstore"
)

// redisClients make a client from a connection URL of go-redis. Its own kind of
// URL has only the schemes redis and rediss, whatever the servers are.
var redisClients = map[string]func(storeURL string) (redis.UniversalClient, error){
	"": func(storeURL string) (redis.UniversalClient, error) {
		o, err := redis.ParseURL(storeURL)
		if err != nil {
			return nil, withoutSecrets(storeURL, err)
		}
		return redis.NewClient(o), nil
	},
	"-cluster": func(storeURL string) (redis.UniversalClient, error) {
		o, err := redis.ParseClusterURL(storeURL)
		if err != nil {
			return nil, withoutSecrets(storeURL, err)
		}
		return redis.NewClusterClient(o), nil
	},
	"-sentinel": func(storeURL string) (redis.UniversalClient, error) {
		o, err := failoverOptions(storeURL)
		if err != nil {
			return nil, withoutSecrets(storeURL, err)
		}
		return redis.NewFailoverClient(o), nil
	},
}

// failoverOptions reads the URL of a server behind Sentinel. As with the other
// kinds, the name and the password before the host are those of Redis itself;
// go-redis takes them for those of the sentinels, which have options here.
func failoverOptions(storeURL string) (*redis.FailoverOptions, error) {
	u, err := url.Parse(storeURL)
	if err != nil {
		return nil, err
	}
	query, user := u.Query(), u.User
	sentinel := url.UserPassword(query.Get("sentinel_username"), query.Get("sentinel_password"))
	if user != nil && (query.Has("username") || query.Has("password")) {
		return nil, errors.New("the name or password is there twice, before the host and as an option")
	}
	query.Del("sentinel_username")
	query.Del("sentinel_password")
	u.User, u.RawQuery = nil, query.Encode()
	o, err := redis.ParseFailoverURL(u.String())
	if err != nil {
		return nil, err
	}
	o.SentinelUsername = sentinel.Username()
	o.SentinelPassword, _ = sentinel.Password()
	if user != nil {
		o.Username = user.Username()
		o.Password, _ = user.Password()
	}
	switch {
	case o.MasterName == "":
		return nil, errors.New("which master? add master_name=NAME to the URL")
	case o.RouteByLatency || o.RouteRandomly || o.ReplicaOnly:
		return nil, errors.New("a store must not read from replicas")
	}
	return o, nil
}

// withoutSecrets replaces an error whose text could hold a piece of a password
// that was written without the escapes that a URL needs.
func withoutSecrets(storeURL string, err error) error {
	text := err.Error()
	u, parseErr := url.Parse(storeURL)
	switch {
	case parseErr != nil || strings.Contains(text, "@"):
		return errors.New("not a URL that can be read; in a name or password write special characters as %XX")
	case !strings.Contains(text, "unexpected option"):
	case u.Query().Has("master_name"):
		return errors.New("there is an unknown option; the password could also hold a & that must be written as %26")
	case u.Query().Has("username") || u.Query().Has("password"):
		return errors.New("the name and password stand before the host: redis://NAME:PASSWORD@HOST:PORT")
	}
	return err
}

// redisScheme is the line of a kind of Redis in the table of schemes: plain is
// redis or rediss.
func redisScheme(plain, kind string) scheme {
	return scheme{plain + kind, plain + kind + "://…", func(_ context.Context, _ *app, rest string, _ mode) (*handle, error) {
		given := plain + kind + ":" + rest
		u, err := url.Parse(plain + ":" + rest)
		if err != nil || u.Host == "" {
			return nil, usagef("%s: not a URL of the form %s%s://host:port", redact(given), plain, kind)
		}
		opts, err := redisOptions(u)
		if err != nil {
			return nil, err
		}
		client, err := redisClients[kind](u.String())
		if err != nil {
			return nil, usagef("%s: %v", redact(given), err)
		}
		s, err := redisstore.New(client, &opts)
		if err != nil {
			client.Close()
			return nil, usagef("%v", err)
		}
		return &handle{store: s, name: redact(given), close: client.Close}, nil
	}}
}

// silence is the log of the client library, which would write to standard
// error what the error of the operation says anyway.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

func init() { redis.SetLogger(silence{}) }

// patience is how long a person is kept waiting for a server that is down.
const patience = 3 * time.Second

// redisOptions takes our own parameters out of a URL.
func redisOptions(u *url.URL) (redisstore.Options, error) {
	opts := redisstore.Options{RetryFor: patience}
	query := u.Query()
	opts.Prefix = query.Get("prefix")
	if ttl := query.Get("ttl"); ttl != "" {
		d, err := time.ParseDuration(ttl)
		if err != nil || d < 0 {
			if d, err = parseAge(ttl); err != nil {
				return opts, usagef("ttl=%s: write a time such as 12h or 30d", ttl)
			}
		}
		opts.TTL = d
	}
	query.Del("prefix")
	query.Del("ttl")
	u.RawQuery = query.Encode()
	return opts, nil
}
