// Package memdir keeps the files of the memory tool in a local directory.
//
//	store, err := memdir.Open("/var/lib/agent/memory", "user-4711", nil)
//
// Each scope is a directory in the given one, and each file of the memory an
// ordinary file in it, to be read and edited with any program. Names of ASCII
// letters, digits, '-', '_' and '.' stay as they are; every other byte is
// written as '!' and two hexadecimal digits, as are dots at either end of a
// name. So names are safe on every disk, and no two of them become one. What
// has another name in the directory is not part of the memory.
//
// # Safety
//
// Everything goes through [os.Root], so no link leads out of the scope, also
// not one that is put there during a call. Links within it are followed.
//
// A file is written beside its place, synced, and renamed into it: a crash
// leaves the old file or the new one. A directory is deleted by renaming it out
// of the way first. What a crash leaves behind is removed when the scope is
// next opened for writing and first written to. Those who write are kept apart
// by flock(2) on the directory of the scope, between processes too; on systems
// without it only within one Store. A list waits for them, so it shows no rename
// halfway where there is flock(2); to read a file never waits.
//
// # Time of use
//
// The modification time of a file is when it was last used: a read that comes
// more than [memory.UseInterval] after it moves it.
//
// # Letter case
//
// On a disk that takes names that differ only in letter case for one, the
// second of them is refused with [memory.ErrExists].
package memdir
