// Package mirror brings what an agent process writes into a store, while it
// runs.
//
// The agent writes its own local files first and then prints frames
//
//	{"type":"transcript_mirror","filePath":"<config>/projects/…","entries":[…]}
//
// on its standard output, between its ordinary messages. A [Mirror] takes these
// frames, turns the path into a key and appends the entries to the store. Wrap
// the agent's output in [Mirror.Reader] and go on reading messages from that:
//
//	m, err := mirror.New(store, filepath.Join(configDir, "projects"), nil)
//	…
//	messages := m.Reader(agentStdout) // ordinary lines only
//	… read messages to the end …
//	err = m.Close(ctx)
//
// A host that splits the output itself calls [Mirror.Frame] instead. One that
// cannot change how the agent is started runs [Watch], which reads the agent's
// files as they grow.
//
// # What is promised
//
// Entries reach the store as the bytes they came in. The entries of one file
// keep their order, and a key never has two appends in flight. Different keys
// are appended in parallel, up to Options.Concurrency of them.
//
// In [Batched] mode what is pending is appended when the agent reports a result
// (the result is passed on once that has ended), when more than
// Options.MaxEntries entries or Options.MaxBytes bytes are pending, at the end
// of the stream, and by Flush and Close. All frames of a file that are pending
// then make one append, unless they exceed these limits. In [Eager] mode every
// frame is an append of its own.
//
// A result can wait as long as the tries of what was pending take.
//
// A failed append is tried again, up to Options.Attempts times in all. That is
// safe because stores keep the rule that a retried batch is stored once. A call
// that exceeds Options.CallTimeout is cancelled, and tried again once it has
// returned; see Options.NoRetryAfterTimeout for stores that do not keep the
// rule. After the last try the batch is given up: Options.OnError is told, and
// the agent goes on. An entry that no store can hold is reported alone, and
// the entries around it are appended.
//
// Nothing is dropped because a queue is full. At most Options.MaxPending bytes
// of entries are held in memory. When they are reached, Frame and Reader wait
// for the store, and so does the agent, in the end, when it writes its output.
// One frame is always accepted, so the true bound is MaxPending and the
// longest frame, and once more the frame that a Reader is collecting.
//
// A panic in the store or in a callback is an error like others. A call that
// does not return although it was cancelled keeps its key: its batch is given
// up, and later ones wait for the call, each as long as one call may take.
//
// # Batches that were given up
//
// With Options.Spill a batch that is given up is first written to a file in
// that directory. From then on every later batch of the same key goes there
// too, because it must not overtake the one before. Every Options.SpillRetry,
// when the key has more to append, and at Close, the mirror tries to deliver
// the files of the key in their order; when that has worked the key goes on as
// usual. What is left when the process ends is delivered by [Replay], or by the
// next Mirror with the same directory before it appends anything to the key.
// Replay looks at what the store holds, so a batch that had landed all the same
// is not stored twice, except where that can't be told: see there. The directory
// grows as long as the store is away. Its files are as private as the
// transcripts, with mode 0600.
//
// A damaged file is an error that names it, and keeps those behind it waiting.
// Mend it, or move it out of the directory. A file that is gone is reported as
// missing, with [ErrBatchMissing]: by the mirror that wrote it, and by whoever
// finds that it lacks between others. In both cases [Watch] with Once set brings
// in what is missing, once the others are delivered.
//
// Without Options.Spill a batch that was given up is in the agent's local file
// only, and later batches of its key are stored behind the gap. [Watch] with
// Once set brings in what is missing.
//
// When everything that is not in the store was spilled, nothing is lost and the
// agent's local files are not needed: see [Mirror.NeedsFiles].
//
// # Frames from elsewhere
//
// A path that is no transcript below the projects directory never becomes a
// key. It is reported to Options.OnForeign as a [ForeignError], at the first
// such frame and at every later one. Usually it means that the agent runs with
// another configuration directory than the host believes.
//
// A path that is a transcript there becomes the key that it names: an agent can
// name another project, and its frames are stored there. Where agents are not
// trusted with each other's sessions, give the mirror a store that refuses the
// keys of others, and Replay a ReplayOptions.Accept.
//
// # What is left to the caller
//
// Read the stream to its end: frames follow the last result. Do not mirror and
// watch the same session at the same time, and let one process at a time mirror
// a session: two writers store the entries that have no uuid twice.
package mirror
