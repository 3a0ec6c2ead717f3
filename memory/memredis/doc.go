// Package memredis keeps the files of the memory tool in Redis 6.2 or later,
// over go-redis v9: on one server, behind Sentinel, or on a Redis Cluster.
//
//	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	store, err := memredis.New(client, "user-4711", nil)
//
// # What is stored
//
// All files of a scope are one hash, so each operation is atomic on a cluster
// too, and an eviction takes the whole memory of a scope or nothing of it. The
// key is
//
//	sessionstore:memory:{<scope>}
//
// with the scope escaped as in package redisstore, which has the only braces. A
// field with the name of a path holds the bytes of that file:
//
//	HGET sessionstore:memory:{user-4711} /memories/notes.md
//
// Other fields, none of which begins with a slash, hold what is known about
// files ("i:" and the path: version, size, time of use), how many files are in
// each directory ("d:"), the bytes of all files and the version of the format.
// A list beside the hash, whose key ends in ":ops", holds the names of the last
// operations, and goes when none has come for a day.
//
// # Failures
//
// Each change has a name that the server remembers for the next 1,000, so an
// operation whose reply was lost is sent again and still counts once. Connections that
// fail, MOVED, TRYAGAIN, LOADING, READONLY and the like are tried again for
// Options.RetryFor. Durability is that of the server.
//
// When that was in vain it is not known whether the change was made, unless the
// error has a method NothingDone: there was no memory left, the format is a later
// one, or the server could not be reached by a client that repeats nothing
// itself (MaxRetries -1).
//
// The caller owns the client. It must not read from replicas, and an eviction
// policy that takes any key (allkeys-…) takes memories too.
package memredis
