package filestore

import (
	"bytes"
	"container/list"
	"context"
	"io"
	"math"
	"os"
	"sync"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/idset"
	"github.com/sessionstore/sessionstore/internal/jsonl"
)

// maxKnownIDs is how many uuids one store remembers, over all transcripts: some
// 40 MB. Beyond it the transcripts not written for the longest time are read
// again when they are next appended to.
const maxKnownIDs = 1 << 20

// endLen is how much of the end of a file is remembered to recognise it, and of
// its beginning.
const endLen = 256

// known is what a store knows of a transcript that it has appended to: the
// uuids in it, up to the end of a line, and the summary of the entries there.
type known struct {
	ids  idset.Set
	sum  sessionstore.SummaryState // of a main transcript
	info os.FileInfo               // which file it was
	size int64                     // how far it has been read
	end  []byte                    // the last bytes up to there
	// begin are the first bytes, and birth is when the file was made.
	begin []byte
	birth int64
}

// tail is the last line of a file when no line feed follows it.
type tail struct {
	torn  bool
	hasID bool
	id    idset.ID
	entry sessionstore.Entry // nil if the line is none
}

func (k *known) forget() { *k = known{} }

// catchUp reads what others have added since, or the whole file if it is not
// the one it was. An inode number can be used again, so the first and the last
// known bytes are compared too, and when it was made. Summary says what the kept summary of the file has taken
// in; where it is nil, none is needed.
func (k *known) catchUp(ctx context.Context, f *os.File, info os.FileInfo, summary func() start) (tail, error) {
	same, err := k.isStart(f, info)
	if err != nil {
		return tail{}, err
	}
	foldFrom := k.size
	if !same {
		k.forget()
		if summary != nil {
			from := summary()
			k.sum, foldFrom = from.state, from.lines
		}
	}
	if summary == nil {
		foldFrom = math.MaxInt64
	}
	last, end, err := k.scan(ctx, f, info.Size(), foldFrom)
	if err == nil {
		err = k.readEnds(f, end)
	}
	if err != nil {
		k.forget()
		return tail{}, err
	}
	k.info, k.size = info, end
	return last, nil
}

func (k *known) isStart(f *os.File, info os.FileInfo) (bool, error) {
	if k.info == nil || !os.SameFile(k.info, info) || info.Size() < k.size {
		return false, nil
	}
	if info.Size() == k.info.Size() && !info.ModTime().Equal(k.info.ModTime()) {
		return false, nil // written to without growing
	}
	var buf [endLen]byte
	same := func(want []byte, at int64) (bool, error) {
		got := buf[:len(want)]
		if _, err := f.ReadAt(got, at); err != nil && err != io.EOF {
			return false, err
		}
		return string(got) == string(want), nil
	}
	if ok, err := same(k.end, k.size-int64(len(k.end))); err != nil || !ok {
		return false, err
	}
	if stampOf(info) == stampOf(k.info) {
		return true, nil // nobody else has written to it
	}
	if birthTime(f) != k.birth {
		return false, nil
	}
	return same(k.begin, 0)
}

// scan adds the uuids up to an offset, and folds what is new from another one
// on. It returns the last line if it has no line feed, and where the line
// before it ends.
func (k *known) scan(ctx context.Context, f *os.File, to, foldFrom int64) (last tail, end int64, err error) {
	if k.size == to {
		return tail{}, to, nil
	}
	end = to
	entries := jsonl.NewEntries(jsonl.NewLinesAt(reader{ctx, f}, k.size, to, sessionstore.MaxEntryLen), func(s jsonl.Skip) {
		if s.Torn {
			last.torn, end = true, s.Offset
		}
	})
	for {
		e, err := entries.Next()
		if err == io.EOF {
			return last, end, nil
		}
		if err != nil {
			return last, end, err
		}
		switch {
		case e.Torn:
			last.torn, end = true, e.Offset
			last.entry = bytes.Clone(e.Data)
			if len(e.UUID) > 0 {
				last.hasID, last.id = true, idset.Of(e.UUID)
			}
		case len(e.UUID) > 0 && !k.ids.Add(idset.Of(e.UUID)):
			// a repeat
		case e.Offset >= foldFrom:
			k.sum.Fold(e.Data)
		}
	}
}

func (k *known) readEnds(f *os.File, size int64) (err error) {
	if size == k.size && k.end != nil {
		return nil
	}
	if k.info == nil {
		k.birth = birthTime(f)
	}
	if len(k.begin) < endLen {
		if k.begin, err = beginOf(f, min(size, endLen)); err != nil {
			return err
		}
	}
	k.end, err = endOf(f, size, endLen)
	return err
}

// beginOf reads the first n bytes of a file.
func beginOf(f *os.File, n int64) ([]byte, error) {
	begin := make([]byte, max(0, min(n, endLen)))
	read, err := f.ReadAt(begin, 0)
	if read == len(begin) {
		err = nil
	}
	return begin, err
}

// endOf reads the last n bytes of the first size ones.
func endOf(f *os.File, size, n int64) ([]byte, error) {
	end := make([]byte, max(0, min(size, n, endLen)))
	read, err := f.ReadAt(end, size-int64(len(end)))
	if read == len(end) {
		err = nil
	}
	return end, err
}

// grow takes in an append at offset size. It reports whether nobody else has
// written meanwhile; otherwise the next append reads what is new.
func (k *known) grow(f *os.File, size int64, added *addition) bool {
	info, err := f.Stat()
	if err != nil || info.Size() != size+int64(len(added.text)) {
		return false
	}
	// The new lines made a whole line of the last one.
	if last := added.behind; (!last.hasID || k.ids.Add(last.id)) && added.main {
		k.sum.Fold(last.entry)
	}
	for i, c := range added.lines {
		if len(c.UUID) > 0 {
			k.ids.Add(added.ids[i])
		}
		if added.main {
			k.sum.FoldChecked(c)
		}
	}
	k.info, k.size = info, info.Size()
	if n := endLen - len(k.begin); n > 0 && int64(len(k.begin)) == size {
		k.begin = append(k.begin, added.text[:min(n, len(added.text))]...)
	}
	k.end = append([]byte(nil), added.text[max(0, len(added.text)-endLen):]...)
	return true
}

// knownFiles remembers transcripts, those appended to last first.
type knownFiles struct {
	mu    sync.Mutex
	m     map[sessionstore.Key]*list.Element // of *knownFile
	order list.List
	ids   int
	max   int
}

type knownFile struct {
	key   sessionstore.Key
	known *known
}

// take gives what is known of a transcript to its only user, who puts it back.
func (kf *knownFiles) take(key sessionstore.Key) *known {
	kf.mu.Lock()
	defer kf.mu.Unlock()
	if el, ok := kf.m[key]; ok {
		return kf.remove(el).known
	}
	return &known{}
}

func (kf *knownFiles) put(key sessionstore.Key, k *known) {
	if k.info == nil {
		return
	}
	kf.mu.Lock()
	defer kf.mu.Unlock()
	if kf.m == nil {
		kf.m = make(map[sessionstore.Key]*list.Element)
	}
	kf.m[key] = kf.order.PushFront(&knownFile{key, k})
	kf.ids += k.cost()
	for kf.ids > kf.max && kf.order.Len() > 1 {
		kf.remove(kf.order.Back())
	}
}

func (kf *knownFiles) remove(el *list.Element) *knownFile {
	f := kf.order.Remove(el).(*knownFile)
	delete(kf.m, f.key)
	kf.ids -= f.known.cost()
	return f
}

// forget drops a deleted transcript, or session if the key is a main one.
func (kf *knownFiles) forget(key sessionstore.Key) {
	kf.mu.Lock()
	defer kf.mu.Unlock()
	for k, el := range kf.m {
		if k == key || key.Subpath == "" && k.Main() == key {
			kf.remove(el)
		}
	}
}

// cost counts a transcript without uuids too: it takes memory as well.
func (k *known) cost() int { return k.ids.Len() + 32 }
