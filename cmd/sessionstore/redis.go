package main

import (
	"context"
	"net/url"
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
			return nil, err
		}
		return redis.NewClient(o), nil
	},
	"-cluster": func(storeURL string) (redis.UniversalClient, error) {
		o, err := redis.ParseClusterURL(storeURL)
		if err != nil {
			return nil, err
		}
		return redis.NewClusterClient(o), nil
	},
	"-sentinel": func(storeURL string) (redis.UniversalClient, error) {
		o, err := redis.ParseFailoverURL(storeURL)
		if err != nil {
			return nil, err
		}
		return redis.NewFailoverClient(o), nil
	},
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
