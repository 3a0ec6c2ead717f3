// Package resume brings a stored session back to where an agent can continue
// it. [Materialize] writes the session into a private temporary directory that
// is laid out as the agent's config directory, together with what the agent
// needs to start, and the host starts the agent with it:
//
//	s, err := resume.Materialize(ctx, store, resume.Options{SessionID: id})
//	if err != nil { … }
//	defer s.Close()
//	cmd := exec.Command("claude", s.Args()...)
//	cmd.Env = s.Env()
//
// Package host does that and the rest of driving an agent.
//
// # What is written
//
//	<dir>/projects/<project>/<session>.jsonl
//	<dir>/projects/<project>/<session>/<subpath>.jsonl
//	<dir>/projects/<project>/<session>/<subpath>.meta.json
//	<dir>/.credentials.json, .claude.json, settings.json, cowork_settings.json
//	<dir>/.sessionstore-session.json
//
// Files have mode 0600 and directories 0700. Entries are lines, byte for byte.
// The last agent_metadata entry of a subpath transcript is its .meta.json,
// without its type, and no line. The directory "projects" can be opened with
// package filestore.
//
// Subpaths come from the store, so they are not trusted: those that are empty,
// absolute or begin with a drive, that hold a backslash, a NUL or a segment
// that is empty, "." or "..", are left out and reported. All writing goes
// through [os.Root]; nothing leads out of the directory of the session.
//
// Credentials come without refresh tokens: when two hosts refresh with the same
// token, one of them is logged out. Settings come without plugins and
// marketplaces, which would be installed anew for every resume. Missing files
// are fine; one of more than 16 MiB is an error. On macOS the credentials come from the keychain when the agent's
// default config directory is used and the environment holds no key. With
// another config directory the agent looks for another entry of the keychain;
// there, put a key or a token in the environment.
//
// # Memory and time
//
// Transcripts stream into their files, subpaths in parallel with a bound, so a
// session of any size takes a few MiB if the store is a
// [sessionstore.Streamer]. Otherwise as many transcripts are in memory as are
// read in parallel. Each call of the store has [Options].CallTimeout. For a
// stream this is the longest time without a further entry. A store that does
// not return when its context ends is left behind: it is no longer waited for,
// and its goroutine ends when the store returns.
//
// # The only other copy
//
// The resumed agent writes to the directory. What the mirror has stored is then
// the only other copy of the new turns, and Close deletes the directory. If the
// mirror lost batches, [Options].KeepOnMirrorLoss makes Close keep it, and of it
// the directory "projects" and the record only: no file with credentials or
// settings, nor what the agent may have made of them.
//
// The directory is removed on every way out of Materialize that returns an
// error. A host that is killed leaves it behind, in its temporary directory,
// under a name that begins with [DirPrefix]. The record in it, [RecordFile], says
// whose session it is: see [Leftover], and function host.Recover. As long as the
// session is open, the directory is locked where the system has flock(2).
package resume
