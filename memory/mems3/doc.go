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
// ordinary names as they are; a last part of more than 200 bytes is cut in two
// by "!/". Objects whose last part begins with an exclamation mark are the
// store's own: "!used" holds when files were read, "!intent" what is being
// renamed or deleted.
//
// # Conditions
//
// Writes carry If-Match and If-None-Match, so no edit is lost. The first write
// of a Store makes sure that the server heeds them, with five small requests,
// or seven if it wants etags without quotes; on one that does not heed them,
// writes fail with [errors.ErrUnsupported]. A write whose answer was lost is
// recognised by the names of the last writes, which are in the metadata of the
// object.
//
// # Renames and deletes
//
// S3 renames nothing, and deletes objects one by one. So these are written down
// first, in "!intent", which only one host can make at a time, and every call
// looks for that. A call that finds one completes it before it does anything
// else, so what has died halfway is never seen. An edit that meets a rename
// either comes before it or fails with [memory.ErrConflict].
//
// No condition of S3 can depend on another object, so a host that stood still
// while others have completed its rename can always send a request that comes
// too late. Such a request changes nothing that can be seen. Before a file is
// moved or deleted it is written over with itself behind a line that is
// different each time, and a copy is made in the same way. Such an object counts
// only while its intent is there; everybody else sees the old file, and no copy.
// Each further step is bound to the etag of that line. So any number of hosts
// can rename the same directories to and fro and die while they do, and no file
// is lost or there twice.
//
// That rests on conditions that the server checks and carries out in one step,
// for deletes too. Where it ignores If-Match for deletes, or looks first and then
// deletes, as servers over a file system do, a host that stood still within that
// request can delete a file that others have made anew under the same name.
//
// When others make files in the new place at the very moment in which a directory
// is renamed, those stay, and so do the files of the same names in the old place;
// the error says how many were not moved.
//
// When the answer to writing an intent down was lost and the files have changed
// since then, a delete fails, and a rename if nothing shows that it was made:
// it is not known whether it was carried out.
//
// Expire holds each file in the same way before it deletes it, so one that is
// read or edited meanwhile stays: 5 requests for each file that is old.
//
// # Requests
//
// A read is 2 parallel GETs, a list 1 LIST for each 1,000 files of the scope
// and 1 GET. An edit is a read and a PUT, and a list if it makes the file
// longer and there is a limit of bytes. A new file is a list if there are
// limits, a PUT, and a look around it by a GET, a LIST and a HEAD for each
// directory above it. A delete or rename is 7 requests and for each file 5 or 8,
// of which 2 or 4 carry the file. A list asks for each file whose length is a
// multiple of 4,096 what it is, by a HEAD.
package mems3
