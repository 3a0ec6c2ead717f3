package main

import (
	"bufio"
	"context"
	_ "embed"
	"fmt"
	"html/template"
	"iter"
	"os"
	"path/filepath"
	"sync"

	"github.com/sessionstore/sessionstore"
)

//go:embed page.html.tmpl
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// showHTML writes a session as a page that needs nothing else: no scripts, no
// fonts, no requests.
func (a *app) showHTML(ctx context.Context, h *handle, key sessionstore.Key, subpaths []string, opts showOptions) error {
	p, err := newPage(ctx, h, key, subpaths, opts.conversationOptions)
	if err != nil {
		return err
	}
	if opts.html == "-" {
		err = p.write(a.stdout)
	} else {
		err = p.writeFile(opts.html)
	}
	for _, t := range p.withGaps {
		a.reportGaps(t)
	}
	if err == nil && opts.html != "-" {
		a.note("wrote %s", opts.html)
	}
	return err
}

// page is what the template shows. What it ranges over is read while it runs,
// so that one transcript is in memory at a time, and those it lies in.
type page struct {
	ctx  context.Context
	h    *handle
	opts conversationOptions

	Title string
	Facts []fact
	Main  *section

	agents   []*section
	placed   map[*section]bool
	withGaps []transcript
	err      error // what ended a transcript before its end
}

// section is one transcript of a page.
type section struct {
	page *page
	key  sessionstore.Key
	// Of a subagent.
	facts agentFacts
	Label string
	Count string

	opened *transcript
	err    error
}

// open reads what is needed to know what to show. What is shown is read later,
// once.
func (s *section) open() {
	t, err := openTranscript(s.page.ctx, s.page.h, s.key, s.page.opts)
	s.opened, s.err = &t, err
}

func newPage(ctx context.Context, h *handle, key sessionstore.Key, subpaths []string, opts conversationOptions) (*page, error) {
	p := &page{ctx: ctx, h: h, opts: opts, placed: make(map[*section]bool)}
	// Both read the transcript, and most of the time is decoding.
	p.Main = &section{page: p, key: key}
	var opening sync.WaitGroup
	opening.Go(p.Main.open)
	f, err := readFacts(ctx, h, key.Main())
	opening.Wait()
	if err != nil {
		return nil, err
	}
	p.Title = "Session " + key.SessionID
	for _, title := range []string{f.about.CustomTitle, f.about.Summary, f.about.FirstPrompt} {
		if title != "" {
			p.Title = title
			break
		}
	}
	p.Title = cut(oneLineOf(p.Title), 2*maxTextWidth)
	when := func(ms int64) string { // no age: the page may be read much later
		if ms == 0 {
			return ""
		}
		return localTime(ms)
	}
	for _, l := range f.lines(when) {
		if l.Text = oneLineOf(l.Text); l.Text != p.Title {
			p.Facts = append(p.Facts, l)
		}
	}
	if key.Subpath != "" {
		p.Facts = append(p.Facts, fact{"subpath", oneLine(key.Subpath)})
	}
	agents, err := readAgents(ctx, h, key.Main(), subpaths)
	for _, f := range agents {
		p.agents = append(p.agents, p.agentSection(f))
	}
	return p, err
}

func (p *page) agentSection(f agentFacts) *section {
	key := p.Main.key.Main()
	key.Subpath = f.subpath
	label := f.label()
	if label == "" {
		label = f.id
	}
	count := plural(f.entries, "entry")
	if f.unread {
		count = ""
	}
	return &section{
		page: p, key: key, facts: f,
		Label: cut(oneLineOf(label), maxTextWidth), Count: count,
	}
}

func (p *page) write(w *bufio.Writer) error {
	if err := pageTemplate.Execute(w, p); err != nil {
		return err
	}
	if p.err != nil {
		return p.err
	}
	return w.Flush()
}

// writeFile writes a file that only its owner can read, as stores do. What is in
// its place stays there until the new one is whole.
func (p *page) writeFile(path string) (err error) {
	mode := os.FileMode(0o600)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if info, err := os.Stat(path); err == nil {
		if !info.Mode().IsRegular() {
			return p.writeInto(path) // a pipe or a terminal
		}
		mode = info.Mode().Perm()
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	err = p.write(bufio.NewWriterSize(f, 64<<10))
	if err == nil {
		err = f.Chmod(mode)
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("%s was not written: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}

func (p *page) writeInto(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if err := p.write(bufio.NewWriterSize(f, 64<<10)); err != nil {
		f.Close()
		return fmt.Errorf("%s is incomplete: %w", path, err)
	}
	return f.Close()
}

// startedBy yields the subagents that a tool call started, each only once.
func (p *page) startedBy(toolUse string) []*section {
	var list []*section
	for _, s := range p.agents {
		if toolUse != "" && s.facts.toolUse == toolUse && !p.placed[s] {
			p.placed[s] = true
			list = append(list, s)
		}
	}
	return list
}

// Others yields the subagents that no tool call on the page has started.
func (p *page) Others() iter.Seq[*section] {
	return func(yield func(*section) bool) {
		for _, s := range p.agents {
			if p.placed[s] {
				continue
			}
			p.placed[s] = true
			if !yield(s) {
				return
			}
		}
	}
}

// HasOthers is asked when the main transcript has been written.
func (p *page) HasOthers() bool { return len(p.placed) < len(p.agents) }

var unreadMark = block{Kind: "mark", Mark: "this transcript cannot be read", Broken: true}

// fail marks where a subagent can't be read. Any other error is kept in the page
// and ends everything.
func (s *section) fail(err error, yield func(block) bool) {
	p := s.page
	if s != p.Main {
		err = p.h.passOver(p.ctx, err)
	}
	if p.err = err; err == nil {
		yield(unreadMark)
	}
}

// Blocks yields what is shown of a transcript.
func (s *section) Blocks() iter.Seq[block] {
	return func(yield func(block) bool) {
		p := s.page
		if p.err != nil {
			return
		}
		if s.facts.unread { // which has been reported
			yield(unreadMark)
			return
		}
		if s.opened == nil {
			s.open()
		}
		t := *s.opened
		s.opened = nil // a transcript on the page needs no memory any more
		if s.err != nil {
			s.fail(s.err, yield)
			return
		}
		if len(t.gaps) > 0 {
			p.withGaps = append(p.withGaps, transcript{key: s.key, gaps: t.gaps})
		}
		b := blocks{page: p, stored: t.stored, anchors: s == p.Main}
		for it, err := range p.prepared(t) {
			if err != nil {
				s.fail(err, yield)
				return
			}
			if !yield(b.of(it)) || p.err != nil {
				return
			}
		}
	}
}
