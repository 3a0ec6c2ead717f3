package memorytest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sessionstore/sessionstore/memory"
	"github.com/sessionstore/sessionstore/memory/memmap"
)

// broken is a store that does everything right but what a mistake changes.
type broken struct {
	memory.Store
	list    func(ctx context.Context, path string) ([]memory.FileInfo, error)
	read    func(ctx context.Context, path string, max int64) (memory.File, error)
	write   func(ctx context.Context, path string, data []byte, ifVersion string, limits memory.Limits) error
	delete  func(ctx context.Context, path string) error
	rename  func(ctx context.Context, from, to string) error
	expire  func(ctx context.Context, before time.Time) ([]string, error)
	down    bool
	downErr error // of Read, while down
}

var errDown = errors.New("the backend is away")

func (b *broken) List(ctx context.Context, path string) ([]memory.FileInfo, error) {
	if b.down {
		return nil, errDown
	}
	return b.list(ctx, path)
}

func (b *broken) Read(ctx context.Context, path string, max int64) (memory.File, error) {
	if b.down {
		return memory.File{}, cmp.Or(b.downErr, errDown)
	}
	return b.read(ctx, path, max)
}

func (b *broken) Write(ctx context.Context, path string, data []byte, ifVersion string, limits memory.Limits) error {
	if b.down {
		return errDown
	}
	return b.write(ctx, path, data, ifVersion, limits)
}

func (b *broken) Delete(ctx context.Context, path string) error {
	if b.down {
		return errDown
	}
	return b.delete(ctx, path)
}

func (b *broken) Rename(ctx context.Context, from, to string) error {
	if b.down {
		return errDown
	}
	return b.rename(ctx, from, to)
}

func (b *broken) Expire(ctx context.Context, before time.Time) ([]string, error) {
	return b.expire(ctx, before)
}

// backend is what the handles of one test share.
type backend struct {
	mistake func(b *broken)
	scopes  map[string]*memmap.Store
	onOpen  func(scope string) (string, error) // another scope instead
}

func (k *backend) open(scope string) (memory.Store, error) {
	scope, err := k.onOpen(scope)
	if err != nil {
		return nil, err
	}
	if k.scopes[scope] == nil {
		if k.scopes[scope], err = memmap.New(scope); err != nil {
			return nil, err
		}
	}
	return k.handle(k.scopes[scope]), nil
}

func (k *backend) handle(s *memmap.Store) *broken {
	b := &broken{Store: s, list: s.List, read: s.Read, write: s.Write, delete: s.Delete, rename: s.Rename, expire: s.Expire}
	if k.mistake != nil {
		k.mistake(b)
	}
	return b
}

func (k *backend) harness() Harness {
	return Harness{
		Open:   func(_ testing.TB, scope string) (memory.Store, error) { return k.open(scope) },
		Reopen: func(_ testing.TB, s memory.Store) memory.Store { return k.handle(s.(*broken).Store.(*memmap.Store)) },
		Later: func(_ testing.TB, s memory.Store, d time.Duration) memory.Store {
			time.Sleep(d) // in a bubble
			return s
		},
		Outage:  func(_ testing.TB, s memory.Store) { s.(*broken).down = true },
		Require: All,
		Short:   true,
	}
}

// recorder takes the place of a test.
type recorder struct {
	testing.TB
	mu     sync.Mutex
	log    bytes.Buffer
	failed bool
}

func (r *recorder) Helper()      {}
func (r *recorder) Failed() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.failed }
func (r *recorder) FailNow()     { r.fail(""); runtime.Goexit() }
func (r *recorder) fail(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
	r.log.WriteString(text + "\n")
}
func (r *recorder) Logf(string, ...any)            {}
func (r *recorder) Errorf(format string, a ...any) { r.fail(fmt.Sprintf(format, a...)) }
func (r *recorder) Fatalf(format string, a ...any) {
	r.fail(fmt.Sprintf(format, a...))
	runtime.Goexit()
}
func (r *recorder) Skip(a ...any) { r.fail(fmt.Sprint(a...)); runtime.Goexit() }

// record runs one case on a backend and returns what became of it.
func record(t *testing.T, k *backend, tc testCase) *recorder {
	r := &recorder{TB: t}
	synctest.Test(t, func(t *testing.T) {
		r.TB = t
		done := make(chan struct{})
		go func() {
			defer close(done)
			runCase(r, k.harness(), tc)
		}()
		<-done
		synctest.Wait()
	})
	return r
}

func newBackend(m mistake) *backend {
	k := &backend{mistake: m.make, scopes: map[string]*memmap.Store{}, onOpen: func(s string) (string, error) { return s, nil }}
	if m.open != nil {
		k.onOpen = m.open
	}
	return k
}

func TestAStoreWithoutMistakePasses(t *testing.T) {
	for _, tc := range cases() {
		if r := record(t, newBackend(mistake{}), tc); r.Failed() {
			t.Errorf("%s fails: %s", tc.name, r.log.String())
		}
	}
}

// TestMistakes shows that each case finds what it is for, and that no other
// fails than those that stand on it.
func TestMistakes(t *testing.T) {
	for _, m := range mistakes {
		t.Run(strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
			for _, tc := range cases() {
				r := record(t, newBackend(m), tc)
				must, may := m.wants(tc.name)
				if must && !r.Failed() {
					t.Errorf("%s does not fail", tc.name)
				}
				if !must && !may && r.Failed() {
					t.Errorf("%s fails too: %s", tc.name, r.log.String())
				}
			}
		})
	}
}

func TestEachCaseFindsAMistake(t *testing.T) {
	for _, tc := range cases() {
		if !slices.ContainsFunc(mistakes, func(m mistake) bool { must, _ := m.wants(tc.name); return must }) {
			t.Errorf("%s finds no mistake", tc.name)
		}
	}
}

func TestWhatIsRequiredAndMissingFails(t *testing.T) {
	k := newBackend(mistake{})
	h := k.harness()
	h.Later, h.Require = nil, Later
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runCase(r, h, expireCases[1])
	}()
	<-done
	if !r.Failed() || !strings.Contains(r.log.String(), "required, but missing: Later") {
		t.Fatalf("log: %s", r.log.String())
	}
}

// mistake is one way to get a store wrong, and the cases that find it. A
// pattern with a question mark may find it.
type mistake struct {
	name string
	want []string
	make func(b *broken)
	open func(scope string) (string, error)
}

func (m mistake) wants(name string) (must, may bool) {
	for _, w := range m.want {
		pattern, optional := strings.CutSuffix(w, "?")
		if ok, _ := path.Match(pattern, name); ok {
			return !optional, optional
		}
	}
	return false, false
}
