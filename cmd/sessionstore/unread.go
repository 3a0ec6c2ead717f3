package main

import (
	"context"
	"errors"

	"github.com/sessionstore/sessionstore"
)

// passOver reports something that could not be read, so that a command goes on
// with the rest, and makes the run end with exit code 1. It returns the error
// if the command has to end: an outage of a server concerns everything, while
// an error in a directory, or of a damaged transcript, is that of one file.
func (h *handle) passOver(ctx context.Context, err error) error {
	if !h.isLocal(ctx, err) {
		return err
	}
	h.unread = true
	if h.app != nil {
		h.app.incomplete(err)
	}
	return nil
}

func (h *handle) isLocal(ctx context.Context, err error) bool {
	return ctx.Err() == nil && !errors.Is(err, errors.ErrUnsupported) &&
		(h.dir != "" || errors.Is(err, sessionstore.ErrCorrupt))
}

// incomplete reports an error, once, without ending the command.
func (a *app) incomplete(err error) {
	a.partial = true
	text := errorText(err)
	if a.told == nil {
		a.told = make(map[string]bool)
	}
	if !a.told[text] {
		a.told[text] = true
		a.warn("error: %s", text)
	}
}
