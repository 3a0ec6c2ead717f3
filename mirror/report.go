package mirror

import (
	"context"
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
		_ = m.contain(func() error { m.opts.OnError(e); return nil })
	}
}

func (m *Mirror) reportForeign(f *ForeignError) {
	m.count(func(s *Stats) { s.Frames++; s.Foreign++ })
	if m.opts.Logger != nil && f.First {
		m.opts.Logger.Error("mirror: frame of no transcript", "path", f.Path, "projects", f.ProjectsDir, "error", f.Err)
	}
	if m.opts.OnForeign != nil {
		_ = m.contain(func() error { m.opts.OnForeign(f); return nil })
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
	_ = m.contain(func() error { m.opts.OnAppend(info); return nil })
}

func (m *Mirror) log(text string, key sessionstore.Key, entries int, err error) {
	m.logAt(slog.LevelWarn, text, key, entries, err)
}

func (m *Mirror) logAt(level slog.Level, text string, key sessionstore.Key, entries int, err error) {
	if m.opts.Logger == nil {
		return
	}
	_ = m.contain(func() error {
		m.opts.Logger.Log(context.Background(), level, "mirror: "+text, "key", key.String(), "entries", entries, "error", err)
		return nil
	})
}
