package s3store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/s3fake"
)

func TestTakeoverLandsBehindWhatItLoadedWhateverTheClocksSay(t *testing.T) {
	for _, shift := range []time.Duration{-time.Hour, -time.Millisecond, 0, time.Hour} {
		for _, how := range []string{"Load", "Stream", "FirstAppend"} {
			for _, compacted := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/%v", shift, how, compacted), func(t *testing.T) {
					w := newWorld(t, nil)
					a, b := w.host("a"), w.hostAt("b", shift)
					appendEach(t, a, 0, 20) // runs ahead of its own clock
					if compacted {
						require.NoError(t, a.Compact(t.Context(), fakeKey))
					}
					switch how {
					case "Load":
						_, err := b.Load(t.Context(), fakeKey)
						require.NoError(t, err)
					case "Stream":
						_, err := drain(t.Context(), b)
						require.NoError(t, err)
					}
					appendEach(t, b, 20, 25)
					requireHolds(t, a, numberedList(0, 25), "after the takeover")
					appendEach(t, a, 25, 30) // and back
					requireHolds(t, w.host("c"), numberedList(0, 30), "after coming back")
					requireSettled(t, w, numberedList(0, 30), "after both")
				})
			}
		}
	}
}

func TestClockThatJumpsNeverReorders(t *testing.T) {
	w := newWorld(t, nil)
	a := w.host("a")
	var shift atomic.Int64
	a.timing.now = func() time.Time { return time.Now().Add(time.Duration(shift.Load())) }
	for n := range 20 {
		jump := []time.Duration{0, -time.Hour, time.Hour, -24 * time.Hour}[n%4]
		shift.Store(int64(jump))
		appendEach(t, a, n, n+1)
	}
	requireHolds(t, w.host("b"), numberedList(0, 20), "after the jumps")
	requireSettled(t, w, numberedList(0, 20), "after the jumps")
}

func TestPartsInOneMillisecondKeepTheirOrder(t *testing.T) {
	w := newWorld(t, nil)
	a, b := w.host("a"), w.host("b")
	at := func(ms int64) func() time.Time { return func() time.Time { return time.UnixMilli(ms) } }
	const start = 1_700_000_000_000
	a.timing.now, b.timing.now = at(start), at(start+1)
	appendEach(t, a, 0, 5)
	appendEach(t, b, 5, 6)
	a.timing.now = at(start + 2)
	appendEach(t, a, 6, 7)
	got, err := w.host("c").Load(t.Context(), fakeKey)
	require.NoError(t, err)
	require.Len(t, got, 7)
	requireOrder(t, got, numberedList(0, 6))
	requireOrder(t, got, append(numberedList(0, 5), numbered(6)))
}

// Three hosts, an hour apart, append and compact at once, while others read.
func TestHostsAnHourApartLoseAndMoveNothing(t *testing.T) {
	w := newWorld(t, &s3fake.Options{PageSize: 7})
	const hosts, perHost = 3, 40
	entry := func(h, n int) sessionstore.Entry {
		if n%3 == 0 {
			return sessionstore.Entry(fmt.Sprintf(`{"type":"mode","h":%d,"n":%d}`, h, n))
		}
		return sessionstore.Entry(fmt.Sprintf(`{"type":"user","uuid":"%d-%d","h":%d,"n":%d}`, h, n, h, n))
	}
	var writers, readers sync.WaitGroup
	stop := make(chan struct{})
	for h := range hosts {
		name := fmt.Sprint("h", h)
		s := w.hostWith(name, w.client(name), Options{CompactAfter: 4})
		s.timing.compactEvery = 0
		s.timing.now = func() time.Time { return time.Now().Add(time.Duration(h-1) * time.Hour) }
		writers.Go(func() {
			for n := range perHost {
				if err := s.Append(t.Context(), fakeKey, []sessionstore.Entry{entry(h, n)}); err != nil {
					t.Errorf("append: %v", err)
				}
				if n%10 == h {
					if err := s.Compact(t.Context(), fakeKey); err != nil {
						t.Errorf("compact: %v", err)
					}
				}
			}
			if err := s.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
	readers.Go(func() {
		r := w.host("reader")
		var before []string
		for {
			got, err := r.Load(t.Context(), fakeKey)
			if err != nil {
				t.Errorf("load: %v", err)
				return
			}
			now := lines(got)
			if !isSubsequence(before, now) {
				t.Errorf("entries were lost or moved:\n%v\n%v", before, now)
				return
			}
			before = now
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	writers.Wait()
	close(stop)
	readers.Wait()
	got, err := w.host("z").Load(t.Context(), fakeKey)
	require.NoError(t, err)
	require.Len(t, got, hosts*perHost)
	for h := range hosts {
		var own []sessionstore.Entry
		for n := range perHost {
			own = append(own, entry(h, n))
		}
		requireOrder(t, got, own)
	}
	requireSettled(t, w, got, "after all")
}

func isSubsequence(part, whole []string) bool {
	i := 0
	for _, s := range whole {
		if i < len(part) && s == part[i] {
			i++
		}
	}
	return i == len(part)
}

// A run of random steps of hosts whose clocks differ and that die at any
// request. After each step every acknowledged entry is there once, and what a
// reader has seen before is still there in the same order.
func TestRandomHistories(t *testing.T) {
	rounds := 12
	if testing.Short() {
		rounds = 4
	}
	for seed := range rounds {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { randomHistory(t, uint64(seed)) }) {
			return
		}
	}
}

type randomRun struct {
	*rand.Rand
	t     *testing.T
	w     world
	n     int
	hosts []*randomHost
	acked map[string]bool
	tried map[string]bool
	seen  []string
	steps []string
}

type randomHost struct {
	*Store
	name  string
	owned []string // acknowledged, in order
	retry []sessionstore.Entry
}

func randomHistory(t *testing.T, seed uint64) {
	r := &randomRun{
		Rand: rand.New(rand.NewPCG(seed, 1)), t: t, w: newWorld(t, &s3fake.Options{PageSize: 3}),
		acked: make(map[string]bool), tried: make(map[string]bool),
	}
	for range 3 {
		r.hosts = append(r.hosts, r.newHost())
	}
	for range 30 {
		r.step()
		r.check()
	}
	r.w.Heal()
	got, err := r.w.host("last").Load(t.Context(), fakeKey)
	require.NoError(t, err)
	requireSettled(t, r.w, got, strings.Join(r.steps, "; "))
}

func (r *randomRun) newHost() *randomHost {
	r.n++
	name := fmt.Sprint("host", r.n)
	shift := []time.Duration{-time.Hour, -time.Second, 0, time.Second, time.Hour}[r.IntN(5)]
	s := r.w.hostWith(name, r.w.client(name), Options{CompactAfter: []int{-1, 3}[r.IntN(2)]})
	s.timing.compactEvery = 0
	s.timing.now = func() time.Time { return time.Now().Add(shift) }
	r.steps = append(r.steps, fmt.Sprintf("%s clock %v", name, shift))
	return &randomHost{Store: s, name: name}
}

func (r *randomRun) step() {
	i := r.IntN(len(r.hosts))
	h := r.hosts[i]
	kill, lose := false, false
	switch r.IntN(6) {
	case 0:
		kill = true
		r.w.Kill(h.name, r.IntN(12))
	case 1:
		lose = true
		at, seen := r.IntN(5), &counter{}
		r.w.Intercept(func(q s3fake.Request) *s3fake.Fault {
			if q.Account == h.name && seen.next() > at {
				return &s3fake.Fault{LoseReply: true}
			}
			return nil
		})
	}
	r.steps = append(r.steps, fmt.Sprintf("%s kill=%v lose=%v", h.name, kill, lose))
	switch r.IntN(4) {
	case 0:
		err := h.Compact(r.t.Context(), fakeKey)
		r.steps = append(r.steps, fmt.Sprint("compact: ", err != nil))
	case 1:
		_, err := h.Load(r.t.Context(), fakeKey)
		r.steps = append(r.steps, fmt.Sprint("load: ", err != nil))
	default:
		for range 1 + r.IntN(5) {
			r.append(h)
		}
	}
	r.w.Heal()
	if kill {
		h.Close()
		r.hosts[i] = r.newHost()
	}
}

// append repeats a failed batch first, as a mirror does.
func (r *randomRun) append(h *randomHost) {
	batch := h.retry
	if batch == nil {
		r.n++
		batch = numberedList(r.n*2, r.n*2+1+r.IntN(3))
		for i := range batch { // apart from the others
			batch[i] = sessionstore.Entry(strings.Replace(string(batch[i]), `"type"`, fmt.Sprintf(`"b":%d,"type"`, r.n), 1))
			batch[i] = sessionstore.Entry(strings.Replace(string(batch[i]), `"uuid":"u`, fmt.Sprintf(`"uuid":"%d-`, r.n), 1))
		}
	}
	err := h.Append(r.t.Context(), fakeKey, batch)
	r.steps = append(r.steps, fmt.Sprint("append ", r.n, ": ", err != nil))
	for _, l := range lines(batch) {
		r.tried[l] = true
		if err == nil {
			r.acked[l] = true
			h.owned = append(h.owned, l)
		}
	}
	h.retry = nil
	if err != nil {
		h.retry = batch
	}
}

func (r *randomRun) check() {
	t, why := r.t, strings.Join(r.steps, "; ")
	got, err := r.w.host("checker").Load(t.Context(), fakeKey)
	require.NoError(t, err, why)
	now := lines(got)
	require.True(t, isSubsequence(r.seen, now), "lost or moved: %s\n%v\n%v", why, r.seen, now)
	once := make(map[string]bool)
	for _, l := range now {
		require.False(t, once[l], "repeated: %s\n%s\n%v", why, l, now)
		require.True(t, r.tried[l], "invented: %s %s", why, l)
		once[l] = true
	}
	for l := range r.acked {
		require.True(t, once[l], "lost: %s\n%s\n%v", why, l, now)
	}
	for _, h := range r.hosts {
		require.True(t, isSubsequence(h.owned, now), "%s out of order: %s\n%v\n%v", h.name, why, h.owned, now)
	}
	streamed, err := drain(t.Context(), r.w.host("checker"))
	require.NoError(t, err, why)
	require.Equal(t, now, lines(streamed), why)
	r.seen = slices.Clone(now)
}
