// Package s3store keeps transcripts in Amazon S3, and in stores that speak its
// protocol, over the AWS SDK for Go v2.
//
//	client := s3.NewFromConfig(cfg)
//	store, err := s3store.New(client, "my-bucket", nil)
//
// A [Store] has every optional capability of package sessionstore, and further
// [Store.Compact], [Store.Repair] and [Store.LifecycleRule]. End it with
// [Store.Close]. docs/s3.md in the repository has permissions, costs, and what
// the various servers need. It needs no conditional writes, no multipart uploads
// and no particular order of lists.
//
// # Append
//
// A batch is one object, written by one request:
//
//	<prefix><project>/<session>/part-<13 digits>-<6 hex>.jsonl
//
// which is what the reference adapters of the agent SDK write, so that either
// reads the sessions of the other. The number is the host's clock in
// milliseconds, but always higher than what the handle has seen or written: a
// handle lists a transcript before its first append to it, and every Load,
// Stream and list of parts raises the clock. The suffix keeps writers apart. A
// batch that is appended again after a failure of unknown outcome goes to the
// same object again.
//
// A retry keeps its place: a part that failed is written again under its own
// name, also if another host has appended, and been read, in between. Two hosts
// that append within a few milliseconds of each other without loading may each
// come before parts of the other that a reader has seen already. A host that
// has loaded a transcript comes behind what it loaded, whatever its clock says.
//
// # Load
//
// A read lists the objects, fetches several at a time, and drops repeats. It
// lists twice, because a list is no snapshot, and again when an object has gone
// meanwhile. A body that breaks off, a list that does not go on, a line that is
// no entry are errors. Stream holds some MiB.
//
// # Compaction
//
// Parts pile up, so small ones are put together in the background, and on
// demand by Compact. A compacted object has the names of the parts in it, and the
// number of entries of each, in its metadata. Readers take the union of these
// segments by name: that is why it makes no difference who compacts what, at the
// same time or with lists that are out of date, and where a host dies doing it.
//
// # Lists
//
// A small index object per session and handle, below <prefix>!index/, carries
// the time of the session, and its summary. The first append of a handle writes
// it beside the part; after that it follows within a second, off the path of
// appends. Lists wait for the index objects of their own handle, so they are
// exact; those of another host may be a second behind, and stay so if it dies
// there, until the next append or Repair. Sessions without index object, which
// other software has written, are found all the same, with a further request for
// each.
package s3store
