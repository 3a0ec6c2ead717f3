package memorytest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sessionstore/sessionstore/memory"
)

// Harness tells the suite how to make stores and how to disturb them. Only Open
// is required. A case that needs a missing function is skipped, or fails if the
// capability is in Require.
type Harness struct {
	// Open returns a store of the scope, or the error of its constructor. All
	// stores that one tb opens share a backend, so that one scope gives the
	// same files; another tb gets an empty backend.
	Open func(tb testing.TB, scope string) (memory.Store, error)

	// Reopen returns another handle on the files of s, as another host would
	// open it: the two share no memory, only the backend.
	Reopen func(tb testing.TB, s memory.Store) memory.Store

	// Later is Reopen on a host whose clock is ahead by d. It stands for time
	// that passes.
	Later func(tb testing.TB, s memory.Store, d time.Duration) memory.Store

	// Outage cuts s off from its backend until the end of the case.
	Outage func(tb testing.TB, s memory.Store)

	// Require lists what must not be absent: a case that needs it then fails
	// instead of being skipped.
	Require Capability

	// OwnMemory says that each store has files of its own, whatever its scope:
	// it is not kept outside of the process.
	OwnMemory bool

	// FoldsNames says that the store may refuse a name that differs from one it
	// holds only in letter case or Unicode normal form.
	FoldsNames bool

	// Short scales the heavy cases down. It is implied by go test -short.
	Short bool
}

// Capability is a set of optional things that a store or a harness can do.
type Capability uint

// The capabilities. Expire is a store's, found by asserting [memory.Expirer].
const (
	Expire Capability = 1 << iota
	Reopen
	Later
	Outage

	All = Expire | Reopen | Later | Outage
)

func (c Capability) String() string {
	var names []string
	for i, name := range []string{"Expire", "Reopen", "Later", "Outage"} {
		if c&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// testCase is one promise of the contract.
type testCase struct {
	name     string     // Group/Case
	contract string     // the sentence that is broken when the case fails
	needs    Capability // the case is skipped without
	run      func(e *env)
}

// Run runs every case as a subtest Group/Case, each on a store of its own.
func Run(t *testing.T, h Harness) {
	t.Helper()
	if h.Open == nil {
		t.Fatal("memorytest: Harness.Open is nil")
	}
	h.Short = h.Short || testing.Short()
	for _, tc := range cases() {
		t.Run(tc.name, func(t *testing.T) { runCase(t, h, tc) })
	}
}

func runCase(tb testing.TB, h Harness, tc testCase) {
	tb.Helper()
	defer func() {
		if tb.Failed() {
			tb.Logf("The contract, memory.Store, says: %s", tc.contract)
		}
	}()
	s, err := h.Open(tb, "scope")
	if err != nil || s == nil {
		tb.Fatalf("Open(%q) = %v, %v, want a store", "scope", s, err)
	}
	e := &env{TB: tb, h: h, s: s, ctx: tb.Context()}
	missing := tc.needs &^ e.capabilities()
	switch {
	case missing == 0:
		tc.run(e)
	case missing&h.Require != 0:
		tb.Fatalf("required, but missing: %s", missing&h.Require)
	default:
		tb.Skipf("missing: %s", missing)
	}
}

// env is what a case works with. Its methods end the case when the store does
// not do what it must.
type env struct {
	testing.TB
	h   Harness
	s   memory.Store
	ctx context.Context
}

func (e *env) capabilities() Capability {
	var c Capability
	if _, ok := e.s.(memory.Expirer); ok {
		c |= Expire
	}
	if e.h.Reopen != nil {
		c |= Reopen
	}
	if e.h.Later != nil {
		c |= Later
	}
	if e.h.Outage != nil {
		c |= Outage
	}
	return c
}

func (e *env) create(path, text string) {
	e.Helper()
	if err := e.s.Write(e.ctx, path, []byte(text), "", memory.Limits{}); err != nil {
		e.Fatalf("Write(%q) of a new file = %v, want nil", path, err)
	}
}

func (e *env) read(path string) memory.File {
	e.Helper()
	f, err := e.s.Read(e.ctx, path, 0)
	if err != nil {
		e.Fatalf("Read(%q) = %v, want the file", path, err)
	}
	if f.Version == "" {
		e.Fatalf("Read(%q) gives an empty version", path)
	}
	return f
}

// want checks what stands in a file.
func (e *env) want(path, text string) {
	e.Helper()
	if f := e.read(path); string(f.Data) != text {
		e.Fatalf("Read(%q) = %s, want %s", path, show(string(f.Data)), show(text))
	}
}

func (e *env) wantMissing(path string) {
	e.Helper()
	f, err := e.s.Read(e.ctx, path, 0)
	e.wantError("Read("+path+")", err, memory.ErrNotFound)
	if f.Data != nil || f.Version != "" {
		e.Fatalf("Read(%q) fails and returns a file all the same", path)
	}
}

func (e *env) wantError(call string, err, want error) {
	e.Helper()
	if !errors.Is(err, want) {
		e.Fatalf("%s = %v, want an error that wraps %q", call, err, want)
	}
}

func (e *env) list(path string) []memory.FileInfo {
	e.Helper()
	list, err := e.s.List(e.ctx, path)
	if err != nil {
		e.Fatalf("List(%q) = %v, want nil", path, err)
	}
	return list
}

// wantList compares the paths at or below a path.
func (e *env) wantList(path string, want ...string) {
	e.Helper()
	var got []string
	for _, f := range e.list(path) {
		got = append(got, f.Path)
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		e.Fatalf("List(%q) = %q, want %q", path, got, want)
	}
}

func (e *env) delete(path string) {
	e.Helper()
	if err := e.s.Delete(e.ctx, path); err != nil {
		e.Fatalf("Delete(%q) = %v, want nil", path, err)
	}
}

func (e *env) rename(from, to string) {
	e.Helper()
	if err := e.s.Rename(e.ctx, from, to); err != nil {
		e.Fatalf("Rename(%q, %q) = %v, want nil", from, to, err)
	}
}

// open opens another scope.
func (e *env) open(scope string) *env {
	e.Helper()
	s, err := e.h.Open(e.TB, scope)
	if err != nil {
		e.Fatalf("Open(%q) = %v, want a store", scope, err)
	}
	return e.with(s)
}

func (e *env) reopen() *env               { return e.with(e.h.Reopen(e.TB, e.s)) }
func (e *env) later(d time.Duration) *env { return e.with(e.h.Later(e.TB, e.s, d)) }
func (e *env) with(s memory.Store) *env   { return &env{TB: e.TB, h: e.h, s: s, ctx: e.ctx} }
func (e *env) heavy(full, short int) (n int) {
	if e.h.Short {
		return short
	}
	return full
}

// show shortens long texts.
func show(s string) string {
	const shown = 200
	if len(s) > shown {
		s = s[:shown] + "…"
	}
	return strings.ToValidUTF8("\""+s+"\"", "?")
}
