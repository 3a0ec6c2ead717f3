package mirror_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/inmemory"
	"github.com/sessionstore/sessionstore/mirror"
)

// TestMain runs the tests, or the host process that a test starts and kills.
func TestMain(m *testing.M) {
	if dir := os.Getenv(hostEnv); dir != "" {
		runHost(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

const (
	projectsDir = "/home/dev/.claude/projects"
	project     = "-home-dev-proj"
	session     = "11111111-2222-4333-8444-555555555555"
	mainPath    = projectsDir + "/" + project + "/" + session + ".jsonl"
	subPath     = projectsDir + "/" + project + "/" + session + "/subagents/agent-1a2b.jsonl"
)

var (
	mainKey = sessionstore.Key{ProjectKey: project, SessionID: session}
	subKey  = sessionstore.Key{ProjectKey: project, SessionID: session, Subpath: "subagents/agent-1a2b"}
)

// user is an entry with a uuid.
func user(id string) sessionstore.Entry {
	return sessionstore.Entry(`{"type":"user","uuid":"` + id + `"}`)
}

// mode is an entry without one.
func mode(text string) sessionstore.Entry {
	return sessionstore.Entry(`{"type":"mode","mode":"` + text + `"}`)
}

func metadata(text string) sessionstore.Entry {
	return sessionstore.Entry(`{"type":"agent_metadata","agentType":"` + text + `"}`)
}

func numbered(from, to int) []sessionstore.Entry {
	var list []sessionstore.Entry
	for i := from; i < to; i++ {
		list = append(list, user(fmt.Sprintf("u%d", i)))
	}
	return list
}

func entries(list ...sessionstore.Entry) []sessionstore.Entry { return list }

func texts(list []sessionstore.Entry) []string {
	out := make([]string, len(list))
	for i, e := range list {
		out[i] = string(e)
	}
	return out
}

func frameLine(path string, list ...sessionstore.Entry) string {
	name, _ := json.Marshal(path)
	return `{"type":"transcript_mirror","filePath":` + string(name) + `,"entries":[` + strings.Join(texts(list), ",") + "]}\n"
}

func open(t testing.TB, store sessionstore.SessionStore, opts *mirror.Options) *mirror.Mirror {
	t.Helper()
	m, err := mirror.New(store, projectsDir, opts)
	require.NoError(t, err)
	return m
}

func load(t testing.TB, store sessionstore.SessionStore, key sessionstore.Key) []string {
	t.Helper()
	list, err := store.Load(context.Background(), key)
	require.NoError(t, err)
	return texts(list)
}

// fakeStore is a store that a test can make slow, failing or hanging. It notes
// every call.
type fakeStore struct {
	*inmemory.Store
	before func(ctx context.Context, key sessionstore.Key, n int) error // n counts calls from 1
	late   bool                                                         // calls land although their context has ended

	mu       sync.Mutex
	calls    []call
	inFlight map[sessionstore.Key]int
	most     int // keys in flight at a time
	overlap  bool
}

type call struct {
	key     sessionstore.Key
	entries []string
	at      time.Time
}

func newFake() *fakeStore {
	return &fakeStore{Store: inmemory.New(), inFlight: make(map[sessionstore.Key]int)}
}

func (s *fakeStore) Append(ctx context.Context, key sessionstore.Key, list []sessionstore.Entry) error {
	s.mu.Lock()
	s.calls = append(s.calls, call{key, texts(list), time.Now()})
	n := len(s.calls)
	s.inFlight[key]++
	s.overlap = s.overlap || s.inFlight[key] > 1
	s.most = max(s.most, len(s.inFlight))
	before := s.before
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.inFlight[key]--; s.inFlight[key] == 0 {
			delete(s.inFlight, key)
		}
	}()
	if before != nil {
		if err := before(ctx, key, n); err != nil {
			return err
		}
	}
	if s.late {
		ctx = context.WithoutCancel(ctx)
	}
	return s.Store.Append(ctx, key, list)
}

func (s *fakeStore) batches(key sessionstore.Key) [][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list [][]string
	for _, c := range s.calls {
		if c.key == key {
			list = append(list, c.entries)
		}
	}
	return list
}

func (s *fakeStore) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

var errDown = errors.New("store is down")

// errorLog collects what a mirror reports.
type errorLog struct {
	mu      sync.Mutex
	errs    []*mirror.Error
	foreign []*mirror.ForeignError
}

func (l *errorLog) options() mirror.Options {
	return mirror.Options{
		OnError:   func(e *mirror.Error) { l.mu.Lock(); defer l.mu.Unlock(); l.errs = append(l.errs, e) },
		OnForeign: func(e *mirror.ForeignError) { l.mu.Lock(); defer l.mu.Unlock(); l.foreign = append(l.foreign, e) },
	}
}

func (l *errorLog) all() []*mirror.Error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]*mirror.Error(nil), l.errs...)
}

const recordings = "../testdata/transcripts"

// recordedFrames returns the frames of a recording, as lines.
func recordedFrames(t testing.TB, name string) [][]byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(recordings, name, "frames.ndjson"))
	require.NoError(t, err)
	lines := bytes.SplitAfter(data, []byte("\n"))
	return lines[:len(lines)-1] // nothing follows the last line end
}

type recordedBatch struct {
	Key     sessionstore.Key
	Entries []sessionstore.Entry
}

// recordedAppends returns what the official host appended, by key.
func recordedAppends(t testing.TB, name string) map[sessionstore.Key][]string {
	t.Helper()
	f, err := os.Open(filepath.Join(recordings, name, "appends.jsonl"))
	require.NoError(t, err)
	defer f.Close()
	all := make(map[sessionstore.Key][]string)
	dec := json.NewDecoder(bufio.NewReader(f))
	for {
		var b recordedBatch
		err := dec.Decode(&b)
		if err == io.EOF {
			return all
		}
		require.NoError(t, err)
		all[b.Key] = append(all[b.Key], texts(b.Entries)...)
	}
}

var recordingNames = []string{"simple", "subagents", "store-ops", "compact-manual", "tools-multiturn", "compact-auto"}
