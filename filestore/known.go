package filestore

import (
	"container/list"
	"context"
	"io"
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

// endLen is how much of the end of a file is remembered to recognise it.
const endLen = 256

// known is what a store knows of a transcript that it has appended to: the
// uuids in it, up to the end of a line.
type known struct {
	ids  idset.Set
	info os.FileInfo // which file it was
	size int64       // how far it has been read
	end  []byte      // the last bytes up to there
}

// tail is the last line of a file when no line feed follows it.
type tail struct {
	torn  bool
	hasID bool
	id    idset.ID
}

func (k *known) forget() { *k = known{} }

// catchUp reads what others have added since, or the whole file if it is not
// the one it was. An inode number can be used again, so the last known bytes
// are compared too.
func (k *known) catchUp(ctx context.Context, f *os.File, info os.FileInfo) (tail, error) {
	same, err := k.isStart(f, info)
	if err != nil {
		return tail{}, err
	}
	if !same {
		k.forget()
	}
	last, end, err := k.scan(ctx, f, k.size, info.Size())
	if err == nil {
		err = k.readEnd(f, end)
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
	end := buf[:len(k.end)]
	if _, err := f.ReadAt(end, k.size-int64(len(end))); err != nil && err != io.EOF {
		return false, err
	}
	return string(end) == string(k.end), nil
}

// scan adds the uuids between two offsets. It returns the last line if it has
// no line feed, and where the line before it ends.
func (k *known) scan(ctx context.Context, f *os.File, from, to int64) (last tail, end int64, err error) {
	if from == to {
		return tail{}, to, nil
	}
	end = to
	entries := jsonl.NewEntries(jsonl.NewLinesAt(reader{ctx, f}, from, to, sessionstore.MaxEntryLen), func(s jsonl.Skip) {
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
			if len(e.UUID) > 0 {
				last.hasID, last.id = true, idset.Of(e.UUID)
			}
		case len(e.UUID) > 0:
			k.ids.Add(idset.Of(e.UUID))
		}
	}
}

func (k *known) readEnd(f *os.File, size int64) error {
	if size == k.size && k.end != nil {
		return nil
	}
	k.end = make([]byte, min(size, endLen))
	_, err := f.ReadAt(k.end, size-int64(len(k.end)))
	if err == io.EOF && len(k.end) == 0 {
		err = nil
	}
	return err
}

// grow takes in an append of text at offset size.
func (k *known) grow(f *os.File, size int64, text []byte, ids []idset.ID) {
	if text == nil {
		return
	}
	info, err := f.Stat()
	if err != nil || info.Size() != size+int64(len(text)) {
		return // someone else has written too: the next append reads it
	}
	for _, id := range ids {
		k.ids.Add(id)
	}
	k.info, k.size = info, info.Size()
	k.end = append([]byte(nil), text[max(0, len(text)-endLen):]...)
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
func (k *known) cost() int { return k.ids.Len() + 16 }
