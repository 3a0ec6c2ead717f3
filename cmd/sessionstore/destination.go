package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/sessionstore/sessionstore"
)

// openDestination opens the store that a transfer writes to. A dry run does
// not create it.
func (a *app) openDestination(ctx context.Context, to string, src *handle, dryRun bool) (*handle, error) {
	mode := writing
	if dryRun {
		mode = reading
	}
	if err := refuseNested(src, to); err != nil {
		return nil, err
	}
	dst, err := a.open(ctx, to, mode)
	if dryRun && errors.Is(err, sessionstore.ErrNotFound) {
		if _, _, isURL := cutScheme(to); isURL {
			dst, err = openMem(ctx, a, "", reading) // as empty as a new directory
			dst.name = to
		}
	}
	if err != nil {
		return nil, err
	}
	if src.dir != "" && sameDir(src.dir, dst.dir) {
		return nil, errors.Join(usagef("%s and %s are the same directory", src.name, dst.name), dst.close())
	}
	return dst, nil
}

// refuseNested: what is copied into the source would be found there by the next
// copy, and so on. It is checked before the destination is made.
func refuseNested(src *handle, to string) error {
	if src.dir == "" {
		return nil
	}
	dir := to
	if name, rest, isURL := cutScheme(to); isURL {
		if name != "file" {
			return nil
		}
		dir, _, _ = strings.Cut(rest, "?")
	}
	dir, err := expandHome(dir)
	if err != nil {
		return err
	}
	if within(dir, src.dir) || within(src.dir, dir) {
		return usagef("one of %s and %s lies inside the other", src.name, to)
	}
	return nil
}

// within reports whether one path lies below another, links resolved as far as
// the paths exist.
func within(path, dir string) bool {
	rel, err := filepath.Rel(resolve(dir), resolve(path))
	return err == nil && rel != "." && filepath.IsLocal(rel)
}

func resolve(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if parent := filepath.Dir(path); parent != path {
		return filepath.Join(resolve(parent), filepath.Base(path))
	}
	return path
}

func sameDir(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}
