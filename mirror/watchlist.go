package mirror

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
)

const (
	sidecarSuffix = ".meta.json"
	// journalName is a file of workflows that is never mirrored.
	journalName = "journal" + linesSuffix
)

// lister walks a projects directory. Nothing leads out of it: neither names
// nor links.
type lister struct {
	w     *watcher
	root  *os.Root
	ctx   context.Context
	found map[string]bool // paths of transcripts, without their ending
	errs  []error
}

var (
	errTooDeep = errors.New("it lies deeper than any transcript")
	errHidden  = errors.New("the name of a project does not begin with a dot")
)

// maxDepth ends the walk where a link leads back to a directory above.
const maxDepth = 16

// dir looks at one directory, which lies at segs below the root.
func (l *lister) dir(segs []string, up []os.FileInfo) {
	name := "."
	if len(segs) > 0 {
		name = strings.Join(segs, "/")
	}
	if l.ctx.Err() != nil {
		return
	}
	if len(segs) > maxDepth {
		l.w.skip(WatchSkip{Path: name, Err: errTooDeep})
		return
	}
	f, err := l.root.Open(name)
	if err != nil {
		l.fail(name, err)
		return
	}
	defer f.Close()
	self, err := f.Stat()
	if err != nil {
		l.fail(name, err)
		return
	}
	for _, above := range up {
		if os.SameFile(above, self) {
			return
		}
	}
	up = append(up[:len(up):len(up)], self)
	entries, err := f.ReadDir(-1)
	if err != nil {
		l.fail(name, err)
	}
	for _, e := range entries {
		l.entry(segs, e, up)
	}
}

func (l *lister) entry(segs []string, e fs.DirEntry, up []os.FileInfo) {
	segs = append(segs[:len(segs):len(segs)], e.Name())
	name := strings.Join(segs, "/")
	isFile := strings.HasSuffix(name, linesSuffix) || len(segs) > 2 && strings.HasSuffix(name, sidecarSuffix)
	mode := e.Type()
	var info os.FileInfo
	var err error
	if isFile || mode&fs.ModeSymlink != 0 {
		if info, err = l.root.Stat(name); err != nil {
			l.fail(name, err)
			return
		}
		mode = info.Mode().Type()
	}
	switch {
	case mode.IsDir():
		l.dir(segs, up)
	case isFile && mode.IsRegular():
		l.file(segs, name, info)
	}
}

// file notes a transcript or the sidecar of one.
func (l *lister) file(segs []string, name string, info os.FileInfo) {
	if len(segs) > 2 && segs[len(segs)-1] == journalName {
		return
	}
	if strings.HasPrefix(name, ".") { // of a program that is no agent
		l.w.skip(WatchSkip{Path: name, Err: errHidden})
		return
	}
	stem, isLines := strings.CutSuffix(name, linesSuffix)
	if !isLines {
		if info.Size() == 0 {
			return // it is being written, or its writer was killed: nothing is in it
		}
		stem = strings.TrimSuffix(name, sidecarSuffix)
	}
	key, err := keyOf(strings.Split(stem+linesSuffix, "/"))
	if err != nil {
		l.w.skip(WatchSkip{Path: name, Err: err})
		return
	}
	key = storeKey(l.w.store, key)
	f := l.w.files[stem]
	if f == nil {
		f = &watched{key: key, triedFrom: -1}
		l.w.files[stem] = f
	}
	if !l.found[stem] {
		l.found[stem] = true
		f.lines, f.sidecar = fileState{}, fileState{}
	}
	if isLines {
		f.lines = fileState{name, info}
	} else {
		f.sidecar = fileState{name, info}
	}
}

// fail notes what could not be read. What has gone meanwhile, and links that
// lead nowhere or out, are passed over.
func (l *lister) fail(name string, err error) {
	switch {
	case errors.Is(err, fs.ErrNotExist) && name != ".":
	case errors.Is(err, fs.ErrPermission), name == ".":
		l.errs = append(l.errs, err)
	default:
		l.w.skip(WatchSkip{Path: name, Err: err})
	}
}
