package memorytest

import (
	"context"
	"errors"
	"strings"

	"github.com/sessionstore/sessionstore/memory"
)

func onDelete(f func(b *broken, p string, del func(p string) error) error) func(b *broken) {
	return func(b *broken) {
		del := b.delete
		b.delete = func(ctx context.Context, p string) error {
			return f(b, p, func(p string) error { return del(ctx, p) })
		}
	}
}

func onRename(f func(b *broken, from, to string, rename func(from, to string) error) error) func(b *broken) {
	return func(b *broken) {
		rename := b.rename
		b.rename = func(ctx context.Context, from, to string) error {
			return f(b, from, to, func(from, to string) error { return rename(ctx, from, to) })
		}
	}
}

var changeMistakes = []mistake{
	{name: "a deleted file stays", want: []string{"Delete/*?", "Delete/File", "Limits/*?", "Scopes/Apart?", "Write/ReplaceMissing?", "Paths/Longest?", "List/Many?", "Context/Done?"}, make: onDelete(func(_ *broken, p string, del func(string) error) error {
		if p == dir+"file" {
			return nil
		}
		return del(p)
	})},
	{name: "a directory is not deleted", want: []string{"Delete/Directory", "List/Many", "Scopes/Apart"}, make: onDelete(func(b *broken, p string, del func(string) error) error {
		if below(b, p) && p != memory.Root {
			return errDown
		}
		return del(p)
	})},
	{name: "deletes by prefix", want: []string{"Delete/File", "Delete/Directory"}, make: onDelete(func(b *broken, p string, del func(string) error) error {
		err := del(p)
		list, _ := b.Store.List(context.Background(), memory.Root)
		for _, f := range list {
			if err == nil && strings.HasPrefix(f.Path, p) {
				_ = del(f.Path)
			}
		}
		return err
	})},
	{name: "deleting nothing succeeds", want: []string{"Delete/Missing", "Delete/LastFile"}, make: onDelete(func(_ *broken, p string, del func(string) error) error {
		return swap(del(p), memory.ErrNotFound, nil)
	})},
	{name: "the root can be deleted", want: []string{"Delete/Root"}, make: onDelete(func(b *broken, p string, del func(string) error) error {
		if p == memory.Root {
			return nil
		}
		return del(p)
	})},
	{name: "empty directories stay", want: []string{"Delete/LastFile"}, make: onWrite(func(_ *broken, p string, data []byte, v string, l memory.Limits, write writeFunc) error {
		if string(data) == "a file" {
			return memory.ErrExists
		}
		return write(p, data, v, l)
	})},
	{name: "rename copies", want: []string{"Rename/File", "Paths/Names", "Concurrent/Rename?", "Limits/Bytes"}, make: onRename(func(b *broken, from, to string, rename func(string, string) error) error {
		f, readErr := b.Store.Read(context.Background(), from, 0)
		err := rename(from, to)
		if err == nil && readErr == nil {
			err = b.Store.Write(context.Background(), from, f.Data, "", memory.Limits{})
		}
		return err
	})},
	{name: "rename of one level", want: []string{"Rename/Directory"}, make: onRename(func(b *broken, from, to string, rename func(string, string) error) error {
		err := rename(from, to)
		list, _ := b.Store.List(context.Background(), to)
		for _, f := range list {
			if err == nil && strings.Count(strings.TrimPrefix(f.Path, to), "/") > 1 {
				_ = b.Store.Delete(context.Background(), f.Path)
			}
		}
		return err
	})},
	{name: "edits beside a rename are lost", want: []string{"Concurrent/Rename"}, make: onRename(func(b *broken, from, to string, rename func(string, string) error) error {
		err := rename(from, to)
		if strings.HasPrefix(from, dir+"from-") && err == nil {
			f, _ := b.Store.Read(context.Background(), to+"/2", 0)
			err = b.Store.Write(context.Background(), to+"/2", []byte("lost"), f.Version, memory.Limits{})
		}
		return err
	})},
	{name: "renaming nothing succeeds", want: []string{"Rename/Missing"}, make: onRename(func(_ *broken, from, to string, rename func(string, string) error) error {
		return swap(rename(from, to), memory.ErrNotFound, nil)
	})},
	{name: "rename over a file", want: []string{"Rename/OntoFile"}, make: onRename(func(b *broken, from, to string, rename func(string, string) error) error {
		err := rename(from, to)
		if errors.Is(err, memory.ErrExists) && !errors.Is(err, memory.ErrInvalidPath) && !below(b, to) {
			_ = b.Store.Delete(context.Background(), to)
			err = rename(from, to)
		}
		return err
	})},
	{name: "rename into an existing directory", want: []string{"Rename/OntoDirectory"}, make: onRename(func(b *broken, from, to string, rename func(string, string) error) error {
		err := rename(from, to)
		if errors.Is(err, memory.ErrExists) && !errors.Is(err, memory.ErrInvalidPath) && below(b, to) {
			err = nil
		}
		return err
	})},
	{name: "rename below a file", want: []string{"Rename/BelowFile"}, make: onRename(func(_ *broken, from, to string, rename func(string, string) error) error {
		return swap(rename(from, to), memory.ErrNotDirectory, nil)
	})},
	{name: "any rename is tried", want: []string{"Rename/Refused", "Paths/Refused"}, make: onRename(func(_ *broken, from, to string, rename func(string, string) error) error {
		err := rename(from, to)
		if errors.Is(err, memory.ErrInvalidPath) {
			return errDown
		}
		return err
	})},
}

var pathMistakes = []mistake{
	{name: "paths are cleaned", want: []string{"Paths/Refused"}, make: func(b *broken) {
		list := b.list
		b.list = func(ctx context.Context, p string) ([]memory.FileInfo, error) {
			if memory.CheckPath(p) != nil {
				p = memory.Root
			}
			return list(ctx, p)
		}
	}},
	{name: "names are lower case", want: []string{"Paths/Names", "*/*?"}, make: onWrite(func(_ *broken, p string, data []byte, v string, l memory.Limits, write writeFunc) error {
		return write(strings.ToLower(p), data, v, l)
	})},
	{name: "names of 100 bytes", want: []string{"Paths/Longest"}, make: onWrite(func(_ *broken, p string, data []byte, v string, l memory.Limits, write writeFunc) error {
		if len(p) > 150 && memory.CheckPath(p) == nil {
			return errDown
		}
		return write(p, data, v, l)
	})},
	{name: "an empty scope is the shared one", want: []string{"Scopes/Empty"}, open: func(scope string) (string, error) {
		if scope == "" {
			return "default", nil
		}
		return scope, nil
	}},
	{name: "scopes are cleaned", want: []string{"Scopes/Apart"}, open: func(scope string) (string, error) { return strings.TrimRight(scope, " "), nil }},
	{name: "one scope for all", want: []string{"Scopes/*?", "Scopes/Apart", "Expire/Scope?"}, open: func(string) (string, error) { return "all", nil }},
	{name: "a store of its own each time", want: []string{"Scopes/Same", "Scopes/Apart?"}, open: func() func(scope string) (string, error) {
		n := 0
		return func(scope string) (string, error) {
			if memory.CheckScope(scope) != nil {
				return scope, nil
			}
			n++
			return strings.Repeat("x", n%200+1), nil
		}
	}()},
	{name: "a cancelled context is not seen", want: []string{"Context/Done"}, make: func(b *broken) {
		b.read = func(_ context.Context, p string, max int64) (memory.File, error) {
			return b.Store.Read(context.Background(), p, max)
		}
	}},
}
