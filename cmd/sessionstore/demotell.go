package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/sessionstore/sessionstore"
)

// conversation prints the main transcript and a line for each subagent.
func (d *demo) conversation(ctx context.Context, h *handle, subpaths []string) error {
	a := d.a
	v := newView(indenter{a.stdout}, a.style(), min(a.out.width, maxTextWidth)-3, false)
	v.resultLines, v.stored = 1, true
	for e, err := range sessionstore.Stream(ctx, h.store, d.session) {
		if err != nil {
			return err
		}
		v.entry(e)
	}
	if v.err != nil {
		return v.err
	}
	d.say("\n   The subagents, each with a transcript of its own:\n\n")
	for _, sub := range subpaths {
		key := d.session
		key.Subpath = sub
		if err := d.subagent(ctx, h, key); err != nil {
			return err
		}
	}
	d.say("\n")
	return nil
}

// subagent prints who it was and what it said last.
func (d *demo) subagent(ctx context.Context, h *handle, key sessionstore.Key) error {
	what, said := "", ""
	for e, err := range sessionstore.Stream(ctx, h.store, key) {
		if err != nil {
			return err
		}
		if e.Type() == sessionstore.MetadataType {
			what = gjson.GetBytes(e, "description").String()
		}
		for _, p := range parseMessage(e).parts {
			if p.kind == partText {
				said = p.text
			}
		}
	}
	id := key.Subpath[strings.LastIndexByte(key.Subpath, '/')+1:]
	d.say("   %s  %s  %s\n", d.a.style().tool(name(id)), fmt.Sprintf("%-12s", oneLine(what)), oneLine(said))
	return nil
}

// indenter moves each line to the right. Its user writes whole lines.
type indenter struct {
	w interface{ WriteString(string) (int, error) }
}

func (i indenter) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		if line != "\n" {
			line = "   " + line
		}
		if _, err := i.w.WriteString(line); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// agentHasRun finds the directory of the reader's own agent, if it holds
// anything.
func (d *demo) agentHasRun(ctx context.Context) (string, bool) {
	dir, err := agentDir()
	if err != nil || !isDir(dir) {
		return "", false
	}
	h, err := d.a.open(ctx, dir, reading)
	if err != nil {
		return "", false
	}
	projects, err := sessionstore.ListProjects(ctx, h.store)
	return dir, h.close() == nil && err == nil && len(projects) > 0
}

// ending shows the files and what to try next.
func (d *demo) ending(ctx context.Context) error {
	d.step(6, "Where it lies")
	d.say("   %s\n", d.dir)
	if err := d.tree(); err != nil {
		return err
	}
	if d.temp && !d.keep {
		d.say("\n   The directory is removed now (--keep=false).\n")
		return nil
	}
	cmd, store := invocation(), quoteShell("file:"+d.dir)
	d.say("\n%s\n", d.a.style().bold("Try next"))
	d.try("the whole conversation, with the subagents",
		cmd+" show -s "+store+" "+d.session.SessionID[:8]+" --subagents")
	d.try("the same as a page for the browser",
		cmd+" show -s "+store+" "+d.session.SessionID[:8]+" --html session.html")
	if dir, ok := d.agentHasRun(ctx); ok {
		d.try("the sessions of your own agent (its directory is only read)",
			cmd+" ls --all")
		d.try("a copy of them in another store, and whether it is the same",
			cmd+" import --to file:~/sessionstore-backup",
			cmd+" verify "+quoteShell("file:"+dir)+" file:~/sessionstore-backup")
	}
	if d.temp {
		d.try("when you have seen enough", "rm -r "+quoteShell(d.dir))
	}
	return nil
}

func (d *demo) try(what string, commands ...string) {
	d.say("   %s\n", d.a.style().dim("# "+what))
	for _, c := range commands {
		d.say("   %s\n", c)
	}
}

// tree prints the files of the session with their sizes.
func (d *demo) tree() error {
	root := filepath.Join(d.dir, d.session.ProjectKey)
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(d.dir, path)
		if err != nil {
			return err
		}
		depth := strings.Count(rel, string(filepath.Separator))
		text := strings.Repeat("  ", depth) + oneLine(entry.Name())
		if entry.IsDir() {
			d.say("   %s/\n", text)
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		d.say("   %-52s %8s\n", text, size(info.Size()))
		return nil
	})
}

// invocation is how the reader started this program.
func invocation() string {
	if strings.Contains(os.Args[0], "go-build") {
		return "go run ./cmd/sessionstore"
	}
	return quoteShell(os.Args[0])
}

// quoteShell quotes an argument for a POSIX shell where that is needed.
func quoteShell(s string) string {
	special := func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_./:@,+=", r))
	}
	if s != "" && strings.IndexFunc(s, special) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
