package main

import (
	"context"
	"errors"
	"os"

	"github.com/sessionstore/sessionstore"
)

// openDestination opens the store that a transfer writes to. A dry run does
// not create it.
func (a *app) openDestination(ctx context.Context, to string, src *handle, dryRun bool) (*handle, error) {
	mode := writing
	if dryRun {
		mode = reading
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

func sameDir(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}
