// Package redisstore keeps transcripts in Redis 6.2 or later, over go-redis v9:
// on one server, behind Sentinel, or on a Redis Cluster.
//
//	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	store, err := redisstore.New(client, nil)
//
// A [Store] has every optional capability of package sessionstore, and
// [Store.Repair]. docs/redis.md in the repository tells how to run the server.
//
// # Append
//
// A batch is stored by one transaction: RPUSH carries the entries, and a script
// takes repeats out again, checks that the transcript is whole and updates
// everything else. That is one round trip, whatever the length of the batch;
// only one of more than 64 MiB is sent ahead in pieces, to lists of their own,
// and moved at the end. Readers see a batch whole or not at all. On a cluster
// the index lies in other slots; it is written by a second, parallel round
// trip.
//
// Repeats are found by a set of 16 bytes per uuid, beside the entries. Entries
// without uuid are covered by the identity of their batch, which is kept there
// too, so a batch that is appended again through the same Store after a failure
// of unknown outcome is stored once. The store repeats itself in the same way:
// connections that fail, MOVED, ASK, TRYAGAIN, CLUSTERDOWN, LOADING, READONLY
// and the like are retried for Options.RetryFor, and a batch that has landed
// before is not added twice.
//
// # Load
//
// A transcript is read in windows of some MiB, so a long one does not hold up
// the server. The windows of one read belong to the same transcript as it was
// when the read began. The stored counts say how much there must be: when a key
// or a part of one has been evicted or lost, the error is
// [sessionstore.ErrCorrupt], in Append too; never a shorter transcript.
//
// # Index
//
// Lists read the index of a project and then what each session says of itself,
// in two round trips, or three where something of the index has no data. It is
// only a hint: a session without data is skipped and taken out of the index, an
// append notes its session again, and Repair rebuilds it from the data. A
// damaged session is listed, so that reading it tells. No operation but Repair
// scans the keys.
//
// Summaries are kept by Append. Repeats and several writers can leave one
// behind for a while; ListSessionSummaries reads the missing entries then and
// stores the result.
//
// # What the caller keeps
//
// The caller owns the client: TLS, credentials, pool, timeouts. The client must
// not read from replicas. Durability is that of the server: see
// Options.WaitReplicas and the section on failover in docs/redis.md.
package redisstore
