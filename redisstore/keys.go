package redisstore

import (
	"strings"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/keyenc"
)

// Names of keys. What stands between the first { and the next } decides the
// slot on a Redis Cluster. Neither the prefix nor an escaped name holds a
// brace, so the tag is always ours:
//
//	<prefix>{<project>/<session>}:meta         hash, one per session
//	<prefix>{<project>/<session>}:list/<sub>   list, the entries
//	<prefix>{<project>/<session>}:ids/<sub>    set, the ids that it holds
//	<prefix>{<project>/<session>}:lens/<sub>   string, 4 bytes per entry: its length
//	<prefix>{<project>/<session>}:subs         set, the fields of the subpaths
//	<prefix>{<project>/<session>}:stage/<id>/<n>
//	                                           list, for moments, a piece of a very large batch
//	<prefix>{<project>}:sessions               hash, the index of a project
//	<prefix>{/}:projects                       hash, the index of projects
//
// Project and session are escaped, the subpath is as it is (empty for the main
// transcript).
//
// Fields of meta. There is one per transcript, its subpath behind a slash:
//
//	/<sub>  "<entries> <ids> <generation>", and for the main transcript
//	        " <time in ms> <entries folded into the summary>" behind it
//	s       summary of the main transcript
//	v       version of the format, 1
//	x       instant in ms at which all keys of the session expire
//	w       written to have something to WAIT for

const (
	formatVersion = "1"
	// mainField is the field of the main transcript, and starts all others.
	mainField = "/"
)

func fieldOf(key sessionstore.Key) string { return mainField + key.Subpath }

func (s *Store) base(project, session string) string {
	return s.prefix + "{" + keyenc.Encode(project) + "/" + keyenc.Encode(session) + "}"
}

func (s *Store) metaKey(project, session string) string { return s.base(project, session) + ":meta" }

func (s *Store) subsKey(project, session string) string { return s.base(project, session) + ":subs" }

func (s *Store) sessionsKey(project string) string {
	return s.prefix + "{" + keyenc.Encode(project) + "}:sessions"
}

func (s *Store) projectsKey() string { return s.prefix + "{/}:projects" }

// names are the keys of one transcript.
type names struct{ meta, list, ids, lens, field string }

func (s *Store) names(key sessionstore.Key) names {
	base, field := s.base(key.ProjectKey, key.SessionID), fieldOf(key)
	return names{
		meta: base + ":meta", list: base + ":list" + field,
		ids: base + ":ids" + field, lens: base + ":lens" + field, field: field,
	}
}

// parseKey is the inverse: it returns the kind of a key of a session, such as
// "meta" or "list", and what it belongs to. Keys of others are not ok.
func (s *Store) parseKey(name string) (kind string, key sessionstore.Key, ok bool) {
	rest, ok := strings.CutPrefix(name, s.prefix+"{")
	if !ok {
		return "", key, false
	}
	tag, rest, ok := strings.Cut(rest, "}:")
	if !ok {
		return "", key, false
	}
	project, session, ok := strings.Cut(tag, "/")
	if !ok {
		return "", key, false
	}
	var err1, err2 error
	key.ProjectKey, err1 = keyenc.Decode(project)
	key.SessionID, err2 = keyenc.Decode(session)
	kind, key.Subpath, _ = strings.Cut(rest, "/")
	return kind, key, err1 == nil && err2 == nil
}

// escapeGlob makes SCAN take a text as it is.
func escapeGlob(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `^`, `\^`).Replace(text)
}
