package mirror

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/sessionstore/sessionstore"
)

func (m *Mirror) count(change func(*Stats)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.stats)
}

// report tells the host what is not stored.
func (m *Mirror) report(e *Error) {
	m.mu.Lock()
	l := m.losses[e.Key]
	if l == nil {
		l = &Loss{Key: e.Key}
		m.losses[e.Key] = l
	}
	l.Entries += len(e.Entries)
	if e.Spilled != "" {
		l.Spilled += len(e.Entries)
	}
	l.Err = e.Err
	if m.opts.InjectErrors {
		m.inject(e)
	}
	m.mu.Unlock()
	m.logAt(slog.LevelError, "entries not stored", e.Key, len(e.Entries), e.Err)
	if m.opts.OnError != nil {
		m.tell(func() { m.opts.OnError(e) })
	}
}

// reportMissing tells of files that are gone.
func (m *Mirror) reportMissing(key sessionstore.Key, files []keptFile) {
	for _, f := range files {
		m.count(func(*Stats) {
			l := m.losses[key]
			if l == nil {
				l = &Loss{Key: key}
				m.losses[key] = l
			}
			l.Spilled = max(0, l.Spilled-f.entries)
			l.Missing++
		})
		m.report(&Error{Key: key, Err: fmt.Errorf("%w: %s", ErrBatchMissing, f.name)})
	}
}

func (m *Mirror) reportForeign(f *ForeignError) {
	m.count(func(s *Stats) { s.Frames++; s.Foreign++ })
	if m.opts.Logger != nil && f.First {
		m.tell(func() {
			m.opts.Logger.Error("mirror: frame of no transcript", "path", f.Path, "projects", f.ProjectsDir, "error", f.Err)
		})
	}
	if m.opts.OnForeign != nil {
		m.tell(func() { m.opts.OnForeign(f) })
	}
}

func (m *Mirror) tellAppend(key sessionstore.Key, entries []sessionstore.Entry, attempt int, d time.Duration, err error) {
	if m.opts.OnAppend == nil {
		return
	}
	info := AppendInfo{Key: key, Entries: len(entries), Attempt: attempt, Duration: d, Err: err}
	for _, e := range entries {
		info.Bytes += len(e)
	}
	m.tell(func() { m.opts.OnAppend(info) })
}

func (m *Mirror) log(text string, key sessionstore.Key, entries int, err error) {
	m.logAt(slog.LevelWarn, text, key, entries, err)
}

func (m *Mirror) logAt(level slog.Level, text string, key sessionstore.Key, entries int, err error) {
	if m.opts.Logger == nil {
		return
	}
	m.tell(func() {
		m.opts.Logger.Log(context.Background(), level, "mirror: "+text, "key", key.String(), "entries", entries, "error", err)
	})
}

// tell calls a callback. Once the context of Close has ended one that blocks is
// left behind, and later ones are not waited for.
func (m *Mirror) tell(callback func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = m.contain(func() error { callback(); return nil })
	}()
	select {
	case <-done:
		return
	case <-m.calls.Done():
	}
	if m.blocked.Load() {
		return
	}
	select {
	case <-done:
	case <-time.After(closeGrace / 2):
		m.blocked.Store(true)
	}
}
