package memorytest

import (
	"slices"
	"strings"

	"github.com/sessionstore/sessionstore/memory"
)

func cases() []testCase {
	return slices.Concat(listCases, readCases, writeCases, limitCases, deleteCases, renameCases,
		pathCases, scopeCases, contextCases, expireCases, concurrencyCases, outageCases)
}

const dir = memory.Root + "/"

var listCases = []testCase{
	{"List/Empty", "A path where nothing is gives an empty list.", 0, func(e *env) {
		e.wantList(memory.Root)
		e.wantList(dir + "nothing")
	}},
	{"List/Sorted", "List returns the files at path or below it, sorted by path.", 0, func(e *env) {
		paths := []string{dir + "b", dir + "a.md", dir + "a/x/y", dir + "a/x.md", dir + "a-b", dir + "Z", dir + "é", dir + "\U0001f44b", dir + "\ufb01"}
		for _, p := range paths {
			e.create(p, "text")
		}
		slices.Sort(paths)
		e.wantList(memory.Root, paths...)
	}},
	{"List/Below", "List returns the files at path or below it, sorted by path.", 0, func(e *env) {
		for _, p := range []string{"a/1", "a/2/3", "ab", "a-", "a.md", "b/a/1", "a!", "a0"} {
			e.create(dir+p, "text")
		}
		e.wantList(dir+"a", dir+"a/1", dir+"a/2/3")
		e.wantList(dir+"a/2", dir+"a/2/3")
		e.wantList(dir+"ab", dir+"ab")
	}},
	{"List/Sizes", "Size of a file in bytes.", 0, func(e *env) {
		e.create(dir+"empty", "")
		e.create(dir+"some", "äöü\x00\n")
		sizes := map[string]int64{}
		for _, f := range e.list(memory.Root) {
			sizes[f.Path] = f.Size
		}
		if sizes[dir+"empty"] != 0 || sizes[dir+"some"] != 8 {
			e.Fatalf("List gives the sizes %v, want 0 and 8", sizes)
		}
	}},
	{"List/Many", "List returns the files at path or below it, sorted by path.", 0, func(e *env) {
		n := e.heavy(1_100, 60)
		var want []string
		e.parallel(n, func(i int) { e.create(numbered(i), "x") })
		for i := range n {
			want = append(want, numbered(i))
		}
		e.wantList(memory.Root, want...)
		e.rename(dir+"many", dir+"moved")
		if got := e.list(dir + "moved"); len(got) != n {
			e.Fatalf("List has %d files after a rename of their directory, want %d", len(got), n)
		}
		e.delete(dir + "moved")
		e.wantList(memory.Root)
	}},
}

// texts are contents that something on the way might change.
var texts = []string{
	"", "text", "\n", "a\r\nb\r\n", "a\rb", "no newline at the end", "\ufeffBOM", "  spaces  \t", "\x00", "a\x00b\x00",
	"\xff\xfe not UTF-8", "\\x41 \\000 \\\\", "'; DROP TABLE x; --", "$1 $& %s %d {} `", "\u2028\u2029", "👋 \U0010ffff",
	strings.Repeat("line\n", 10_000),
}

var readCases = []testCase{
	{"Read/Missing", "There is none: ErrNotFound.", 0, func(e *env) {
		e.wantMissing(dir + "nothing")
		e.wantMissing(dir + "no/thing")
		e.create(dir+"file", "text")
		e.wantMissing(dir + "file/below")
	}},
	{"Read/Directory", "There is none: ErrNotFound, for a directory too.", 0, func(e *env) {
		e.create(dir+"a/b/c", "text")
		e.wantMissing(memory.Root)
		e.wantMissing(dir + "a")
		e.wantMissing(dir + "a/b")
	}},
	{"Read/Bytes", "Read returns a file, byte for byte as it was written.", 0, func(e *env) {
		for i, text := range texts {
			e.create(numbered(i), text)
		}
		for i, text := range texts {
			e.want(numbered(i), text)
		}
	}},
	{"Read/Large", "Read returns a file, byte for byte as it was written.", 0, func(e *env) {
		text := strings.Repeat("0123456789abcdef", e.heavy(4<<20, 64<<10)/16)
		e.create(dir+"large", text)
		e.want(dir+"large", text)
	}},
	{"Read/Max", "It is longer than max bytes: ErrTooLarge.", 0, func(e *env) {
		e.create(dir+"file", "12345")
		if f, err := e.s.Read(e.ctx, dir+"file", 5); err != nil || string(f.Data) != "12345" {
			e.Fatalf("Read of 5 bytes with a max of 5 = %q, %v, want the file", f.Data, err)
		}
		_, err := e.s.Read(e.ctx, dir+"file", 4)
		e.wantError("Read of 5 bytes with a max of 4", err, memory.ErrTooLarge)
	}},
	{"Read/OwnBytes", "Data: the caller's own.", 0, func(e *env) {
		e.create(dir+"file", "text")
		clear(e.read(dir + "file").Data)
		e.want(dir+"file", "text")
	}},
	{"Read/SameVersion", "Version stands for these bytes in this place until the next write.", 0, func(e *env) {
		e.create(dir+"file", "text")
		if a, b := e.read(dir+"file"), e.read(dir+"file"); a.Version != b.Version {
			e.Fatalf("two Reads without a write between give the versions %q and %q, want one", a.Version, b.Version)
		}
	}},
}

var writeCases = []testCase{
	{"Write/Create", "An empty ifVersion creates it.", 0, func(e *env) {
		e.create(dir+"file", "text")
		e.want(dir+"file", "text")
		e.create(dir+"deep/er/file", "more")
		e.want(dir+"deep/er/file", "more")
	}},
	{"Write/CreateExisting", "Anything at the path, a directory too, is ErrExists.", 0, func(e *env) {
		e.create(dir+"file", "old")
		e.wantError("Write of a new file over a file", e.write(dir+"file", "new", ""), memory.ErrExists)
		e.want(dir+"file", "old")
		e.wantError("Write of the same new file", e.write(dir+"file", "old", ""), memory.ErrExists)
	}},
	{"Write/CreateOverDirectory", "Anything at the path, a directory too, is ErrExists.", 0, func(e *env) {
		e.create(dir+"d/file", "old")
		e.wantError("Write of a new file over a directory", e.write(dir+"d", "new", ""), memory.ErrExists)
		e.wantList(memory.Root, dir+"d/file")
	}},
	{"Write/CreateBelowFile", "A file in the place of a parent directory is ErrNotDirectory.", 0, func(e *env) {
		e.create(dir+"d/file", "old")
		e.wantError("Write below a file", e.write(dir+"d/file/x", "new", ""), memory.ErrNotDirectory)
		e.wantError("Write far below a file", e.write(dir+"d/file/x/y", "new", ""), memory.ErrNotDirectory)
		e.wantList(memory.Root, dir+"d/file")
	}},
	{"Write/Replace", "Any other ifVersion replaces the file that Read has returned with that version.", 0, func(e *env) {
		e.create(dir+"file", "1")
		for _, text := range []string{"22", "333", "", "1", "1"} {
			if err := e.write(dir+"file", text, e.read(dir+"file").Version); err != nil {
				e.Fatalf("Write with the version just read = %v, want nil", err)
			}
			e.want(dir+"file", text)
		}
	}},
	{"Write/Stale", "If that is not what is there now, nothing is written and the error is ErrConflict.", 0, func(e *env) {
		e.create(dir+"file", "1")
		old := e.read(dir + "file").Version
		if err := e.write(dir+"file", "2", old); err != nil {
			e.Fatalf("Write with the version just read = %v, want nil", err)
		}
		e.wantError("Write with an old version", e.write(dir+"file", "3", old), memory.ErrConflict)
		e.want(dir+"file", "2")
	}},
	{"Write/StaleSameText", "If that is not what is there now, nothing is written and the error is ErrConflict.", 0, func(e *env) {
		e.create(dir+"file", "1")
		old := e.read(dir + "file").Version
		if err := e.write(dir+"file", "2", old); err != nil {
			e.Fatalf("Write with the version just read = %v, want nil", err)
		}
		e.wantError("Write with an old version of what is there", e.write(dir+"file", "2", old), memory.ErrConflict)
	}},
	{"Write/ReplaceMissing", "If that is not what is there now, nothing is written and the error is ErrConflict.", 0, func(e *env) {
		e.create(dir+"file", "1")
		old := e.read(dir + "file").Version
		e.delete(dir + "file")
		e.wantError("Write with the version of a deleted file", e.write(dir+"file", "2", old), memory.ErrConflict)
		e.wantError("Write with a version of another file", e.write(dir+"other", "2", old), memory.ErrConflict)
		e.wantList(memory.Root)
		e.create(dir+"file", "another")
		e.wantError("Write with a version from before a delete", e.write(dir+"file", "2", old), memory.ErrConflict)
		e.want(dir+"file", "another")
	}},
	{"Write/UnknownVersion", "If that is not what is there now, nothing is written and the error is ErrConflict.", 0, func(e *env) {
		e.create(dir+"file", "1")
		for _, v := range []string{"x", "0", "'", "\"\"", "*", strings.Repeat("f", 64)} {
			e.wantError("Write with the version "+v, e.write(dir+"file", "2", v), memory.ErrConflict)
		}
		e.want(dir+"file", "1")
	}},
	{"Write/CopiesData", "The store copies data.", 0, func(e *env) {
		data := []byte("text")
		if err := e.s.Write(e.ctx, dir+"file", data, "", memory.Limits{}); err != nil {
			e.Fatalf("Write = %v, want nil", err)
		}
		clear(data)
		e.want(dir+"file", "text")
	}},
	{"Write/Durable", "On a nil error the file is durable and every later Read returns it.", Reopen, func(e *env) {
		e.create(dir+"file", "1")
		other := e.reopen()
		other.want(dir+"file", "1")
		if err := other.write(dir+"file", "2", other.read(dir+"file").Version); err != nil {
			e.Fatalf("Write on another handle = %v, want nil", err)
		}
		e.want(dir+"file", "2")
		other.create(dir+"new", "3")
		e.want(dir+"new", "3")
	}},
}

func (e *env) write(path, text, ifVersion string) error {
	return e.s.Write(e.ctx, path, []byte(text), ifVersion, memory.Limits{})
}

var limitCases = []testCase{
	{"Limits/Files", "A write that adds a file or bytes beyond the limits is ErrLimit and changes nothing.", 0, func(e *env) {
		limits := memory.Limits{Files: 2}
		for _, p := range []string{"1", "d/2"} {
			if err := e.s.Write(e.ctx, dir+p, []byte("text"), "", limits); err != nil {
				e.Fatalf("Write of file %s with a limit of 2 files = %v, want nil", p, err)
			}
		}
		e.wantError("Write of a third file with a limit of 2", e.s.Write(e.ctx, dir+"3", nil, "", limits), memory.ErrLimit)
		e.wantList(memory.Root, dir+"1", dir+"d/2")
		e.delete(dir + "1")
		if err := e.s.Write(e.ctx, dir+"3", nil, "", limits); err != nil {
			e.Fatalf("Write after a delete has made room = %v, want nil", err)
		}
	}},
	{"Limits/Bytes", "A write that adds a file or bytes beyond the limits is ErrLimit and changes nothing.", 0, func(e *env) {
		limits := memory.Limits{Bytes: 10}
		e.create(dir+"1", "12345")
		if err := e.s.Write(e.ctx, dir+"2", []byte("12345"), "", limits); err != nil {
			e.Fatalf("Write up to the limit of bytes = %v, want nil", err)
		}
		e.wantError("Write of a byte too much", e.s.Write(e.ctx, dir+"3", []byte("1"), "", limits), memory.ErrLimit)
		e.wantError("Write that makes a file longer", e.s.Write(e.ctx, dir+"2", []byte("123456"), e.read(dir+"2").Version, limits), memory.ErrLimit)
		e.want(dir+"2", "12345")
		e.wantList(memory.Root, dir+"1", dir+"2")
		e.rename(dir+"1", dir+"moved")
		e.delete(dir + "moved")
		if err := e.s.Write(e.ctx, dir+"3", []byte("12345"), "", limits); err != nil {
			e.Fatalf("Write after a delete has made room = %v, want nil", err)
		}
	}},
	{"Limits/Shrink", "One that adds neither is never refused for them.", 0, func(e *env) {
		e.create(dir+"1", "1234567890")
		e.create(dir+"2", "12345")
		limits := memory.Limits{Files: 1, Bytes: 5}
		for _, text := range []string{"0123456789", "123", ""} {
			if err := e.s.Write(e.ctx, dir+"1", []byte(text), e.read(dir+"1").Version, limits); err != nil {
				e.Fatalf("Write of no more bytes than before = %v, want nil", err)
			}
		}
		if err := e.s.Write(e.ctx, dir+"3", nil, "", memory.Limits{Bytes: 1}); err != nil {
			e.Fatalf("Write of an empty file with a limit of bytes alone = %v, want nil", err)
		}
	}},
}
