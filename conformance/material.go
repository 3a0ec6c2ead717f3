package conformance

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sessionstore/sessionstore"
)

// mainKey looks like the keys that agents use.
var mainKey = key{
	ProjectKey: "-home-user-project",
	SessionID:  "0b8e7a52-6f0d-4c7e-9a51-3f1f6c1d2e90",
}

func sub(k key, path string) key {
	k.Subpath = path
	return k
}

// session is another session of the project of k.
func session(k key, id string) key {
	return key{ProjectKey: k.ProjectKey, SessionID: id}
}

// user returns an entry with a uuid.
func user(uuid string) entry {
	return userSays(uuid, "hello from "+uuid)
}

func userSays(uuid, text string) entry {
	return entry(fmt.Sprintf(`{"type":"user","uuid":%q,"message":{"role":"user","content":%q}}`, uuid, text))
}

// users returns n entries with different uuids.
func users(prefix string, n int) []entry {
	batch := make([]entry, n)
	for i := range batch {
		batch[i] = user(fmt.Sprintf("%s-%d", prefix, i))
	}
	return batch
}

// title returns an entry without a uuid.
func title(text string) entry {
	return entry(fmt.Sprintf(`{"type":"custom-title","customTitle":%q}`, text))
}

// clone copies the entries and the slice.
func clone(entries []entry) []entry {
	c := slices.Clone(entries)
	for i := range c {
		c[i] = slices.Clone(c[i])
	}
	return c
}

// overwrite destroys the bytes of the entries.
func overwrite(entries []entry) {
	for _, e := range entries {
		for i := range e {
			e[i] = '#'
		}
	}
}

// nested returns an object with that many levels, itself included.
func nested(levels int) entry {
	return entry(`{"a":` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + `}`)
}

// sortedIDs returns the session ids, sorted.
func sortedIDs(infos []sessionstore.SessionInfo) []string {
	var ids []string
	for _, info := range infos {
		ids = append(ids, info.SessionID)
	}
	slices.Sort(ids)
	return ids
}

func in(project, session, subpath string) key {
	return key{ProjectKey: project, SessionID: session, Subpath: subpath}
}
