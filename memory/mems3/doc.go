// Package mems3 keeps the files of the memory tool in S3 or a compatible store,
// over the S3 client of aws-sdk-go-v2.
//
//	store, err := mems3.New(s3.NewFromConfig(config), "bucket", "user-4711", nil)
//
// # What is stored
//
// Each file is an object, named
//
//	<prefix>!memory/<scope>/<path below /memories>
//
// Scope and path are escaped as in all stores of this module, which leaves
// ordinary names as they are. Objects whose last part begins with an
// exclamation mark are the store's own: "!used" holds when files were read,
// "!intent" what is being renamed or deleted.
//
// # Conditions
//
// Writes carry If-Match and If-None-Match, so no edit is lost. The first write
// of a Store makes sure that the server heeds them, with five small requests;
// on one that does not, writes fail with [errors.ErrUnsupported]. A write whose
// answer was lost is recognised by the names of the last writes, which are in
// the metadata of the object.
//
// # Renames and deletes
//
// S3 renames nothing, and deletes objects one by one. So these are written down
// first, in "!intent", and every call looks for that. A call that finds one
// completes it before it does anything else, so what has died halfway is never
// seen. An edit that meets a rename either comes before it or fails with
// [memory.ErrConflict].
//
// What remains: a host that stood still in the middle of a rename or delete,
// while others completed it and used the same names again, looks for the intent
// before and after each step, and takes back what came too late. For that
// moment others can see it, and if the host dies then, a file that was moved or
// deleted can stay, or one that was made anew with the same contents is gone
// from its place. So do not let two hosts rename the same directories to and
// fro at the same time. On servers that ignore If-Match for deletes such a host
// can also delete a file of the same name.
//
// When the answer to writing an intent down was lost and the files have changed
// since then, a delete fails, and a rename if nothing shows that it was made:
// it is not known whether it was carried out.
//
// # Requests
//
// A read is 2 parallel GETs, a list 1 LIST for each 1,000 files of the scope and
// 1 GET. An edit is a read and a PUT, and a list if it makes the file longer
// and there is a limit of bytes. A new file is a list if there are limits, a PUT,
// and a look around it by a GET, a LIST and a HEAD for each directory above it.
package mems3
