package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
)

func progressOutput(change func(*app, *progress)) string {
	var stderr bytes.Buffer
	a := newApp(nil, &bytes.Buffer{}, &stderr)
	a.err.is = true
	p := a.progress()
	p.started = time.Now().Add(-time.Minute)
	change(a, p)
	p.copying(sessionstore.CopyProgress{Checking: true, Transcripts: 1, TotalTranscripts: 4})
	p.copying(sessionstore.CopyProgress{Transcripts: 3, TotalTranscripts: 4, Entries: 1234, Bytes: 5_600_000})
	p.done()
	return stderr.String()
}

func TestProgressIsForPeopleWhoWait(t *testing.T) {
	out := progressOutput(func(*app, *progress) {})
	require.Contains(t, out, "comparing")
	require.Contains(t, out, "copying 1,234 entries, 5.6 MB")
	require.Contains(t, out, "/4)")

	require.Empty(t, progressOutput(func(_ *app, p *progress) { p.started = time.Now() }), "short work shows no bar")
	require.Empty(t, progressOutput(func(a *app, p *progress) { a.quiet = true; *p = *a.progress() }))
	require.Empty(t, progressOutput(func(a *app, p *progress) { a.err.is = false; *p = *a.progress() }))
}
