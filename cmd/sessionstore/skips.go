package main

import (
	"fmt"
	"path/filepath"
	"sync"

	"github.com/sessionstore/sessionstore/filestore"
)

// skipLog collects the lines that a directory store could not read. They are
// reported and not fatal, because other programs write these files too.
type skipLog struct {
	mu    sync.Mutex
	seen  map[string]bool
	first []skippedLine
	count int
	shown bool // elsewhere
}

type skippedLine struct {
	Path  string `json:"path"`
	Line  int64  `json:"line,omitempty"` // 0: the whole file
	Error string `json:"error"`
}

func (s skippedLine) String() string {
	if s.Line == 0 {
		return fmt.Sprintf("%s: %s", s.Path, s.Error)
	}
	return fmt.Sprintf("%s:%d: %s", s.Path, s.Line, s.Error)
}

// maxSkips limits what is remembered of a file that holds nothing else.
const maxSkips = 1000

func (l *skipLog) add(dir string, s filestore.Skip) {
	l.mu.Lock()
	defer l.mu.Unlock()
	path := filepath.Join(dir, filepath.FromSlash(s.Path))
	at := fmt.Sprintf("%s:%d", path, s.Line) // copying reads a transcript twice
	if l.seen[at] {
		return
	}
	l.count++
	if l.count > maxSkips {
		return
	}
	if l.seen == nil {
		l.seen = make(map[string]bool)
	}
	l.seen[at] = true
	l.first = append(l.first, skippedLine{path, s.Line, s.Err.Error()})
}

// skipReport is the part of JSON results that tells of such lines.
type skipReport struct {
	SkippedLines int           `json:"skippedLines"`
	Skipped      []skippedLine `json:"skipped,omitempty"`
}

func (l *skipLog) json() skipReport {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shown = true
	return skipReport{l.count, l.first}
}

// report writes the first few lines and how many there are.
func (l *skipLog) report(a *app) {
	const few = 3
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shown || l.count == 0 {
		return
	}
	for _, s := range l.first[:min(few, len(l.first))] {
		a.warn("warning: skipped %v", s)
	}
	if l.count > few {
		a.warn("warning: skipped %d lines or files in all", l.count)
	}
}
