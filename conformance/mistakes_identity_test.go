package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/sessionstore/sessionstore"
)

func identify(f func(e entry) string) func(*testStore) {
	return func(s *testStore) { s.id = func(_ key, e entry) string { return f(e) } }
}

// field reads the raw text of a top-level field, the first one of the name.
func field(e entry, name string) string {
	d := json.NewDecoder(strings.NewReader(string(e)))
	d.UseNumber()
	_, _ = d.Token()
	for d.More() {
		k, err := d.Token()
		var v json.RawMessage
		if err != nil || d.Decode(&v) != nil {
			return ""
		}
		if k == name {
			return string(v)
		}
	}
	return ""
}

func eachIDOf(fields ...string) func(e entry) string {
	return func(e entry) string {
		if id := e.UUID(); id != "" {
			return id
		}
		for _, f := range fields {
			if v := field(e, f); v != "" {
				return f + v
			}
		}
		return ""
	}
}

// allIdentity are the cases in which a uuid comes again.
var allIdentity = []string{
	"Identity/LaterBatch", "Identity/OneBatch", "Identity/FirstStays", "Identity/FirstStaysInBatch", "Identity/RestOfBatchStays",
	"Identity/OnlyRepeats", "Identity/Subpath", "Identity/AnyType", "Identity/EscapedKey", "Identity/EscapedValue", "Identity/LastKeyCounts",
	"Identity/NULInside", "Identity/Long", "Writers/SameEntry", "Handover/Repeats", "Handover/RepeatsAfterLoad", "Size/HugeBatchOfRepeats",
	"Stream/SameAsLoad?",
}

var identityMistakes = []mistake{
	{name: "keeps all repeats", want: allIdentity, make: identify(func(entry) string { return "" })},
	{name: "knows repeats inside a batch only", want: []string{
		"Identity/LaterBatch", "Identity/FirstStays", "Identity/RestOfBatchStays", "Identity/OnlyRepeats", "Identity/Subpath", "Identity/AnyType",
		"Identity/EscapedKey", "Identity/EscapedValue", "Identity/LastKeyCounts", "Identity/NULInside", "Identity/Long", "Writers/SameEntry",
		"Handover/Repeats", "Handover/RepeatsAfterLoad", "Size/HugeBatchOfRepeats"},
		make: around(func(s *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			s.disk.mu.Lock()
			delete(s.disk.ids, s.scope(k))
			s.disk.mu.Unlock()
			return next(ctx, k, entries)
		})},
	{name: "knows repeats of earlier batches only", want: []string{
		"Identity/OneBatch", "Identity/FirstStaysInBatch", "Identity/Subpath", "Size/HugeBatchOfRepeats"}, make: apart},
	{name: "the last one stays", want: []string{"Identity/FirstStays", "Identity/FirstStaysInBatch", "Identity/EscapedKey", "Identity/EscapedValue",
		"Identity/LastKeyCounts", "Summaries/Repeats", "Handover/Repeats", "Handover/RepeatsAfterLoad"}, make: lastStays},
	{name: "drops a batch with a repeat", want: []string{
		"Identity/RestOfBatchStays", "Identity/FirstStays", "Identity/Subpath", "LostReply/ThirdAttempt",
		"Handover/Repeats", "Handover/RepeatsAfterLoad", "Size/HugeBatchOfRepeats",
	}, make: around(
		func(s *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			s.disk.mu.Lock()
			known := slices.ContainsFunc(entries, func(e entry) bool { return s.disk.ids[s.scope(k)][e.UUID()] })
			s.disk.mu.Unlock()
			if known {
				return nil
			}
			return next(ctx, k, entries)
		})},
	{name: "fails on repeats only", want: []string{"Identity/OnlyRepeats", "Writers/SameEntry", "Summaries/Repeats"}, make: around(
		func(s *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			s.disk.mu.Lock()
			known := len(entries) > 1 && !slices.ContainsFunc(entries, func(e entry) bool { return !s.disk.ids[s.scope(k)][e.UUID()] })
			s.disk.mu.Unlock()
			if known {
				return fmt.Errorf("nothing to insert")
			}
			return next(ctx, k, entries)
		})},
	{name: "keeps repeats in subpaths", want: []string{"Identity/Subpath"}, make: func(s *testStore) {
		s.id = func(k key, e entry) string {
			if k.Subpath != "" {
				return ""
			}
			return e.UUID()
		}
	}},
	{name: "keeps repeats without type", want: []string{
		"Identity/AnyType", "Identity/EscapedKey", "Identity/EscapedValue", "Identity/LastKeyCounts",
		"Identity/NULInside",
	}, make: identify(func(e entry) string {
		if e.Type() == "" {
			return ""
		}
		return e.UUID()
	})},
	{name: "drops equal entries", want: []string{
		"Identity/EqualWithoutUUID", "Identity/EqualWithoutUUIDInBatch", "Identity/Empty", "Identity/NotString",
		"Identity/Nested", "Identity/OtherFields", "LostReply/Mixed", "LostReply/EqualInBatch",
		"LostReply/NewBatchAfterwards", "LostReply/DeclaredNew", "Handover/EqualWithoutUUID", "Size/HugeBatch", "Size/ManyBatches",
		"Metadata/Main", "ListSessions/AppendMovesTime",
	}, make: identify(func(e entry) string {
		if id := e.UUID(); id != "" {
			return id
		}
		return string(e)
	})},
	{name: "drops equal entries in a batch", want: []string{
		"Identity/EqualWithoutUUIDInBatch", "Identity/Empty", "Identity/NotString", "Identity/Nested",
		"Identity/OtherFields", "LostReply/Mixed", "LostReply/EqualInBatch", "Size/HugeBatch", "Metadata/Main",
	}, make: around(
		func(_ *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			var kept []entry
			for _, e := range entries {
				if e.UUID() != "" || !slices.ContainsFunc(kept, func(o entry) bool { return string(o) == string(e) }) {
					kept = append(kept, e)
				}
			}
			return next(ctx, k, kept)
		})},
	{name: "folds the case of the uuid key", want: []string{"Identity/KeyCase"}, make: identify(func(e entry) string {
		var v struct{ UUID any }
		if json.Unmarshal(e, &v) == nil {
			if id, ok := v.UUID.(string); ok && e.UUID() == "" {
				return id
			}
		}
		return e.UUID()
	})},
	{name: "folds the case of uuids", want: []string{"Identity/ValueCase"}, make: identify(func(e entry) string { return asciiLower(e.UUID()) })},
	{name: "misses escaped keys", want: []string{"Identity/EscapedKey"}, make: identify(func(e entry) string {
		if !strings.Contains(string(e), `"uuid"`) {
			return ""
		}
		return e.UUID()
	})},
	{name: "compares ids as written", want: []string{"Identity/EscapedValue"}, make: identify(func(e entry) string {
		if e.UUID() == "" {
			return ""
		}
		_, raw, _ := strings.Cut(string(e), `uid":"`)
		raw, _, _ = strings.Cut(raw, `"`)
		if strings.Contains(raw, `\u0061`) {
			return raw
		}
		return e.UUID()
	})},
	{name: "takes the first of repeated uuid keys", want: []string{"Identity/LastKeyCounts"}, make: identify(func(e entry) string {
		var id string
		if json.Unmarshal([]byte(field(e, "uuid")), &id) == nil && strings.Count(string(e), `"uuid":`) == 2 && !strings.HasPrefix(string(e), `{"message"`) {
			return id
		}
		return e.UUID()
	})},
	{name: "takes all lone surrogates for one", want: []string{"Identity/LoneSurrogates"},
		make: identify(func(e entry) string { return strings.ToValidUTF8(e.UUID(), "\ufffd") })},
	{name: "cuts ids at NUL", want: []string{"Identity/NULInside"},
		make: identify(func(e entry) string { id, _, _ := strings.Cut(e.UUID(), "\x00"); return id })},
	{name: "takes the empty id for one", want: []string{"Identity/Empty"}, make: identify(func(e entry) string {
		if strings.Contains(string(e), `"uuid":""`) {
			return "empty"
		}
		return e.UUID()
	})},
	{name: "takes any value for an id", want: []string{"Identity/NotString", "Identity/LastKeyCounts?"}, make: identify(func(e entry) string {
		if v := field(e, "uuid"); v != "" && v != `""` && e.UUID() == "" {
			return v
		}
		return e.UUID()
	})},
	{name: "takes a nested uuid", want: []string{"Identity/Nested"}, make: identify(func(e entry) string {
		if _, rest, ok := strings.Cut(string(e), `{"uuid":"`); ok && e.UUID() == "" && strings.Contains(string(e), `:{"uuid`) {
			id, _, _ := strings.Cut(rest, `"`)
			return id
		}
		return e.UUID()
	})},
	{name: "takes requestId for an id", want: []string{"Identity/OtherFields"}, make: identify(eachIDOf("requestId"))},
	{name: "takes messageId for an id", want: []string{"Identity/OtherFields"}, make: identify(eachIDOf("messageId"))},
	{name: "takes the message for an id", want: []string{
		"Identity/OtherFields", "Identity/Nested", "Identity/Empty",
	}, make: identify(eachIDOf("message"))},
	{name: "cuts long ids", want: []string{"Identity/Long"}, make: identify(func(e entry) string { id := e.UUID(); return id[:min(len(id), 255)] })},
	{name: "ids are unique in a branch of subpaths", want: []string{"IdentityScope/Subpaths"}, make: func(s *testStore) {
		s.scope = func(k key) string {
			first, _, _ := strings.Cut(k.Subpath, "/")
			return fmt.Sprintf("%q", sub(k, first))
		}
	}},
	{name: "ids are unique in a project", want: []string{"IdentityScope/Sessions"}, make: func(s *testStore) {
		s.scope = func(k key) string { return fmt.Sprintf("%q %q", k.ProjectKey, k.Subpath) }
	}},
	{name: "ids are unique in the store", want: []string{"IdentityScope/Projects"}, make: func(s *testStore) {
		s.scope = func(k key) string { return fmt.Sprintf("%q %q", k.SessionID, k.Subpath) }
	}},
}

// apart stores repeats inside a batch.
func apart(s *testStore) {
	var mu sync.Mutex
	next := s.ops.append
	s.ops.append = func(ctx context.Context, k key, entries []entry) error {
		mu.Lock()
		defer mu.Unlock()
		before := map[string]bool{}
		s.disk.mu.Lock()
		for id := range s.disk.ids[s.scope(k)] {
			before[id] = true
		}
		s.disk.mu.Unlock()
		s.id = func(_ key, e entry) string {
			if before[e.UUID()] {
				return e.UUID()
			}
			return ""
		}
		err := next(ctx, k, entries)
		s.disk.mu.Lock()
		defer s.disk.mu.Unlock()
		for _, e := range entries {
			if err == nil && e.UUID() != "" {
				s.disk.ids[s.scope(k)][e.UUID()] = true
			}
		}
		return err
	}
}

// lastStays overwrites the first entry of an id.
func lastStays(s *testStore) {
	next := s.ops.append
	s.ops.append = func(ctx context.Context, k key, entries []entry) error {
		err := next(ctx, k, entries)
		s.peek(k, func(t *transcript) {
			for i := range len(t.lines) * len(entries) {
				l, e := &t.lines[i%len(t.lines)], entries[i/len(t.lines)]
				if err == nil && e.UUID() != "" && l.e.UUID() == e.UUID() {
					l.e = slices.Clone(e.Line())
				}
			}
		})
		return err
	}
}

func (t *transcript) linesOr() []storedLine {
	if t == nil {
		return nil
	}
	return t.lines
}

// landed finds the pending batch of a key.
func (s *testStore) landed(k key, entries []entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.pending[k]
	return ok && p.digest == digest(entries)
}

func (s *testStore) forget(k key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pending, k)
}

var retryMistakes = []mistake{
	{name: "has no identity for batches", want: []string{
		"LostReply/WithoutUUID", "LostReply/Mixed", "LostReply/Landed", "LostReply/EqualBytes", "LostReply/EqualInBatch", "LostReply/Subpath",
		"LostReply/ThirdAttempt", "LostReply/CancelledBetween", "LostReply/NewBatchAfterwards", "LostReply/OtherKeyBetween", "LostReply/InPlace",
		"LostReply/OneSession?"},
		make: around(func(s *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			s.forget(k)
			return next(ctx, k, entries)
		})},
	{name: "knows the retry by its memory", want: []string{"LostReply/EqualBytes", "LostReply/*?"}, make: func(s *testStore) {
		s.digest = func(entries []entry) [32]byte { return digest([]entry{entry(fmt.Sprintf("%p", entries))}) }
	}},
	{name: "drops equal entries of a retry", want: []string{"LostReply/EqualInBatch", "LostReply/DeclaredNew"}, make: around(
		func(s *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			again := s.landed(k, entries)
			err := next(ctx, k, entries)
			s.peek(k, func(t *transcript) {
				if again {
					t.lines = slices.CompactFunc(t.lines, func(a, b storedLine) bool { return string(a.e) == string(b.e) })
					t.count = len(t.lines)
				}
			})
			return err
		})},
	{name: "forgets attempts on subpaths", want: []string{"LostReply/Subpath"}, make: around(
		func(s *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			if k.Subpath != "" {
				s.forget(k)
			}
			return next(ctx, k, entries)
		})},
	{name: "forgets after the second attempt", want: []string{"LostReply/ThirdAttempt"}, make: around(
		func(s *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			again := s.landed(k, entries)
			err := next(ctx, k, entries)
			if again && ctx.Err() == nil {
				s.forget(k)
			}
			return err
		})},
	{name: "forgets when nothing was sent", want: []string{"LostReply/CancelledBetween"}, make: around(
		func(s *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			err := next(ctx, k, entries)
			if ctx.Err() != nil {
				s.forget(k)
			}
			return err
		})},
	{name: "never forgets an attempt", want: []string{"LostReply/NewBatchAfterwards"}, make: around(
		func(s *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			s.mu.Lock()
			p, ok := s.pending[k]
			s.mu.Unlock()
			err := next(ctx, k, entries)
			if ok {
				s.mu.Lock()
				s.pending[k] = p
				s.mu.Unlock()
			}
			return err
		})},
	{name: "takes a new batch for a retry", want: []string{"LostReply/DeclaredNew"}, make: around(
		func(s *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			if sessionstore.IsNewBatch(ctx) {
				ctx = context.Background() // says nothing of it
			}
			return next(ctx, k, entries)
		})},
	{name: "forgets all keys at once", want: []string{"LostReply/OtherKeyBetween"}, make: around(
		func(s *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			err := next(ctx, k, entries)
			if err == nil {
				s.mu.Lock()
				clear(s.pending)
				s.mu.Unlock()
			}
			return err
		})},
	{name: "takes a batch of another key for the retry", want: []string{"LostReply/OtherKeySameBatch"}, make: around(
		func(s *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			s.mu.Lock()
			for other, p := range s.pending {
				if other != k && p.digest == digest(entries) {
					s.mu.Unlock()
					return nil
				}
			}
			s.mu.Unlock()
			return next(ctx, k, entries)
		})},
	{name: "moves a retried batch to the end", want: []string{"LostReply/InPlace"}, make: around(
		func(s *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			if s.landed(k, entries) {
				s.peek(k, func(t *transcript) {
					slices.SortStableFunc(t.lines, func(a, b storedLine) int { return rank(b, entries) - rank(a, entries) })
				})
			}
			return next(ctx, k, entries)
		})},
	{name: "lists a session once per attempt", want: []string{"LostReply/OneSession"}, make: func(s *testStore) {
		around(func(s *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			if s.landed(k, entries) {
				s.disk.mark(k, true)
			}
			return next(ctx, k, entries)
		})(s)
		afterSessions(func(p string, got []sessionstore.SessionInfo) []sessionstore.SessionInfo {
			for _, info := range got {
				if s.disk.isMarked(in(p, info.SessionID, "")) {
					got = append(got, info)
				}
			}
			return got
		})(s)
	}},
	{name: "believes what has landed to be there", want: []string{"LostReply/DeletedBetween", "LostReply/DeclaredNew"}, make: around(
		func(s *testStore, next appendFunc, ctx context.Context, k key, entries []entry) error {
			if s.landed(k, entries) && !s.lose.Load() && ctx.Err() == nil {
				s.forget(k)
				return nil
			}
			return next(ctx, k, entries)
		})},
}

// rank is 0 for a line of the batch and 1 for others.
func rank(l storedLine, batch []entry) int {
	if slices.ContainsFunc(batch, func(e entry) bool { return string(e) == string(l.e) }) {
		return 0
	}
	return 1
}

func asciiLower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] += 'a' - 'A'
		}
	}
	return string(b)
}
