package memorytest

import (
	"strings"

	"github.com/sessionstore/sessionstore/memory"
)

var deleteCases = []testCase{
	{"Delete/File", "Delete removes a file.", 0, func(e *env) {
		e.create(dir+"file", "1")
		e.create(dir+"file2", "2")
		e.delete(dir + "file")
		e.wantMissing(dir + "file")
		e.want(dir+"file2", "2")
		e.wantList(memory.Root, dir+"file2")
		e.create(dir+"file", "again")
		e.want(dir+"file", "again")
	}},
	{"Delete/Directory", "Delete removes a directory with all in it.", 0, func(e *env) {
		for _, p := range []string{"d/1", "d/e/2", "d/e/f/3", "d2", "d-/1", "d.md", "x/d/1"} {
			e.create(dir+p, "text")
		}
		e.delete(dir + "d")
		e.wantList(memory.Root, dir+"d-/1", dir+"d.md", dir+"d2", dir+"x/d/1")
	}},
	{"Delete/Missing", "Nothing there is ErrNotFound.", 0, func(e *env) {
		e.create(dir+"file", "text")
		for _, p := range []string{"nothing", "fil", "file2", "no/thing", "file/below"} {
			e.wantError("Delete("+p+")", e.s.Delete(e.ctx, dir+p), memory.ErrNotFound)
		}
		e.wantList(memory.Root, dir+"file")
	}},
	{"Delete/Root", "The root itself is ErrInvalidPath.", 0, func(e *env) {
		e.create(dir+"file", "text")
		e.wantError("Delete of the root", e.s.Delete(e.ctx, memory.Root), memory.ErrInvalidPath)
		e.want(dir+"file", "text")
	}},
	{"Delete/LastFile", "A directory is there while a file is below it.", 0, func(e *env) {
		e.create(dir+"a/b/file", "text")
		e.delete(dir + "a/b/file")
		e.wantError("Delete of a directory without files", e.s.Delete(e.ctx, dir+"a"), memory.ErrNotFound)
		e.create(dir+"a/b", "a file")
		e.delete(dir + "a/b")
		e.create(dir+"a", "a file")
		e.want(dir+"a", "a file")
	}},
}

var renameCases = []testCase{
	{"Rename/File", "Rename moves a file.", 0, func(e *env) {
		e.create(dir+"a", "text\x00\xff")
		e.rename(dir+"a", dir+"new/place/b")
		e.wantMissing(dir + "a")
		e.want(dir+"new/place/b", "text\x00\xff")
		e.wantList(memory.Root, dir+"new/place/b")
		e.create(dir+"a", "another")
		e.want(dir+"new/place/b", "text\x00\xff")
		if err := e.write(dir+"new/place/b", "edited", e.read(dir+"new/place/b").Version); err != nil {
			e.Fatalf("Write after a rename, with the version just read = %v, want nil", err)
		}
	}},
	{"Rename/Directory", "Rename moves a directory with all in it.", 0, func(e *env) {
		for _, p := range []string{"d/1", "d/e/2", "d/e/f/3", "d2", "d-"} {
			e.create(dir+p, p)
		}
		e.rename(dir+"d", dir+"to/here")
		e.wantList(memory.Root, dir+"d-", dir+"d2", dir+"to/here/1", dir+"to/here/e/2", dir+"to/here/e/f/3")
		e.want(dir+"to/here/e/f/3", "d/e/f/3")
		e.create(dir+"d", "now a file")
	}},
	{"Rename/Missing", "Nothing at from is ErrNotFound.", 0, func(e *env) {
		e.create(dir+"file", "text")
		for _, p := range []string{"nothing", "fil", "no/thing", "file/below"} {
			e.wantError("Rename("+p+")", e.s.Rename(e.ctx, dir+p, dir+"new"), memory.ErrNotFound)
		}
		e.wantError("Rename of nothing to a file", e.s.Rename(e.ctx, dir+"nothing", dir+"file"), memory.ErrNotFound)
		e.wantList(memory.Root, dir+"file")
	}},
	{"Rename/OntoFile", "Anything at to is ErrExists.", 0, func(e *env) {
		e.create(dir+"a", "new")
		e.create(dir+"b", "keep")
		e.create(dir+"d/x", "in d")
		e.wantError("Rename of a file to a file", e.s.Rename(e.ctx, dir+"a", dir+"b"), memory.ErrExists)
		e.wantError("Rename of a directory to a file", e.s.Rename(e.ctx, dir+"d", dir+"b"), memory.ErrExists)
		e.want(dir+"a", "new")
		e.want(dir+"b", "keep")
		e.want(dir+"d/x", "in d")
	}},
	{"Rename/OntoDirectory", "Anything at to is ErrExists.", 0, func(e *env) {
		e.create(dir+"a", "new")
		e.create(dir+"d/x", "in d")
		e.create(dir+"e/y", "in e")
		e.wantError("Rename of a file to a directory", e.s.Rename(e.ctx, dir+"a", dir+"d"), memory.ErrExists)
		e.wantError("Rename of a directory to a directory", e.s.Rename(e.ctx, dir+"d", dir+"e"), memory.ErrExists)
		e.wantError("Rename of a file to its directory", e.s.Rename(e.ctx, dir+"d/x", dir+"d"), memory.ErrExists)
		e.wantList(memory.Root, dir+"a", dir+"d/x", dir+"e/y")
	}},
	{"Rename/BelowFile", "A file in the place of a parent of to is ErrNotDirectory.", 0, func(e *env) {
		e.create(dir+"a", "new")
		e.create(dir+"b", "keep")
		e.create(dir+"d/x", "in d")
		e.wantError("Rename of a file below a file", e.s.Rename(e.ctx, dir+"a", dir+"b/c"), memory.ErrNotDirectory)
		e.wantError("Rename of a directory below a file", e.s.Rename(e.ctx, dir+"d", dir+"b/c/d"), memory.ErrNotDirectory)
		e.wantList(memory.Root, dir+"a", dir+"b", dir+"d/x")
	}},
	{"Rename/Refused", "What CheckRename refuses is ErrInvalidPath.", 0, func(e *env) {
		e.create(dir+"d/x", "text")
		for _, p := range [][2]string{
			{memory.Root, dir + "x"}, {memory.Root, memory.Root}, {dir + "d", memory.Root},
			{dir + "d", dir + "d/e"}, {dir + "d", dir + "d/x/y"}, {dir + "d/x", dir + "d/x/y"}, {dir + "d", dir + "d"},
		} {
			e.wantError("Rename("+strings.Join(p[:], ", ")+")", e.s.Rename(e.ctx, p[0], p[1]), memory.ErrInvalidPath)
		}
		e.wantList(memory.Root, dir+"d/x")
	}},
}
