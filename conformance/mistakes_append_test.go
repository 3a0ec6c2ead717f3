package conformance

import (
	"bytes"
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/sessionstore/sessionstore"
)

type appendFunc = func(ctx context.Context, k key, entries []entry) error

// around replaces Append by a function that may call the one before.
func around(f func(s *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error) func(*testStore) {
	return func(s *testStore) {
		next := s.ops.append
		s.ops.append = func(ctx context.Context, k key, entries []entry) error { return f(s, next, ctx, k, entries) }
	}
}

// afterLoad changes what Load and Stream return.
func afterLoad(f func(k key, got []entry) []entry) func(*testStore) {
	return func(s *testStore) {
		load := s.ops.load
		s.ops.load = func(ctx context.Context, k key) ([]entry, error) {
			got, err := load(ctx, k)
			return f(k, got), err
		}
		s.ops.stream = streamOf(s)
	}
}

// accept makes Append take keys and entries that it should refuse.
func accept(badKey func(k key) bool, badEntry func(e entry) bool) func(*testStore) {
	return func(s *testStore) {
		s.check = func(k key, entries []entry) error {
			if badKey(k) {
				k = mainKey
			}
			var rest []entry
			for _, e := range entries {
				if !badEntry(e) {
					rest = append(rest, e)
				}
			}
			_, err := sessionstore.Check(k, rest)
			return err
		}
	}
}

func acceptEntry(bad func(e entry) bool) func(*testStore) {
	return accept(func(key) bool { return false }, bad)
}
func acceptKey(bad func(k key) bool) func(*testStore) {
	return accept(bad, func(entry) bool { return false })
}

// refuse makes Append refuse what it should take.
func refuse(badKey func(k key) bool, badEntry func(e entry) bool) func(*testStore) {
	return around(func(_ *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
		if badKey(k) || slices.ContainsFunc(entries, badEntry) {
			return errors.New("refused")
		}
		return next(ctx, k, entries)
	})
}

func parts3(k key) []string {
	return append([]string{k.ProjectKey, k.SessionID}, strings.Split(k.Subpath, "/")...)
}

func anyPart(f func(s string) bool) func(k key) bool {
	return func(k key) bool { return slices.ContainsFunc(parts3(k), f) }
}

func no(entry) bool { return false }

var appendMistakes = []mistake{
	{name: "keeps the order of types in a batch", broad: true, want: []string{"Append/Whole", "Order/InBatch"}, make: around(
		func(_ *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			entries = slices.Clone(entries)
			slices.SortStableFunc(entries, func(a, b entry) int { return strings.Compare(a.Type(), b.Type()) })
			return next(ctx, k, entries)
		})},
	{name: "sorts by uuid", broad: true, want: []string{"Append/AtTheEnd", "Order/Calls"}, make: afterLoad(func(_ key, got []entry) []entry {
		slices.SortStableFunc(got, func(a, b entry) int { return strings.Compare(a.UUID(), b.UUID()) })
		return got
	})},
	{name: "cuts batches of subpaths", want: []string{"Append/Subpath"}, make: around(
		func(_ *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			if k.Subpath == "subagents/agent-1" && len(entries) > 2 {
				entries = entries[:2]
			}
			return next(ctx, k, entries)
		})},
	{name: "creates the transcript of an empty batch", want: []string{"Append/EmptyBatch"}, make: around(
		func(s *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			if len(entries) == 0 && k.Subpath == "" && k.Validate() == nil {
				s.commit(k, s.disk.newAttempt(), nil)
			}
			return next(ctx, k, entries)
		})},
	{name: "creates the subpath of an empty batch", want: []string{"Append/EmptyBatchToSubpath"}, make: around(
		func(s *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			if len(entries) == 0 && k.Subpath != "" {
				s.commit(k, s.disk.newAttempt(), nil)
			}
			return next(ctx, k, entries)
		})},
	{name: "an empty batch moves the time", want: []string{"Append/EmptyBatchBehind"}, make: around(
		func(s *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			if len(entries) == 0 {
				s.touch(k)
			}
			return next(ctx, k, entries)
		})},
	{name: "refuses a type of null", want: []string{"Append/MissingType"},
		make: refuse(func(key) bool { return false }, func(e entry) bool { return bytes.Contains(e, []byte(`"type":null`)) })},
	{name: "sorts the slice of the caller", want: []string{"Append/LeavesArguments"}, make: around(
		func(_ *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			err := next(ctx, k, entries)
			if len(entries) > 3 && slices.ContainsFunc(entries, func(e entry) bool { return bytes.IndexByte(e, '\n') >= 0 }) {
				slices.SortFunc(entries, func(a, b entry) int { return bytes.Compare(a, b) })
			}
			return err
		})},
	{name: "keeps the slice of the caller", want: []string{
		"Append/ReusedSlice", "Append/ReusedBytes", "LostReply/EqualBytes",
	}, make: func(s *testStore) {
		s.ops.load = func(ctx context.Context, k key) ([]entry, error) {
			got, err := s.doLoad(ctx, k)
			s.peek(k, func(t *transcript) {
				for i := range min(len(got), len(t.lines)) {
					got[i] = slices.Clone(t.lines[i].given.Line())
				}
			})
			return got, err
		}
	}},
	{name: "keeps the bytes of the caller", want: []string{"Append/ReusedBytes", "LostReply/EqualBytes"},
		make: func(s *testStore) { s.keep = entry.Line }},
}

// touch sets the time of a session.
func (s *testStore) touch(k key) {
	s.peek(k.Main(), func(t *transcript) { t.mtime = s.now() })
}

var inputMistakes = []mistake{
	{name: "takes what follows an object", want: []string{"InvalidEntry/NotJSON"},
		make: acceptEntry(func(e entry) bool { return string(e) == `{"a":1}x` })},
	{name: "takes an array", want: []string{"InvalidEntry/NotObject"}, make: acceptEntry(func(e entry) bool { return string(e) == `[]` })},
	{name: "takes invalid UTF-8", want: []string{"InvalidEntry/NotUTF8"}, make: acceptEntry(func(e entry) bool { return !utf8.Valid(e) })},
	{name: "takes any depth", want: []string{"InvalidEntry/TooDeep"},
		make: acceptEntry(func(e entry) bool { return bytes.Count(e, []byte("[")) == deepestLevel })},
	{name: "takes one level too few", want: []string{"InvalidEntry/DeepestIsValid"},
		make: refuse(func(key) bool { return false }, func(e entry) bool { return bytes.Count(e, []byte("[")) == deepestLevel-1 })},
	{name: "writes up to the invalid entry", want: []string{"InvalidEntry/WritesNothing", "InvalidEntry/LeavesTranscript"}, make: around(
		func(s *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			err := next(ctx, k, entries)
			for n := range entries {
				if err != nil && errors.Is(err, sessionstore.ErrInvalidEntry) && entries[n].Validate() != nil {
					_ = next(ctx, k, entries[:n])
					break
				}
			}
			return err
		})},
	{name: "remembers the ids of a failed batch", want: []string{"InvalidEntry/LeavesTranscript"}, make: func(s *testStore) {
		next := s.ops.append
		var failed sync.Map
		s.ops.append = func(ctx context.Context, k key, entries []entry) error {
			err := next(ctx, k, slices.DeleteFunc(slices.Clone(entries), func(e entry) bool { _, ok := failed.Load(e.UUID()); return ok }))
			for _, e := range entries {
				if errors.Is(err, sessionstore.ErrInvalidEntry) && e.UUID() != "" {
					failed.Store(e.UUID(), true)
				}
			}
			return err
		}
	}},
	{name: "takes an empty session id", want: []string{"InvalidKey/Empty", "InvalidKey/WritesNothing"},
		make: acceptKey(func(k key) bool { return k.SessionID == "" && k.ProjectKey != "" })},
	{name: "takes an empty batch for any key", want: []string{"InvalidKey/EmptyBatch"}, make: around(
		func(_ *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			if len(entries) == 0 {
				return nil
			}
			return next(ctx, k, entries)
		})},
	{name: "takes NUL in keys", want: []string{"InvalidKey/NUL", "InvalidKey/WritesNothing"},
		make: acceptKey(anyPart(func(s string) bool { return strings.Contains(s, "\x00") }))},
	{name: "takes keys that are not UTF-8", want: []string{
		"InvalidKey/NotUTF8",
	}, make: acceptKey(anyPart(func(s string) bool { return !utf8.ValidString(s) }))},
	{name: "takes dot segments", want: []string{"InvalidKey/DotSegments", "InvalidKey/WritesNothing"},
		make: acceptKey(func(k key) bool {
			s := strings.Split(k.Subpath, "/")
			return slices.Contains(s, ".") || slices.Contains(s, "..")
		})},
	{name: "takes empty segments", want: []string{"InvalidKey/EmptySegments", "InvalidKey/WritesNothing"},
		make: acceptKey(func(k key) bool {
			return k.Subpath != "" && slices.Contains(strings.Split(k.Subpath, "/"), "") && k.SessionID != ""
		})},
	{name: "writes to the cleaned key", want: []string{"InvalidKey/WritesNothing"}, make: around(
		func(_ *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			if cleaned := sub(k, strings.Trim(path.Clean(k.Subpath), "/")); k.Subpath != "" && k.Validate() != nil {
				_ = next(ctx, cleaned, entries)
			}
			return next(ctx, k, entries)
		})},
	{name: "takes keys of any length", want: []string{"KeyLimit/SegmentTooLong", "KeyLimit/EscapesCount", "KeyLimit/KeyTooLong"},
		make: acceptKey(func(k key) bool { err := k.Validate(); return err != nil && strings.Contains(err.Error(), "limit") })},
	{name: "takes a segment of one more", want: []string{"KeyLimit/SegmentTooLong"},
		make: acceptKey(anyPart(func(s string) bool { return s == long(sessionstore.MaxSegmentLen+1) }))},
	{name: "takes a key of one more", want: []string{"KeyLimit/KeyTooLong"},
		make: acceptKey(func(k key) bool { return k == keyOfLength(sessionstore.MaxKeyLen+1) })},
	{name: "counts plain bytes", want: []string{"KeyLimit/EscapesCount"},
		make: acceptKey(anyPart(func(s string) bool { return len(s) == sessionstore.MaxSegmentLen/3+1 && strings.Trim(s, " ") == "" }))},
	{name: "does not name the limit", want: []string{"KeyLimit/SegmentTooLong", "KeyLimit/EscapesCount", "KeyLimit/KeyTooLong"}, make: around(
		func(_ *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			if k.Validate() != nil {
				return sessionstore.ErrInvalidKey
			}
			return next(ctx, k, entries)
		})},
	{name: "refuses the longest segment", want: []string{"KeyLimit/LongestSegment"},
		make: refuse(anyPart(func(s string) bool { return len(s) == sessionstore.MaxSegmentLen }), no)},
	{name: "refuses the longest key", want: []string{"KeyLimit/LongestKey"},
		make: refuse(func(k key) bool { return k == keyOfLength(sessionstore.MaxKeyLen) }, no)},
	{name: "loads invalid keys", want: []string{"InvalidKey/Load"}, make: func(s *testStore) {
		load := s.ops.load
		s.ops.load = func(ctx context.Context, k key) ([]entry, error) {
			if k.Validate() != nil {
				return nil, nil
			}
			return load(ctx, k)
		}
	}},
	{name: "streams invalid keys", want: []string{"InvalidKey/Stream"}, make: func(s *testStore) {
		stream := s.ops.stream
		s.ops.stream = func(ctx context.Context, k key) seq {
			if k.Validate() != nil {
				return func(func(entry, error) bool) {}
			}
			return stream(ctx, k)
		}
	}},
	{name: "deletes invalid keys", want: []string{"InvalidKey/Delete"}, make: func(s *testStore) {
		next := s.ops.delete
		s.ops.delete = func(ctx context.Context, k key) error {
			if k.Validate() != nil {
				return nil
			}
			return next(ctx, k)
		}
	}},
	{name: "lists subkeys of invalid keys", want: []string{"InvalidKey/ListSubkeys"}, make: func(s *testStore) {
		next := s.ops.subkeys
		s.ops.subkeys = func(ctx context.Context, p, id string) ([]string, error) {
			if in(p, id, "").Validate() != nil {
				return nil, nil
			}
			return next(ctx, p, id)
		}
	}},
	{name: "lists sessions of invalid projects", want: []string{"InvalidKey/ListSessions"}, make: func(s *testStore) {
		next := s.ops.sessions
		s.ops.sessions = func(ctx context.Context, p string) ([]sessionstore.SessionInfo, error) {
			if sessionstore.ValidateProjectKey(p) != nil {
				return nil, nil
			}
			return next(ctx, p)
		}
	}},
	{name: "lists summaries of invalid projects", want: []string{"InvalidKey/ListSessionSummaries"}, make: func(s *testStore) {
		next := s.ops.summaries
		s.ops.summaries = func(ctx context.Context, p string) ([]sessionstore.SessionSummary, error) {
			if sessionstore.ValidateProjectKey(p) != nil {
				return nil, nil
			}
			return next(ctx, p)
		}
	}},
}
