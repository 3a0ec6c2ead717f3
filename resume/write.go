package resume

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/keyenc"
)

const (
	fileMode = 0o600
	dirMode  = 0o700

	bufferSize = 64 << 10
)

// transcripts writes the session. It reports false if the store has no main
// transcript of it: without one no agent resumes, whatever subpaths there are.
func (m *materializer) transcripts(ctx context.Context) (found bool, err error) {
	main := m.project() + "/" + m.session.Key.SessionID
	w := writer{root: m.root, name: main}
	if err := m.transcript(ctx, m.session.Key, &w); err != nil {
		return false, err
	}
	if w.lines == nil {
		return false, nil
	}
	subpaths, err := m.subpaths(ctx)
	if err != nil {
		return false, err
	}
	dir, err := m.sessionDir(main, len(subpaths) > 0)
	if err != nil || dir == nil {
		return true, err
	}
	defer dir.Close()
	err = m.each(ctx, subpaths, func(ctx context.Context, sub string) error {
		key := m.session.Key
		key.Subpath = sub
		w := writer{root: dir, name: keyenc.EncodePath(sub), sidecar: true}
		err := m.transcript(ctx, key, &w)
		if errors.Is(err, fs.ErrExist) {
			// On this disk the name is that of another one, in another case.
			m.skip(Skip{Subpath: sub, Err: err})
			return nil
		}
		return err
	})
	slices.SortStableFunc(m.skipped, func(a, b Skip) int { return cmp.Compare(a.Subpath, b.Subpath) })
	return true, err
}

// sessionDir opens the directory of the subpaths: writing can't leave it.
func (m *materializer) sessionDir(name string, needed bool) (*os.Root, error) {
	if !needed {
		return nil, nil
	}
	if err := m.root.Mkdir(name, dirMode); err != nil {
		return nil, err
	}
	return m.root.OpenRoot(name)
}

// subpaths returns the subpaths that can be written, each once.
func (m *materializer) subpaths(ctx context.Context) ([]string, error) {
	list, err := m.store.ListSubkeys(ctx, m.session.Key.ProjectKey, m.session.Key.SessionID)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, nil // such a store restores the main transcript only
	}
	if err != nil {
		return nil, err
	}
	slices.Sort(list)
	list = slices.Compact(list)
	safe := list[:0]
	for _, sub := range list {
		if err := m.checkSubpath(sub); err != nil {
			m.skip(Skip{Subpath: sub, Err: err})
		} else {
			safe = append(safe, sub)
		}
	}
	return safe, nil
}

// checkSubpath refuses what no agent names a transcript. It comes from outside.
func (m *materializer) checkSubpath(sub string) error {
	if sub == "" {
		return fmt.Errorf("%w: subpath is empty", sessionstore.ErrInvalidKey)
	}
	key := m.session.Key
	key.Subpath = sub
	if err := key.Validate(); err != nil {
		return err
	}
	switch {
	case strings.Contains(sub, `\`):
		return fmt.Errorf("%w: subpath holds a backslash", sessionstore.ErrInvalidKey)
	case len(sub) > 1 && sub[1] == ':':
		return fmt.Errorf("%w: subpath begins with a drive", sessionstore.ErrInvalidKey)
	case !filepath.IsLocal(filepath.FromSlash(keyenc.EncodePath(sub))):
		return fmt.Errorf("%w: subpath is no local path here", sessionstore.ErrInvalidKey)
	}
	return nil
}

// each runs f on all subpaths, some at a time. The first error ends it.
func (m *materializer) each(ctx context.Context, subpaths []string, f func(context.Context, string) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work := make(chan string)
	var wg sync.WaitGroup
	for range min(m.opts.Concurrency, len(subpaths)) {
		wg.Go(func() {
			for sub := range work {
				if err := f(ctx, sub); err != nil {
					cancel(fmt.Errorf("subpath %s: %w", sub, err))
					return
				}
			}
		})
	}
	for _, sub := range subpaths {
		select {
		case work <- sub:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(work)
	wg.Wait()
	return context.Cause(ctx)
}

// transcript streams one transcript into its file.
func (m *materializer) transcript(ctx context.Context, key sessionstore.Key, w *writer) (err error) {
	defer func() { err = w.close(err) }()
	for chunk, err := range m.store.chunks(ctx, key) {
		if err != nil {
			return err
		}
		if err := w.write(key, chunk); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// writer writes one transcript.
type writer struct {
	root    *os.Root
	name    string // of the files, without their endings
	sidecar bool   // metadata goes beside the transcript

	file     *os.File
	lines    *bufio.Writer // nil until there is a line
	metadata sessionstore.Entry
}

// write appends entries as lines. A store that gives something else has lost
// data.
func (w *writer) write(key sessionstore.Key, entries []sessionstore.Entry) error {
	checked, err := sessionstore.Check(key, entries)
	if err != nil {
		return fmt.Errorf("%w: the store returned an entry that is none: %w", sessionstore.ErrCorrupt, err)
	}
	for _, c := range checked {
		if w.sidecar && string(c.Type) == sessionstore.MetadataType {
			w.metadata = c.Line
			continue
		}
		if w.lines == nil {
			if err := w.open(); err != nil {
				return err
			}
		}
		w.lines.Write(c.Line) // an error stays until the next call
		if err := w.lines.WriteByte('\n'); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) open() (err error) {
	if w.file, err = create(w.root, w.name+".jsonl"); err == nil {
		w.lines = bufio.NewWriterSize(w.file, bufferSize)
	}
	return err
}

// create never writes to what is there already, not even through a link.
func create(root *os.Root, name string) (*os.File, error) {
	if dir := path.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, dirMode); err != nil {
			return nil, err
		}
	}
	return root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
}

// close ends the file, and writes the sidecar unless there was an error.
func (w *writer) close(err error) error {
	if w.lines != nil {
		err = errors.Join(err, w.lines.Flush(), w.file.Close())
	}
	if err != nil || w.metadata == nil {
		return err
	}
	text, err := sidecarOf(w.metadata)
	if err != nil {
		return err
	}
	// Whole or not at all: what is half there would count as damaged, later.
	name := w.name + ".meta.json"
	temp := name + ".tmp"
	if _, err := w.root.Lstat(name); err == nil {
		return fmt.Errorf("%s: %w", name, fs.ErrExist)
	}
	f, err := create(w.root, temp)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return w.root.Rename(temp, name)
}
