package mirror

import (
	"bytes"
	"strings"

	"github.com/sessionstore/sessionstore"
)

// NeverMirrored reports whether agents keep an entry to themselves: no frame
// holds it, and [Watch] leaves it out. A nil entry asks about the transcript as
// a whole. Where one store was filled by mirroring and the other from the
// agent's files, this is what only the latter has.
func NeverMirrored(key sessionstore.Key, e sessionstore.Entry) bool {
	last := key.Subpath[strings.LastIndexByte(key.Subpath, '/')+1:]
	if key.Subpath != "" && last+linesSuffix == journalName {
		return true
	}
	return bytes.Contains(e, []byte(notMirrored)) && strings.HasPrefix(e.Type(), notMirrored)
}
