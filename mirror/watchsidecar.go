package mirror

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/jsonscan"
)

// addMetadata adds the metadata entry unless it is the last one stored.
func (t *turn) addMetadata(e sessionstore.Entry) {
	if e == nil || e.Equal(t.f.metadata) {
		return
	}
	t.f.metadata = e
	t.batch = append(t.batch, e)
	t.size += len(e)
}

// readSidecar returns the metadata entry if there may be a new one. A sidecar
// that is being written is looked at again when it has changed.
func (t *turn) readSidecar(root *os.Root) (sessionstore.Entry, error) {
	f := t.f
	if f.sidecar.name == "" || f.key.Subpath == "" || f.compared && f.sidecar.same(f.seenSidecar) {
		return nil, nil
	}
	file, err := root.Open(f.sidecar.name)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	defer file.Close()
	if f.sidecar.info, err = file.Stat(); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, sessionstore.MaxEntryLen))
	if err != nil {
		return nil, err
	}
	e, err := metadataEntry(text)
	if err != nil {
		t.w.skip(WatchSkip{Path: f.sidecar.name, Offset: f.sidecar.info.Size(), Err: err})
		return nil, nil
	}
	return e, nil
}

// metadataEntry makes an entry of what a sidecar holds, which lacks its type.
func metadataEntry(text []byte) (sessionstore.Entry, error) {
	text = bytes.TrimRight(text, "\x00 \t\r\n")
	hasType := false
	err := jsonscan.Object(text, func(key, _ []byte) { hasType = hasType || jsonscan.KeyIs(key, "type") })
	if err != nil {
		return nil, fmt.Errorf("%w: %w", sessionstore.ErrInvalidEntry, err)
	}
	const ours = `"type":"` + sessionstore.MetadataType + `"`
	first := bytes.IndexByte(text, '{') + 1
	switch inside := text[first : len(text)-1]; {
	case len(bytes.TrimSpace(inside)) == 0:
		return sessionstore.Entry("{" + ours + "}"), nil
	case hasType: // the last one of a repeated key counts
		return sessionstore.Entry(fmt.Sprintf("{%s,%s}", inside, ours)).Line(), nil
	default:
		return sessionstore.Entry(fmt.Sprintf("{%s,%s}", ours, inside)).Line(), nil
	}
}
