package filestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/attempt"
	"github.com/sessionstore/sessionstore/internal/idset"
)

// metadataType is the type of the entries that the agent keeps in a sidecar.
const metadataType = "agent_metadata"

// Append adds a batch at the end of the transcript, in one write. See
// [sessionstore.SessionStore].
func (s *Store) Append(ctx context.Context, key sessionstore.Key, entries []sessionstore.Entry) error {
	batch, err := sessionstore.Check(key, entries)
	if err != nil || len(batch) == 0 {
		return fail("append", key, err)
	}
	if s.opts.ReadOnly {
		return fail("append", key, errReadOnly)
	}
	if err := ctx.Err(); err != nil {
		return fail("append", key, err)
	}
	lines := make([][]byte, len(batch))
	for i, c := range batch {
		lines[i] = c.Line
	}
	a := appendOp{s: s, key: key, place: placeOf(key), batch: batch, try: s.attempts.Begin(ctx, key, lines)}
	err = a.run(ctx)
	switch {
	case err == nil:
		a.try.Stored()
	case a.unknown:
		a.try.Unknown()
	default:
		a.try.NotStored()
	}
	return fail("append", key, err)
}

// appendOp is one append under way.
type appendOp struct {
	s       *Store
	key     sessionstore.Key
	place   place
	batch   []sessionstore.Checked
	try     *attempt.Attempt[sessionstore.Key, landed]
	unknown bool // what was written could not be taken back

	lines       int                // number of entries that are lines
	hasMetadata bool               // there is at least one that is not
	metadata    sessionstore.Entry // what the sidecar has to hold, nil: as before

	known *known
	file  *os.File
	size  int64 // of the file before this append
	made  bool  // this append has created the file
	keep  bool  // and has written to it
}

// run takes the locks and appends.
func (a *appendOp) run(ctx context.Context) error {
	a.split()
	s := a.s
	// On a disk that folds case nobody else may create a name meanwhile.
	alone := s.foldsCase.Load()
	leave, err := s.gates.acquire(ctx, "project "+a.place.project, alone)
	if err != nil {
		return err
	}
	defer leave()
	leave, err = s.gates.acquire(ctx, "transcript "+a.place.lines, true)
	if err != nil {
		return err
	}
	defer leave()
	dir, err := s.lockProject(ctx, a.place.project, alone, true)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := s.checkCase(a.key); err != nil {
		return err
	}
	a.known = s.known.take(a.key)
	defer func() { s.known.put(a.key, a.known) }()
	if err := a.openFile(ctx); err != nil {
		return err
	}
	defer a.closeFile()
	return a.write(ctx)
}

// split tells the entries for the sidecar from those that are lines.
func (a *appendOp) split() {
	for i := range a.batch {
		if a.isMetadata(&a.batch[i]) {
			a.hasMetadata = true
		} else {
			a.lines++
		}
	}
}

// isMetadata: in a main transcript such an entry is a line like any other.
func (a *appendOp) isMetadata(c *sessionstore.Checked) bool {
	return a.place.sidecar != "" && string(c.Type) == metadataType
}

// openFile opens and locks the transcript. It is created if there are lines for
// it: in a new transcript at least the first of them is new.
func (a *appendOp) openFile(ctx context.Context) error {
	for {
		f, made, err := a.openOrCreate()
		if err != nil || f == nil {
			return err
		}
		same := false
		if err = lockFile(ctx, f, true); err == nil {
			same, err = a.s.isAt(f, a.place.lines)
		}
		if err == nil && same {
			a.file, a.made = f, made
			return nil
		}
		f.Close()
		if err != nil {
			return err
		}
	}
}

func (a *appendOp) openOrCreate() (f *os.File, made bool, err error) {
	// With O_APPEND not even a writer that knows no locks is overwritten.
	const flags = os.O_RDWR | os.O_APPEND | openNonblock
	root, name := a.s.root, a.place.lines
	f, err = root.OpenFile(name, flags, 0)
	if isMissing(err) {
		if a.lines == 0 {
			return nil, false, nil
		}
		if err := a.s.makeDirs(path.Dir(name)); err != nil {
			return nil, false, err
		}
		f, err = root.OpenFile(name, flags|os.O_CREATE|os.O_EXCL, fileMode)
		made = err == nil
		if errors.Is(err, os.ErrExist) {
			// Another process was faster, or it is a link that leads nowhere.
			f, err = root.OpenFile(name, flags, 0)
		}
	}
	if err != nil {
		return nil, false, err
	}
	if err := checkRegular(f); err != nil {
		f.Close()
		return nil, false, err
	}
	return f, made, nil
}

func checkRegular(f *os.File) error {
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w", f.Name(), errNotFile)
	}
	return err
}

func (a *appendOp) closeFile() {
	if a.file == nil {
		return
	}
	if a.made && !a.keep {
		a.s.root.Remove(a.place.lines) // still locked: nobody can be using it
	}
	a.file.Close()
}

// write stores what is new of the batch. The sidecar takes effect last, by a
// rename, so that until then everything can be taken back.
func (a *appendOp) write(ctx context.Context) error {
	stored, err := a.settle()
	if err != nil {
		return err
	}
	var added addition
	if !stored || a.hasMetadata {
		if added, err = a.compose(ctx, stored); err != nil {
			return err
		}
	}
	text := added.text
	if text != nil || a.metadata != nil {
		if err := a.s.ensureFormat(); err != nil {
			return err
		}
		if err := a.commit(text); err != nil {
			return err
		}
	}
	if text != nil && a.known.grow(a.file, a.size, &added) && added.main {
		a.s.keepSummary(a.place, a.known.summary())
	}
	// Metadata that is there already may come from an attempt that failed here.
	if a.made || a.hasMetadata || stored {
		err = a.s.syncDirs(path.Dir(a.place.lines))
	}
	if err == nil {
		err = a.s.calls.done(a.key)
	}
	if err != nil {
		return a.mayHaveLanded(text, len(text), err)
	}
	return nil
}

// commit writes the lines and the sidecar, or neither.
func (a *appendOp) commit(text []byte) error {
	temp, err := a.prepareSidecar()
	if err != nil {
		return err
	}
	if text != nil {
		err = a.writeLines(text)
	}
	if err == nil && temp != "" {
		if err = a.s.calls.rename(a.s.root, temp, a.place.sidecar); err != nil {
			err = a.takeBack(text, len(text), err)
		}
	}
	if err != nil && temp != "" {
		a.s.root.Remove(temp)
	}
	return err
}

// addition is what an append adds to a file.
type addition struct {
	main   bool // to a main transcript, which has a summary
	behind tail // what the file ended with
	lines  []*sessionstore.Checked
	ids    []idset.ID // of the lines, where they have a uuid
	text   []byte     // nil if there is nothing to add
}

// compose returns what has to be written: the lines of the batch that the
// transcript does not hold yet. It also sets metadata.
func (a *appendOp) compose(ctx context.Context, stored bool) (added addition, err error) {
	added.main = a.key.Subpath == ""
	if added.behind, err = a.catchUp(ctx); err != nil {
		return addition{}, err
	}
	added.lines, added.ids, err = a.fresh(added.behind)
	if err != nil || stored || len(added.lines) == 0 {
		return addition{}, err
	}
	n := 1
	for _, c := range added.lines {
		n += len(c.Line) + 1
	}
	added.text = make([]byte, 0, n)
	if added.behind.torn {
		// What a crash has cut off must not be glued to what follows.
		added.text = append(added.text, '\n')
	}
	for _, c := range added.lines {
		added.text = append(append(added.text, c.Line...), '\n')
	}
	return added, nil
}

// catchUp learns what the transcript holds.
func (a *appendOp) catchUp(ctx context.Context) (tail, error) {
	if a.file == nil {
		a.known.forget()
		return tail{}, nil
	}
	info, err := a.file.Stat()
	if err != nil {
		return tail{}, err
	}
	a.size = info.Size()
	var summary func() start
	if a.key.Subpath == "" {
		summary = func() start { return a.s.startOf(a.place, a.file, info) }
	}
	return a.known.catchUp(ctx, a.file, info, summary)
}

// fresh drops the entries whose uuid is known, from the transcript or from
// further up in the batch.
func (a *appendOp) fresh(last tail) (lines []*sessionstore.Checked, ids []idset.ID, err error) {
	beside, hasBeside, err := a.sidecarID()
	if err != nil {
		return nil, nil, err
	}
	var batch idset.Set
	lines, ids = make([]*sessionstore.Checked, 0, a.lines), make([]idset.ID, 0, a.lines)
	repeats := false // the last metadata is what the sidecar holds
	for i := range a.batch {
		c := &a.batch[i]
		metadata, id, isBeside := a.isMetadata(c), idset.ID{}, false
		if len(c.UUID) > 0 {
			id = idset.Of(c.UUID)
			isBeside = hasBeside && beside == id
			if a.known.ids.Has(id) || last.hasID && last.id == id || isBeside && !metadata || !batch.Add(id) {
				continue
			}
		}
		if metadata {
			a.metadata, repeats = c.Line, isBeside
		} else {
			lines, ids = append(lines, c), append(ids, id)
		}
	}
	if repeats {
		a.metadata = nil // nor does what came before it in the batch stay
	}
	return lines, ids, nil
}

// sidecarID returns the uuid of the metadata that the transcript has. What is
// no metadata has none, and is replaced by what is.
func (a *appendOp) sidecarID() (id idset.ID, ok bool, err error) {
	if a.place.sidecar == "" {
		return id, false, nil
	}
	f, info, err := a.s.openRegular(a.place.sidecar)
	if err != nil {
		if isForeign(err) {
			err = nil
		}
		return id, false, err
	}
	defer f.Close()
	e, _, err := readSidecar(f, info.Size())
	if err != nil {
		return id, false, err
	}
	id, ok = idOf(e)
	return id, ok, nil
}

// prepareSidecar writes the new metadata beside its place.
func (a *appendOp) prepareSidecar() (temp string, err error) {
	if a.metadata == nil {
		return "", nil
	}
	dir := path.Dir(a.place.sidecar)
	if err := a.s.makeDirs(dir); err != nil {
		return "", err
	}
	return a.s.writeTemp(dir, sidecarText(a.metadata))
}

// writeLines writes once, and takes back what a failed write has left.
func (a *appendOp) writeLines(text []byte) error {
	a.keep = true
	n, err := a.s.calls.write(a.file, text)
	if err == nil && n < len(text) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return a.takeBack(text, n, err)
	}
	if a.s.opts.Fsync {
		if err := a.s.calls.sync(a.file); err != nil {
			return a.mayHaveLanded(text, n, err)
		}
	}
	return nil
}
