// Package sessionstore keeps the transcripts of AI coding agents where they
// survive the host that ran them: in a directory, in memory, or behind any
// backend that implements two methods.
//
// An agent writes its session to local disk, one JSON object a line. A host
// that appends the same entries to a [SessionStore] can lose its disk, and
// another host can load the session and go on.
//
// # Stores
//
// [SessionStore] is the interface. What else a store can do is one small
// interface each, with one helper that calls it: [ListSessions],
// [ListSessionSummaries], [ListProjects], [ListSubkeys], [ListOrphans],
// [Delete], [Stream], [Purge]. On a store that lacks the capability they return an error that
// wraps [errors.ErrUnsupported], except that Delete does nothing and Stream
// loads.
//
// Package filestore keeps sessions in the agent's own directory layout, s3store
// in S3 and compatible stores, redisstore in Redis, pgstore in PostgreSQL.
// Package inmemory is the reference. Package conformance is the suite that every
// store must pass; run it on your own.
//
// Package host runs an agent whose session lives in a store; it is made of
// packages resume, from a store to a directory that an agent goes on from, and
// mirror, from a running agent to a store. Package session reads and changes
// sessions through any store. Package memory keeps the files of the model's
// memory tool.
//
// # Keys and entries
//
// A [Key] names a transcript by project, session and subpath. Any text is a
// valid project key or session id within the limits [MaxSegmentLen] and
// [MaxKeyLen]; stores escape what their backend can't hold, so no two keys ever
// share data.
//
// An [Entry] is the raw bytes of one JSON object. Stores keep the bytes, apart
// from line breaks between tokens. A store that is written elsewhere starts its
// Append with [Check] and has keys and entries validated like the others.
//
// # Moving sessions
//
// [Copy] copies a session, a project or everything between any two stores and
// adds only what is missing. [Verify] compares two stores.
package sessionstore
