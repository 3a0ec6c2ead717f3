// Package session reads and changes stored sessions, through any
// [sessionstore.SessionStore]: it lists them with titles, returns the
// conversation as the agent sees it, looks into subagents, renames, tags,
// forks and deletes.
//
// A transcript is not a list of messages. It is a graph: each entry names its
// parent, and branches, repeats, compactions and parallel tool calls make more
// than one path. [Messages] follows the path that the agent follows. The answers
// are those of the official agent SDK; docs/session.md lists where and why they
// differ.
//
// # Ids
//
// Session ids are UUIDs in form: 8-4-4-4-12 hexadecimal digits. With any other
// id, functions that read answer as for an unknown session and functions that
// change fail, before the store is called.
//
// # What stores must be able to do
//
// Every function works with the two methods of a SessionStore, except that
// [List] and [Latest] need [sessionstore.SessionLister], and [Subagents] needs
// [sessionstore.SubkeyLister]. With [sessionstore.SummaryLister] a list reads
// no transcript, and with [sessionstore.Streamer] long transcripts are read in
// bounded memory.
package session
