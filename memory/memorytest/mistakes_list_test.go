package memorytest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sessionstore/sessionstore/memory"
)

func swap(err, from, to error) error {
	if errors.Is(err, from) {
		return to
	}
	return err
}

func onRead(f func(b *broken, p string, got memory.File, err error) (memory.File, error)) func(b *broken) {
	return func(b *broken) {
		read := b.read
		b.read = func(ctx context.Context, p string, max int64) (memory.File, error) {
			got, err := read(ctx, p, max)
			return f(b, p, got, err)
		}
	}
}

func onList(f func(b *broken, p string, got []memory.FileInfo, err error) ([]memory.FileInfo, error)) func(b *broken) {
	return func(b *broken) {
		list := b.list
		b.list = func(ctx context.Context, p string) ([]memory.FileInfo, error) {
			got, err := list(ctx, p)
			return f(b, p, got, err)
		}
	}
}

func onWrite(f func(b *broken, p string, data []byte, v string, l memory.Limits, write writeFunc) error) func(b *broken) {
	return func(b *broken) {
		write := b.write
		b.write = func(ctx context.Context, p string, data []byte, v string, l memory.Limits) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return f(b, p, data, v, l, func(p string, data []byte, v string, l memory.Limits) error { return write(ctx, p, data, v, l) })
		}
	}
}

type writeFunc func(p string, data []byte, v string, l memory.Limits) error

func changesBytes(f func(data []byte) []byte) func(b *broken) {
	return onRead(func(_ *broken, _ string, got memory.File, err error) (memory.File, error) {
		if err == nil {
			got.Data = f(got.Data)
		}
		return got, err
	})
}

// blind replaces whatever is there.
func blind(p string, data []byte, write writeFunc, b *broken) error {
	for {
		f, err := b.Store.Read(context.Background(), p, 0)
		if err != nil {
			return memory.ErrConflict
		}
		if err := write(p, data, f.Version, memory.Limits{}); !errors.Is(err, memory.ErrConflict) {
			return err
		}
	}
}

var mistakes = slices.Concat(readMistakes, writeMistakes, pathMistakes, changeMistakes, timeMistakes)

var readMistakes = []mistake{
	{name: "missing path is an error in lists", want: []string{"List/Empty", "*/*?"}, make: onList(func(_ *broken, p string, got []memory.FileInfo, err error) ([]memory.FileInfo, error) {
		if err == nil && len(got) == 0 {
			err = memory.ErrNotFound
		}
		return got, err
	})},
	{name: "order by length", want: []string{"List/Sorted", "*/*?"}, make: onList(func(_ *broken, _ string, got []memory.FileInfo, err error) ([]memory.FileInfo, error) {
		slices.SortFunc(got, func(a, b memory.FileInfo) int { return len(a.Path) - len(b.Path) })
		return got, err
	})},
	{name: "lists by prefix", want: []string{"List/Below", "Paths/Names", "Concurrent/FileOrDirectory?"}, make: func(b *broken) {
		list := b.list
		b.list = func(ctx context.Context, p string) ([]memory.FileInfo, error) {
			if _, err := list(ctx, p); err != nil {
				return nil, err
			}
			all, err := list(ctx, memory.Root)
			return slices.DeleteFunc(all, func(f memory.FileInfo) bool { return !strings.HasPrefix(f.Path, p) }), err
		}
	}},
	{name: "sizes in characters", want: []string{"List/Sizes"}, make: onList(func(b *broken, _ string, got []memory.FileInfo, err error) ([]memory.FileInfo, error) {
		for i := range got {
			if f, err := b.Store.Read(context.Background(), got[i].Path, 0); err == nil {
				got[i].Size = int64(len([]rune(string(f.Data))))
			}
		}
		return got, err
	})},
	{name: "one page", want: []string{"List/Many", "Paths/Names"}, make: onList(func(_ *broken, _ string, got []memory.FileInfo, err error) ([]memory.FileInfo, error) {
		return got[:min(len(got), 50)], err
	})},
	{name: "missing file is empty", want: []string{"Read/Missing", "*/*?"}, make: onRead(func(_ *broken, _ string, got memory.File, err error) (memory.File, error) {
		if errors.Is(err, memory.ErrNotFound) {
			return memory.File{Version: "none"}, nil
		}
		return got, err
	})},
	{name: "directory can be read", want: []string{"Read/Directory"}, make: onRead(func(b *broken, p string, got memory.File, err error) (memory.File, error) {
		if list, _ := b.Store.List(context.Background(), p); errors.Is(err, memory.ErrNotFound) && len(list) > 0 {
			return memory.File{Version: "dir"}, nil
		}
		return got, err
	})},
	{name: "text is trimmed", want: []string{"Read/Bytes", "Concurrent/*Agents?", "Paths/Names", "Scopes/Apart"}, make: changesBytes(bytes.TrimSpace)},
	{name: "line ends are unified", want: []string{"Read/Bytes"}, make: changesBytes(func(d []byte) []byte { return bytes.ReplaceAll(d, []byte("\r\n"), []byte("\n")) })},
	{name: "text is UTF-8", want: []string{"Read/Bytes", "Rename/File"}, make: changesBytes(func(d []byte) []byte { return bytes.ToValidUTF8(d, []byte("?")) })},
	{name: "32 KiB of a file", want: []string{"Read/Large", "Read/Bytes"}, make: changesBytes(func(d []byte) []byte { return d[:min(len(d), 32<<10)] })},
	{name: "no maximum", want: []string{"Read/Max"}, make: func(b *broken) {
		b.read = func(ctx context.Context, p string, _ int64) (memory.File, error) { return b.Store.Read(ctx, p, 0) }
	}},
	{name: "shared bytes", want: []string{"Read/OwnBytes"}, make: func(b *broken) {
		var cache sync.Map
		read := b.read
		b.read = func(ctx context.Context, p string, max int64) (memory.File, error) {
			f, err := read(ctx, p, max)
			if err == nil && len(f.Data) > 0 {
				shared, _ := cache.LoadOrStore(p+" "+f.Version, f.Data)
				f.Data = shared.([]byte)
			}
			return f, err
		}
	}},
	{name: "new version per read", want: []string{"Read/SameVersion", "*/*?"}, make: onRead(func(_ *broken, _ string, got memory.File, err error) (memory.File, error) {
		if err == nil {
			got.Version += rand.Text()
		}
		return got, err
	})},
	{name: "outage is nothing found", want: []string{"Outage/Fails"}, make: func(b *broken) { b.downErr = memory.ErrNotFound }},
}

var writeMistakes = []mistake{
	{name: "only one level", want: []string{"Write/Create", "*/*?"}, make: onWrite(func(_ *broken, p string, data []byte, v string, l memory.Limits, write writeFunc) error {
		if strings.Count(p, "/") > 3 {
			return errDown
		}
		return write(p, data, v, l)
	})},
	{name: "create overwrites", want: []string{"Write/CreateExisting", "Concurrent/Create?"}, make: onWrite(func(b *broken, p string, data []byte, v string, l memory.Limits, write writeFunc) error {
		err := write(p, data, v, l)
		if v == "" && errors.Is(err, memory.ErrExists) {
			if f, readErr := b.Store.Read(context.Background(), p, 0); readErr == nil {
				return write(p, data, f.Version, l)
			}
		}
		return err
	})},
	{name: "winner takes none", want: []string{"Concurrent/Create", "Write/CreateExisting"}, make: onWrite(func(b *broken, p string, data []byte, v string, l memory.Limits, write writeFunc) error {
		err := write(p, data, v, l)
		if v == "" && errors.Is(err, memory.ErrExists) && !below(b, p) {
			return nil
		}
		return err
	})},
	{name: "directory is free", want: []string{"Write/CreateOverDirectory", "Concurrent/FileOrDirectory?"}, make: onWrite(func(b *broken, p string, data []byte, v string, l memory.Limits, write writeFunc) error {
		err := write(p, data, v, l)
		if errors.Is(err, memory.ErrExists) && below(b, p) {
			return nil
		}
		return err
	})},
	{name: "files have children", want: []string{"Write/CreateBelowFile"}, make: onWrite(func(_ *broken, p string, data []byte, v string, l memory.Limits, write writeFunc) error {
		return swap(write(p, data, v, l), memory.ErrNotDirectory, memory.ErrExists)
	})},
	{name: "files and directories at once", want: []string{"Concurrent/FileOrDirectory", "Write/CreateBelowFile", "Write/CreateOverDirectory"}, make: onWrite(func(_ *broken, p string, data []byte, v string, l memory.Limits, write writeFunc) error {
		err := write(p, data, v, l)
		if v == "" && !strings.HasSuffix(p, "/x") {
			err = swap(err, memory.ErrNotDirectory, nil)
		}
		if strings.HasPrefix(p, dir+"x-") || p == dir+"d" {
			err = swap(err, memory.ErrExists, nil)
		}
		if strings.HasSuffix(p, "/x") {
			err = swap(err, memory.ErrNotDirectory, nil)
		}
		return err
	})},
	{name: "empties are not written", want: []string{"Write/Replace", "Limits/Shrink"}, make: onWrite(func(_ *broken, p string, data []byte, v string, l memory.Limits, write writeFunc) error {
		if v != "" && len(data) == 0 {
			return errDown
		}
		return write(p, data, v, l)
	})},
	{name: "last writer wins", want: []string{"Write/Stale", "Write/StaleSameText", "Write/ReplaceMissing", "Write/UnknownVersion", "Limits/*?", "Concurrent/*Agents?", "Paths/Refused?"}, make: onWrite(func(b *broken, p string, data []byte, v string, l memory.Limits, write writeFunc) error {
		if v != "" {
			return blind(p, data, write, b)
		}
		return write(p, data, v, l)
	})},
	{name: "the same text is no conflict", want: []string{"Write/StaleSameText"}, make: onWrite(func(b *broken, p string, data []byte, v string, l memory.Limits, write writeFunc) error {
		err := write(p, data, v, l)
		if f, _ := b.Store.Read(context.Background(), p, 0); errors.Is(err, memory.ErrConflict) && f.Version != "" && bytes.Equal(f.Data, data) {
			return nil
		}
		return err
	})},
	{name: "missing file is made", want: []string{"Write/ReplaceMissing", "Concurrent/Rename?"}, make: onWrite(func(_ *broken, p string, data []byte, v string, l memory.Limits, write writeFunc) error {
		err := write(p, data, v, l)
		if v != "" && errors.Is(err, memory.ErrConflict) && write(p, data, "", l) == nil {
			return nil
		}
		return err
	})},
	{name: "star is any version", want: []string{"Write/UnknownVersion"}, make: onWrite(func(b *broken, p string, data []byte, v string, l memory.Limits, write writeFunc) error {
		if v == "*" {
			return blind(p, data, write, b)
		}
		return write(p, data, v, l)
	})},
	{name: "lost updates", want: []string{"Concurrent/TwoAgents", "Concurrent/ManyAgents"}, make: onWrite(func(_ *broken, p string, data []byte, v string, l memory.Limits, write writeFunc) error {
		if bytes.HasPrefix(data, []byte("start\n7-0\n")) || bytes.HasPrefix(data, []byte("start\n0-9\n")) {
			return nil
		}
		return write(p, data, v, l)
	})},
	{name: "keeps the slice", want: []string{"Write/CopiesData"}, make: func(b *broken) {
		var kept sync.Map
		write, read := b.write, b.read
		b.write = func(ctx context.Context, p string, data []byte, v string, l memory.Limits) error {
			if string(data) == "text" {
				kept.Store(p, data)
			}
			return write(ctx, p, data, v, l)
		}
		b.read = func(ctx context.Context, p string, max int64) (memory.File, error) {
			f, err := read(ctx, p, max)
			if k, ok := kept.Load(p); ok && err == nil && string(f.Data) == "text" && k.([]byte)[0] == 0 {
				f.Data = k.([]byte)
			}
			return f, err
		}
	}},
	{name: "new files stay in the handle", want: []string{"Write/Durable", "Concurrent/*?", "Rename/*?", "Paths/Names?", "Scopes/Same?"}, make: func(b *broken) {
		var mine sync.Map
		write, read := b.write, b.read
		b.write = func(ctx context.Context, p string, data []byte, v string, l memory.Limits) error {
			mine.Store(p, true)
			return write(ctx, p, data, v, l)
		}
		b.read = func(ctx context.Context, p string, max int64) (memory.File, error) {
			f, err := read(ctx, p, max)
			if _, ok := mine.Load(p); err == nil && !ok {
				return memory.File{}, memory.ErrNotFound
			}
			return f, err
		}
	}},
	{name: "no limit of files", want: []string{"Limits/Files"}, make: onWrite(func(_ *broken, p string, data []byte, v string, l memory.Limits, write writeFunc) error {
		l.Files = 0
		return write(p, data, v, l)
	})},
	{name: "no limit of bytes", want: []string{"Limits/Bytes"}, make: onWrite(func(_ *broken, p string, data []byte, v string, l memory.Limits, write writeFunc) error {
		l.Bytes = 0
		return write(p, data, v, l)
	})},
	{name: "full is full", want: []string{"Limits/Shrink"}, make: onWrite(func(b *broken, p string, data []byte, v string, l memory.Limits, write writeFunc) error {
		if list, _ := b.Store.List(context.Background(), memory.Root); l.Files > 0 && len(list) > l.Files {
			return memory.ErrLimit
		}
		return write(p, data, v, l)
	})},
}

// below says whether a path is a directory.
func below(b *broken, p string) bool {
	list, _ := b.Store.List(context.Background(), p)
	return len(list) > 0 && list[0].Path != p
}

var timeMistakes = []mistake{
	{name: "use is not known", want: []string{"Used/Write", "Used/Read?"}, make: onList(func(_ *broken, _ string, got []memory.FileInfo, err error) ([]memory.FileInfo, error) {
		for i := range got {
			got[i].Used = time.Time{}
		}
		return got, err
	})},
	{name: "every read is noted", want: []string{"Used/SoonAgain", "Used/Read?"}, make: func(b *broken) {
		list := b.list
		b.list = func(ctx context.Context, p string) ([]memory.FileInfo, error) {
			got, err := list(ctx, p)
			for i := range got {
				if time.Since(got[i].Used) > time.Minute {
					got[i].Used = time.Now()
				}
			}
			return got, err
		}
	}},
	{name: "reads do not count", want: []string{"Used/Read", "Expire/Old"}, make: func(b *broken) {
		var written sync.Map
		write, list := b.write, b.list
		b.write = func(ctx context.Context, p string, data []byte, v string, l memory.Limits) error {
			err := write(ctx, p, data, v, l)
			if err == nil {
				written.Store(p, time.Now())
			}
			return err
		}
		b.list = func(ctx context.Context, p string) ([]memory.FileInfo, error) {
			got, err := list(ctx, p)
			for i := range got {
				if t, ok := written.Load(got[i].Path); ok {
					got[i].Used = t.(time.Time)
				}
			}
			return got, err
		}
		b.expire = func(ctx context.Context, before time.Time) (gone []string, err error) {
			got, err := b.list(ctx, memory.Root)
			for _, f := range got {
				if f.Used.Before(before) && b.delete(ctx, f.Path) == nil {
					gone = append(gone, f.Path)
				}
			}
			return gone, err
		}
	}},
	{name: "expires all", want: []string{"Expire/Old", "Expire/Nothing", "Expire/Short"}, make: func(b *broken) {
		expire := b.expire
		b.expire = func(ctx context.Context, _ time.Time) ([]string, error) { return expire(ctx, future) }
	}},
	{name: "expires nothing", want: []string{"Expire/Old", "Expire/Scope", "Expire/Room"}, make: func(b *broken) {
		b.expire = func(ctx context.Context, _ time.Time) ([]string, error) { return nil, ctx.Err() }
	}},
}
