// Package filestore keeps transcripts in a directory, in the layout of the
// agent itself: an existing ~/.claude/projects can be opened as a store, and
// the agent can resume what a store has written.
//
//	<project>/<session>.jsonl                main transcript
//	<project>/<session>/<subpath>.jsonl      subpath transcript
//	<project>/<session>/<subpath>.meta.json  its agent_metadata entry
//	.sessionstore/format.json                version of this layout
//	.sessionstore/summaries/<project>/<session>.summary
//
// A transcript has one entry a line, byte for byte. Names that agents use stand
// as they are. In others, bytes that are not safe in a file name are escaped
// with '!' and two hexadecimal digits, and so are a leading or trailing dot and
// the endings .jsonl and .meta.json, so that different keys never share a file.
// All access goes through [os.Root]: neither a key nor a symbolic link leads
// out of the directory. Links inside it are followed.
//
// # What the layout cannot hold
//
// An agent_metadata entry of a subpath transcript is no line but a sidecar, as
// the agent has it: the last one stays, without its type, and Load gives it
// first. Its uuid counts like that of a line as long as it is there. In a main
// transcript it is a line like any other.
//
// A file does not say how many entries it should have: when somebody cuts off
// its end at a line, the rest is a whole transcript.
//
// # Summaries
//
// Every append keeps the summary of its session in a file that no agent reads,
// with the size, times and inode of the transcript that it stands for. A list of
// summaries opens only those transcripts which don't fit: the agent has written
// to them, or a crash came between an append and its summary. It folds what was
// added since, and keeps the result. From the beginning it reads transcripts
// that shrank or were replaced, which their inode tells, when that was made, and
// the first and last bytes; those without summary, and now and then one
// where an added entry changes the summary and could be a repeat of an earlier
// one. So the first list of a directory that only the agent has written to reads
// all of it; [Store.SessionSummary] reads one transcript, and package session
// uses it for pages.
//
// Transcripts only grow. One that is changed in place before it grows, and keeps
// its first bytes and those before what was added, keeps its old summary. Where
// the system does not tell when a file was made, so does one that is replaced
// like that and gets the same inode.
//
// A summary that can't be written is made again by whoever needs it next, so it
// never fails an append. A store that is open for reading keeps summaries in
// memory, up to 32 MB, as every store does. The
// directory may be deleted at any time.
//
// Summaries hold prompts and titles. They go with their sessions. Those of
// transcripts that somebody else has deleted, such as the agent that cleans up,
// go when a store that may write next lists the sessions or summaries of the
// project. When the project has gone as a whole, they go with a list of
// projects. Purge and [Store.DropStrays] remove them in all projects. A store
// that is open for reading removes nothing.
//
// # What is promised
//
// A batch is appended with one write at the end of the file, under a lock, and
// taken back if it fails halfway; readers see all of it or nothing. A batch that
// brings new metadata puts that in place last. A writer that is killed while it
// writes can leave part of its batch, which was not acknowledged. A last line
// that was cut off is never glued to the next: it becomes a bad line, which is
// passed over and reported to Options.OnSkip. The same goes for anything else in
// the files that is no entry: it never hides what lies around it. A last line
// that is whole counts, line feed or not. Repeats of a uuid that other writers
// have left are dropped on reading.
//
// What cannot be read is never taken for nothing. A directory without
// permission or on a bad disk is an error when its contents are listed.
// ListProjects and ListOrphans list it, since it may hold something.
// Lists of sessions, summaries and subkeys, and Purge, go on elsewhere, and return
// what they have found or deleted together with the error. Names that stand for no key, and links that
// lead nowhere, back or out of the directory, are passed over in lists and
// reported to Options.OnSkip. Once the directory of the store itself has been
// deleted, everything fails.
//
// Without Options.Fsync a stored batch survives the death of the process. With
// it, it survives a power failure as well, new file names included, as far as
// the disk keeps what it says.
//
// To know which uuids a transcript holds, a store reads it when it first
// appends to it, and later only what others have added. It remembers some 40
// bytes for each of up to a million uuids, and summaries.
//
// A directory written by a later version in another format is refused by Open.
//
// # What is left to the caller
//
// Several stores and processes may use one directory at the same time: they
// lock the transcripts and project directories with flock(2), and leave no lock
// files behind. The agent knows no locks. It may append while a store does,
// since both only ever add at the end, but do not delete a session that it is
// writing. On network file systems flock may reach no further than one
// machine; there, let one machine write. On systems without flock, Windows
// among them, one Store at a time may write to a directory.
//
// On a disk that folds letter case, a key that differs from an existing one only
// in case is refused with [sessionstore.ErrInvalidKey].
//
// Files are created with mode 0600 and directories with 0700. Nothing is
// encrypted, and nothing is deleted unless Delete or Purge is called.
package filestore
