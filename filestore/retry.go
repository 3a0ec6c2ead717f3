package filestore

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
)

// landed is where an append of unknown outcome has written.
type landed struct {
	offset int64
	n      int64             // bytes that may be there
	sum    [sha256.Size]byte // of them
	whole  bool              // they are the whole batch
}

// takeBack cuts the file to its length before the append, of which n bytes
// were written. It returns the cause.
func (a *appendOp) takeBack(text []byte, n int, cause error) error {
	if text == nil {
		return cause
	}
	info, err := a.file.Stat()
	if err == nil && info.Size() != a.size+int64(n) {
		// A writer that knows no locks has written behind us.
		err = errors.New("the file has changed meanwhile")
	}
	if err == nil && n > 0 {
		err = a.s.calls.truncate(a.file, a.size)
	}
	if err != nil {
		return a.mayHaveLanded(text, n, fmt.Errorf("%w (and taking back %d bytes: %w)", cause, n, err))
	}
	a.keep = false
	a.try.State = landed{}
	return cause
}

// mayHaveLanded remembers what a repeated append has to look for.
func (a *appendOp) mayHaveLanded(text []byte, n int, cause error) error {
	if text != nil {
		a.try.State = landed{
			offset: a.size, n: int64(n),
			sum: sha256.Sum256(text[:n]), whole: n == len(text),
		}
	}
	a.unknown = true
	return cause
}

// settle looks where an earlier attempt with the same batch may have written.
// It reports whether that attempt has landed, and removes half of one.
func (a *appendOp) settle() (stored bool, err error) {
	was := a.try.State
	if a.file == nil || !a.try.Repeated || was.n == 0 {
		return false, nil
	}
	info, err := a.file.Stat()
	if err != nil {
		return false, err
	}
	if info.Size() < was.offset+was.n {
		return false, nil
	}
	text := make([]byte, was.n)
	if _, err := a.file.ReadAt(text, was.offset); err != nil && err != io.EOF {
		return false, err
	}
	if sha256.Sum256(text) != was.sum {
		return false, nil
	}
	a.keep = true
	if was.whole {
		return true, a.syncAgain(text, was.offset)
	}
	if info.Size() == was.offset+was.n {
		if err := a.s.calls.truncate(a.file, was.offset); err != nil {
			return false, err
		}
		a.try.State = landed{}
	}
	return false, nil
}

// syncAgain brings to disk what an fsync has failed for. The bytes are written
// once more first: after a failure the system may take them for written.
func (a *appendOp) syncAgain(text []byte, offset int64) error {
	if !a.s.opts.Fsync {
		return nil
	}
	f, err := a.s.root.OpenFile(a.place.lines, os.O_WRONLY|openNonblock, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if same, err := a.s.isAt(a.file, a.place.lines); err != nil || !same {
		return errors.Join(err, errors.New("the file has been replaced meanwhile"))
	}
	if _, err := f.WriteAt(text, offset); err != nil {
		return err
	}
	return a.s.calls.sync(f)
}
