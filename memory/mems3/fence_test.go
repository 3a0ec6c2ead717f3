package mems3

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore/internal/s3fake"
	"github.com/sessionstore/sessionstore/memory"
)

// files are what a scope should hold, without the root.
type files map[string]string

func (f files) rename(from, to string) files {
	moved := files{}
	for p, text := range f {
		if rest, ok := strings.CutPrefix(p, from+"/"); ok {
			p = to + "/" + rest
		}
		moved[p] = text
	}
	return moved
}

func (f files) delete(dir string) files {
	left := maps.Clone(f)
	maps.DeleteFunc(left, func(p, _ string) bool { return strings.HasPrefix(p, dir+"/") })
	return left
}

func (f files) has(dir string) bool { return len(f.delete(dir)) < len(f) }

// script is what others do while a host stands still: renames "a>b", deletes
// "a", and new files "+a/f".
func (f files) play(t *testing.T, s *Store, script string) files {
	for _, step := range strings.Fields(script) {
		var err error
		if from, to, ok := strings.Cut(step, ">"); ok {
			if err = s.Rename(t.Context(), "/memories/"+from, "/memories/"+to); err == nil {
				f = f.rename(from, to)
			}
		} else if path, ok := strings.CutPrefix(step, "+"); ok {
			if err = s.Write(t.Context(), "/memories/"+path, []byte("text"), "", memory.Limits{}); err == nil {
				f = maps.Clone(f)
				f[path] = "text"
			}
		} else if err = s.Delete(t.Context(), "/memories/"+step); err == nil {
			f = f.delete(step)
		}
		if err != nil && !refused(err) {
			assert.NoError(t, err, step)
		}
	}
	return f
}

// A host stands still before each of its requests in turn. Others complete what
// it has begun and use the names again, also with the same contents. Then the
// request is sent after all, and the host goes on or dies. Nothing that it does
// then can be seen.
func TestAHostThatStoodStillChangesNothing(t *testing.T) {
	t.Parallel()
	scripts := map[string][]string{
		"rename": {"", "new", "new>archive", "new>old", "new>old old", "new>old old>new", "new>archive +old/f", "new +old/f", "+old/f", "new +new/f", "new>archive archive>old"},
		"delete": {"", "+old/f", "+old/f old>new", "+old/f old", "+new/f new>old"},
	}
	for op, all := range scripts {
		for _, script := range all {
			for _, dies := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/%v", op, script, dies), func(t *testing.T) {
					for n := 1; !standStill(t, op, script, n, dies); n++ {
						require.Less(t, n, 100)
					}
				})
			}
		}
	}
}

// standStill has a host stop before its n-th request. It says whether the host
// has made fewer.
func standStill(t *testing.T, op, script string, n int, dies bool) (finished bool) {
	server, late, other := two(t)
	begin := files{"old/f": "text"}
	want, begun, stopped := begin, false, false
	stopBefore(server, n, dies, func() {
		stopped = true
		want = files(contents(t, other))
		begun = !maps.Equal(want, begin)
		want = want.play(t, other, script)
	})
	var err error
	done := func(f files) files { return f.rename("old", "new") }
	if op == "rename" {
		err = late.Rename(t.Context(), "/memories/old", "/memories/new")
	} else {
		err = late.Delete(t.Context(), "/memories/old")
		done = func(f files) files { return f.delete("old") }
	}
	got := files(contents(t, other))
	if stopped && (begun || !maps.Equal(got, want)) || !stopped {
		if !begun { // it has come after what others did
			require.True(t, op == "delete" || !want.has("new"))
			want = done(want)
		}
		require.Equal(t, want, got, "stopped before request %d", n)
	}
	if !dies && err != nil {
		require.True(t, refused(err) && !begun, "stopped before request %d: %v", n, err)
	}
	require.Len(t, server.Keys("bucket", "!memory/scope/"), len(got), "stopped before request %d", n)
	return !stopped
}

// stopBefore calls meanwhile before the n-th request of the host that is late,
// which may be its last.
func stopBefore(server *s3fake.Server, n int, last bool, meanwhile func()) {
	var seen atomic.Int64
	server.Intercept(func(r s3fake.Request) *s3fake.Fault {
		if r.Account != "late" {
			return nil
		}
		switch i := seen.Add(1); {
		case i == int64(n):
			return &s3fake.Fault{Before: meanwhile}
		case i > int64(n) && last:
			return &s3fake.Fault{Refuse: true}
		}
		return nil
	})
}

// Hosts rename the same directories to and fro at once, and die in between, on a
// real server: each file is there once, whatever came of the renames.
func TestRenamesToAndFroOnARealServer(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	dirs := []string{"a", "b", "a/c", "d/e"}
	want := files{}
	for i := range 5 {
		want[fmt.Sprint(i)] = fmt.Sprint("text of ", i)
		require.NoError(t, b.open(t, "scope", immortal).Write(t.Context(), fmt.Sprintf("/memories/a/%d", i), []byte(want[fmt.Sprint(i)]), "", memory.Limits{}))
	}
	for round := range 30 {
		var wg sync.WaitGroup
		for host := range 3 {
			wg.Go(func() {
				s := b.open(t, "scope", immortal)
				if host > 0 {
					s = b.open(t, "scope", rand.IntN(100))
				}
				for range 3 {
					from, to := dirs[rand.IntN(len(dirs))], dirs[rand.IntN(len(dirs))]
					err := s.Rename(t.Context(), "/memories/"+from, "/memories/"+to)
					if host == 0 && err != nil {
						assert.True(t, refused(err) || strings.Contains(err.Error(), "invalid path"), "%v", err)
					}
				}
			})
		}
		wg.Wait()
		got := files{}
		parents := map[string]bool{}
		all := contents(t, b.open(t, "scope", immortal))
		for p, text := range all {
			dir, name := p[:strings.LastIndexByte(p, '/')], p[strings.LastIndexByte(p, '/')+1:]
			got[name] = text
			parents[dir] = true
		}
		require.Equal(t, want, got, "round %d", round)
		require.Len(t, all, len(want), "round %d", round)
		require.Len(t, slices.Collect(maps.Keys(parents)), 1, "round %d: %v", round, all)
	}
}
