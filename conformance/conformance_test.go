package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/inmemory"
)

// tinySizes make room for running the suite once for each mistake.
var tinySizes = sizes{
	entry: 64 << 10, text: 6 << 10, id: 1 << 10, batch: 400, batches: 60, subpaths: 12, sessions: 30, writers: 12, turns: 3,
	large: crowd{4, 2, 30}, rounds: 30, tick: 1500 * time.Microsecond,
}

// recorder notes how a case ends instead of ending the test.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	failed   bool
	skipped  bool
	log      strings.Builder
	cleanups []func()
}

func (r *recorder) note(failed bool, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = r.failed || failed
	r.log.WriteString(strings.TrimSuffix(text, "\n") + "\n")
}

func (r *recorder) Helper()                     {}
func (r *recorder) Log(args ...any)             { r.note(false, fmt.Sprintln(args...)) }
func (r *recorder) Logf(f string, args ...any)  { r.note(false, fmt.Sprintf(f, args...)) }
func (r *recorder) Fail()                       { r.note(true, "") }
func (r *recorder) Error(args ...any)           { r.note(true, fmt.Sprintln(args...)) }
func (r *recorder) Errorf(f string, a ...any)   { r.note(true, fmt.Sprintf(f, a...)) }
func (r *recorder) FailNow()                    { r.Fail(); runtime.Goexit() }
func (r *recorder) Fatal(args ...any)           { r.Error(args...); runtime.Goexit() }
func (r *recorder) Fatalf(f string, a ...any)   { r.Errorf(f, a...); runtime.Goexit() }
func (r *recorder) Skip(args ...any)            { r.Log(args...); r.SkipNow() }
func (r *recorder) Skipf(f string, args ...any) { r.Logf(f, args...); r.SkipNow() }
func (r *recorder) SkipNow()                    { r.skipped = true; runtime.Goexit() }
func (r *recorder) Skipped() bool               { return r.skipped }
func (r *recorder) Cleanup(f func())            { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// record runs one case to its end.
func record(t *testing.T, h Harness, size sizes, tc testCase) *recorder {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				r.Errorf("panic: %v", p)
			}
			for _, f := range slices.Backward(r.cleanups) {
				f()
			}
		}()
		runCase(r, h, size, tc, &tally{})
	}()
	<-done
	return r
}

func TestConformance(t *testing.T) { Run(t, testHarness(func(*testStore) {})) }

func TestInMemory(t *testing.T) {
	Run(t, Harness{
		Open:        func(testing.TB) sessionstore.SessionStore { return inmemory.New() },
		Require:     All,
		CommitOrder: true,
		Short:       true,
	})
}

// A store may keep line breaks between tokens or take them out.
func TestKeepsLineBreaks(t *testing.T) {
	h := testHarness(func(s *testStore) { s.keep = slices.Clone[entry] })
	for _, tc := range cases() {
		if r := record(t, h, tinySizes, tc); r.Failed() {
			t.Errorf("%s: %s", tc.name, r.log.String())
		}
	}
}

func TestLastMetadataOnly(t *testing.T) {
	h := testHarness(func(s *testStore) {
		load := s.ops.load
		s.ops.load = func(ctx context.Context, k key) ([]entry, error) {
			all, err := load(ctx, k)
			if k.Subpath == "" || err != nil {
				return all, err
			}
			return lastMetadataFirst(all), nil
		}
	})
	h.LastMetadataOnly = true
	for _, tc := range metadataCases {
		if r := record(t, h, tinySizes, tc); r.Failed() || r.Skipped() {
			t.Errorf("%s: %s", tc.name, r.log.String())
		}
	}
}

func lastMetadataFirst(all []entry) []entry {
	var first, rest []entry
	for _, e := range all {
		if e.Type() == "agent_metadata" {
			first = []entry{e}
		} else {
			rest = append(rest, e)
		}
	}
	return append(first, rest...)
}

// A store that refuses what it cannot tell apart passes if the harness says so.
func TestRefusesTwins(t *testing.T) {
	h := testHarness(func(s *testStore) {
		next := s.ops.append
		var mu sync.Mutex
		first := map[string]key{}
		s.ops.append = func(ctx context.Context, k key, entries []entry) error {
			mu.Lock()
			folded := strings.ToLower(fmt.Sprintf("%q", k))
			if _, ok := first[folded]; !ok {
				first[folded] = k
			}
			taken := first[folded] != k
			mu.Unlock()
			if taken {
				return sessionstore.ErrInvalidKey
			}
			return next(ctx, k, entries)
		}
	})
	tc := caseNamed(t, "Keys/LetterCase")
	if r := record(t, h, tinySizes, tc); !r.Failed() {
		t.Error("the case passes although the harness does not say that the store refuses keys")
	}
	h.RefusesTwins = true
	if r := record(t, h, tinySizes, tc); r.Failed() {
		t.Error(r.log.String())
	}
}

func caseNamed(t *testing.T, name string) testCase {
	t.Helper()
	for _, tc := range cases() {
		if tc.name == name {
			return tc
		}
	}
	t.Fatalf("no case %s", name)
	return testCase{}
}

func TestMissingCapability(t *testing.T) {
	for one := range (capabilityEnd - 1).each {
		h := testHarness(func(s *testStore) { s.withhold(one) })
		h.withhold(one)
		h.Require = 0
		for _, tc := range cases() {
			if tc.needs&one == 0 {
				continue
			}
			if r := record(t, h, tinySizes, tc); !r.Skipped() || r.Failed() || !strings.Contains(r.log.String(), one.String()) {
				t.Errorf("without %s the case %s is not skipped: %s", one, tc.name, r.log.String())
			}
			h.Require = one
			if r := record(t, h, tinySizes, tc); !r.Failed() {
				t.Errorf("without %s, which is required, the case %s does not fail", one, tc.name)
			}
			h.Require = 0
		}
	}
}

// A store with none of the optional things passes everything else.
func TestBareStore(t *testing.T) {
	type bare struct{ sessionstore.SessionStore }
	h := Harness{Open: func(testing.TB) sessionstore.SessionStore { return bare{newTestStore(newDisk(), 0)} }}
	ran := 0
	for _, tc := range cases() {
		r := record(t, h, tinySizes, tc)
		if r.Failed() {
			t.Errorf("%s: %s", tc.name, r.log.String())
		}
		if !r.Skipped() {
			ran++
		}
	}
	if ran < 60 {
		t.Errorf("only %d cases need nothing optional", ran)
	}
}

func (h *Harness) withhold(one Capability) {
	switch one {
	case Handover:
		h.Reopen = nil
	case HandoverBehind:
		h.ReopenBehind = nil
	case LostReply:
		h.LoseReply = nil
	case Outage:
		h.Outage = nil
	case Damage:
		h.Damage = nil
	case CommitOrder:
		h.CommitOrder = false
	}
}

// withhold makes an operation unsupported, as a wrapper does that cannot
// forward it.
func (s *testStore) withhold(one Capability) {
	err := fmt.Errorf("test: %w", errors.ErrUnsupported)
	switch one {
	case Lister:
		s.ops.sessions = func(context.Context, string) ([]sessionstore.SessionInfo, error) { return nil, err }
	case Summaries:
		s.ops.summaries = func(context.Context, string) ([]sessionstore.SessionSummary, error) { return nil, err }
	case Projects:
		s.ops.projects = func(context.Context) ([]string, error) { return nil, err }
	case Subkeys:
		s.ops.subkeys = func(context.Context, string, string) ([]string, error) { return nil, err }
	case Orphans:
		s.ops.orphans = func(context.Context, string) ([]string, error) { return nil, err }
	case Delete:
		s.ops.delete = func(context.Context, key) error { return err }
	case Stream:
		s.ops.stream = func(context.Context, key) seq {
			return func(yield func(entry, error) bool) { yield(nil, err) }
		}
	case Purge:
		s.ops.purge = func(context.Context, time.Time) (sessionstore.PurgeReport, error) {
			return sessionstore.PurgeReport{}, err
		}
	}
}

func TestFailureQuotesContract(t *testing.T) {
	h := testHarness(func(s *testStore) { s.id = func(key, entry) string { return "" } })
	r := record(t, h, tinySizes, caseNamed(t, "Identity/LaterBatch"))
	if !r.Failed() || !strings.Contains(r.log.String(), repeatSentence) {
		t.Errorf("the failure reads %q, want the sentence %q in it", r.log.String(), repeatSentence)
	}
}

// Messages name the error and the way to it, and shorten what is long.
func TestFailureIsReadable(t *testing.T) {
	h := testHarness(func(s *testStore) {
		s.ops.load = func(_ context.Context, k key) ([]entry, error) {
			return nil, &sessionstore.OpError{Package: "test", Op: "load", Key: k, Err: errors.New("the cause")}
		}
	})
	log := record(t, h, tinySizes, caseNamed(t, "InvalidKey/Load")).log.String()
	for _, want := range []string{"sessionstore.ErrInvalidKey", "Key.Validate", "the cause", "(241 bytes)"} {
		if !strings.Contains(log, want) {
			t.Errorf("the failure does not mention %q:\n%s", want, log)
		}
	}
	for l := range strings.Lines(log) {
		if len(l) > 800 {
			t.Errorf("a line of %d bytes: %s", len(l), l)
		}
	}
	h = testHarness(acceptEntry(func(entry) bool { return true }))
	log = record(t, h, tinySizes, caseNamed(t, "InvalidEntry/NotJSON")).log.String()
	if want := "sessionstore.ErrInvalidEntry (sessionstore.Check returns it)"; !strings.Contains(log, want) {
		t.Errorf("the failure does not mention %q:\n%s", want, log)
	}
}

// Each case quotes the public document word for word.
func TestContractIsPublished(t *testing.T) {
	text, err := os.ReadFile("../docs/contract.md")
	if err != nil {
		t.Fatal(err)
	}
	fold := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	published := fold(string(text))
	for _, tc := range cases() {
		if !strings.Contains(published, fold(tc.contract)) {
			t.Errorf("%s quotes %q, which is not in docs/contract.md", tc.name, tc.contract)
		}
	}
	for _, limit := range []string{
		fmt.Sprintf("| %d bytes, escaped | `MaxSegmentLen` |", sessionstore.MaxSegmentLen),
		fmt.Sprintf("| %d bytes, escaped | `MaxKeyLen` |", sessionstore.MaxKeyLen),
		fmt.Sprintf("(%d MiB) | `MaxEntryLen` |", sessionstore.MaxEntryLen>>20),
	} {
		if !strings.Contains(published, limit) {
			t.Errorf("docs/contract.md does not have the limit %q", limit)
		}
	}
}

// Run ends with a line that says what was not tested.
func TestRunReports(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.v", "-test.run", "^TestInMemory$/^(Order|LostReply)$")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := fmt.Sprintf("conformance: %d cases run, %d skipped; missing: Harness.Reopen, Harness.LoseReply; heavy cases scaled down",
		len(orderCases), len(lostReplyCases))
	if !strings.Contains(string(out), want) {
		t.Errorf("the output is\n%s\nwant in it: %s", out, want)
	}
}

func TestCaseNames(t *testing.T) {
	seen, groups := map[string]bool{}, []string{}
	for _, tc := range cases() {
		group, name, ok := strings.Cut(tc.name, "/")
		if !ok || group == "" || name == "" || strings.ContainsAny(tc.name, " \t") || strings.Contains(name, "/") {
			t.Errorf("the name %q is not Group/Case", tc.name)
		}
		if seen[tc.name] {
			t.Errorf("two cases are called %s", tc.name)
		}
		seen[tc.name] = true
		if len(tc.contract) < 20 || !strings.HasSuffix(tc.contract, ".") {
			t.Errorf("%s quotes %q, want a sentence", tc.name, tc.contract)
		}
		if tc.run == nil {
			t.Errorf("%s does nothing", tc.name)
		}
		if n := len(groups); n == 0 || groups[n-1] != group {
			groups = append(groups, group)
		}
	}
	if slices.Sort(groups); len(slices.Compact(slices.Clone(groups))) != len(groups) {
		t.Errorf("the cases of a group do not stand together: %q", groups)
	}
	t.Logf("%d cases in %d groups", len(seen), len(groups))
}

func TestFirstDifference(t *testing.T) {
	long := strings.Repeat("x", 500)
	for _, c := range []struct {
		got, want []entry
		text      string
	}{
		{nil, []entry{entry("{}")}, `got nothing, want "{}"`},
		{[]entry{entry("{}")}, nil, `got "{}", want nothing`},
		{[]entry{entry(`[1]`)}, []entry{entry(`[2]`)}, `got "[1]", want "[2]"`},
		{[]entry{entry(long + "1")}, []entry{entry(long + "2")},
			`an entry differs at byte 500: got …"` + long[:40] + `1", want …"` + long[:40] + `2"`},
	} {
		if got := firstDifference(c.got, c.want); got != c.text {
			t.Errorf("got %s, want %s", got, c.text)
		}
	}
}
