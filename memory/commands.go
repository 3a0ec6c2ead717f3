package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sessionstore/sessionstore/internal/keyenc"
)

func (t *Tool) create(ctx context.Context, in fields) (string, error) {
	path, err := in.path("path")
	if err != nil {
		return "", err
	}
	text, err := in.text("file_text")
	if err != nil {
		return "", err
	}
	exists := modelErrorf("Error: File %s already exists", path)
	if path == Root {
		return "", exists
	}
	data, err := t.createFile(ctx, path, []byte(text))
	switch {
	case errors.Is(err, ErrExists):
		return "", exists
	case errors.Is(err, ErrNotDirectory):
		return "", inTheWay(path)
	case err != nil:
		return "", err
	}
	t.changed(ctx, Change{Command: "create", Path: path, Bytes: len(data)})
	return fmt.Sprintf("File created successfully at: %s", path), nil
}

func inTheWay(path string) error {
	return modelErrorf("Error: %s cannot be made, because a directory above it is a file. Choose another path.", path)
}

// createFile writes a new file or, if the host allows it, over an old one.
func (t *Tool) createFile(ctx context.Context, path string, text []byte) ([]byte, error) {
	for try := 1; ; try++ {
		data, err := t.write(ctx, path, text, "")
		if errors.Is(err, ErrExists) && t.opts.Overwrite {
			data, err = t.overwrite(ctx, path, text, err)
		}
		if !errors.Is(err, ErrConflict) || try == maxTries {
			return data, err
		}
		if err := pause(ctx, try); err != nil {
			return nil, err
		}
	}
}

func (t *Tool) overwrite(ctx context.Context, path string, text []byte, exists error) ([]byte, error) {
	f, err := t.store.Read(ctx, path, t.opts.MaxFileBytes)
	switch {
	case err == nil:
		return t.write(ctx, path, text, f.Version)
	case errors.Is(err, ErrTooLarge):
		return nil, t.tooLarge(path)
	case !errors.Is(err, ErrNotFound):
		return nil, NothingDone(err)
	}
	// It is a directory, or a file that has just gone.
	files, err := t.store.List(ctx, path)
	switch {
	case err != nil:
		return nil, NothingDone(err)
	case len(files) > 0 && files[0].Path != path:
		return nil, exists
	}
	return nil, ErrConflict // the file is gone, or there again
}

func (t *Tool) delete(ctx context.Context, in fields) (string, error) {
	path, err := in.path("path")
	if err != nil {
		return "", err
	}
	if path == Root {
		return "", modelErrorf("Error: The root directory %s cannot be deleted", Root)
	}
	err = t.store.Delete(ctx, path)
	switch {
	case errors.Is(err, ErrNotFound):
		return "", modelErrorf("Error: The path %s does not exist", path)
	case err != nil:
		return "", err
	}
	t.changed(ctx, Change{Command: "delete", Path: path})
	return fmt.Sprintf("Successfully deleted %s", path), nil
}

func (t *Tool) rename(ctx context.Context, in fields) (string, error) {
	from, err := in.path("old_path")
	if err != nil {
		return "", err
	}
	to, err := in.path("new_path")
	if err != nil {
		return "", err
	}
	if err := t.checkRename(ctx, from, to); err != nil {
		return "", err
	}
	if t.opts.Redact != nil {
		// No other rename of this tool comes between the look and the rename.
		t.renaming.Lock()
		defer t.renaming.Unlock()
	}
	if err := t.redactMoved(ctx, from, to); err != nil {
		return "", err
	}
	err = t.store.Rename(ctx, from, to)
	switch {
	case errors.Is(err, ErrNotFound):
		return "", notThere(from)
	case errors.Is(err, ErrExists):
		return "", taken(to)
	case errors.Is(err, ErrNotDirectory):
		return "", inTheWay(to)
	case err != nil:
		return "", err
	}
	t.changed(ctx, Change{Command: "rename", Path: from, NewPath: to})
	return fmt.Sprintf("Successfully renamed %s to %s", from, to), nil
}

func notThere(path string) error { return modelErrorf("Error: The path %s does not exist", path) }
func taken(path string) error    { return modelErrorf("Error: The destination %s already exists", path) }

// checkRename refuses what no store would do, in words for the model.
func (t *Tool) checkRename(ctx context.Context, from, to string) error {
	err := CheckRename(from, to)
	switch {
	case from == Root:
		return modelErrorf("Error: The root directory %s cannot be renamed", Root)
	case err == nil && !longer(from, to):
		return nil
	case err != nil && !errors.Is(err, ErrExists):
		return modelErrorf("Error: %s cannot be renamed to %s, which lies inside it", from, to)
	}
	files, listErr := t.store.List(ctx, from)
	switch {
	case listErr != nil:
		return NothingDone(listErr)
	case len(files) == 0:
		return notThere(from)
	case err != nil:
		return taken(to)
	}
	for _, f := range files {
		if err := CheckPath(to + strings.TrimPrefix(f.Path, from)); err != nil {
			return pathError("new_path", err)
		}
	}
	return nil
}

// redactMoved asks Options.Redact about the files that a rename would move, as
// if they were written in the new place: a name may hold what must not be kept,
// and not every text may be everywhere.
func (t *Tool) redactMoved(ctx context.Context, from, to string) error {
	if t.opts.Redact == nil {
		return nil
	}
	files, err := t.store.List(ctx, from)
	if err != nil {
		return NothingDone(err)
	}
	for _, file := range files {
		f, err := t.store.Read(ctx, file.Path, t.opts.MaxFileBytes)
		switch {
		case errors.Is(err, ErrNotFound):
			// It may have been moved to where it would be moved along, unseen.
			return NothingDone(fmt.Errorf("%w: %s went away while Redact was asked about the rename", ErrConflict, quotePath(file.Path)))
		case errors.Is(err, ErrTooLarge):
			return t.tooLarge(file.Path)
		case err != nil:
			return NothingDone(err)
		}
		path := to + strings.TrimPrefix(file.Path, from)
		data, err := t.redact(ctx, path, f.Data)
		if err != nil {
			return err
		}
		if !bytes.Equal(data, f.Data) {
			return &refusedError{path, Refusal("the host would change its text there. Create it there anew.")}
		}
	}
	return nil
}

// longer says whether paths below a directory grow when it is renamed.
func longer(from, to string) bool { return keyenc.PathLen(to) > keyenc.PathLen(from) }
