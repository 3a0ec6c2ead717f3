package session

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/inmemory"
)

// drawPlace draws entries with uuid and without, with times that go to and
// fro and without, and many equal ones.
func drawPlace(t *rapid.T, label string) []sessionstore.Entry {
	list := make([]sessionstore.Entry, rapid.IntRange(0, 8).Draw(t, label))
	for i := range list {
		uuid, time := "", ""
		if n := rapid.IntRange(0, 8).Draw(t, "uuid"); n > 0 {
			uuid = fmt.Sprintf(`,"uuid":"u%d"`, n)
		}
		if n := rapid.IntRange(-2, 4).Draw(t, "time"); n >= 0 {
			time = fmt.Sprintf(`,"timestamp":"2026-01-01T00:00:%02dZ"`, n)
		}
		if rapid.Bool().Draw(t, "bare") {
			uuid = ""
			if rapid.Bool().Draw(t, "untimed") {
				time = ""
			}
		}
		list[i] = sessionstore.Entry(fmt.Sprintf(`{"type":"%s","v":%d%s%s}`, rapid.SampledFrom([]string{"mode", "title"}).Draw(t, "type"), rapid.IntRange(0, 2).Draw(t, "v"), uuid, time))
	}
	return list
}

func loadAll(t *rapid.T, store sessionstore.SessionStore, key sessionstore.Key) []string {
	list, err := store.Load(t.Context(), key)
	require.NoError(t, err)
	texts := make([]string, len(list))
	for i, e := range list {
		texts[i] = string(e)
	}
	return texts
}

// requireHolds: each uuid is there, and of each type what has none, in order.
func requireHolds(t *rapid.T, whole, part []string) {
	uuids, types := map[string]bool{}, map[string][]string{}
	for _, text := range whole {
		if e := sessionstore.Entry(text); e.UUID() != "" {
			require.False(t, uuids[e.UUID()], "a uuid is taken once")
			uuids[e.UUID()] = true
		} else {
			types[e.Type()] = append(types[e.Type()], text)
		}
	}
	for _, text := range part {
		e := sessionstore.Entry(text)
		if e.UUID() != "" {
			require.True(t, uuids[e.UUID()], "%s", text)
			continue
		}
		left := types[e.Type()]
		for len(left) > 0 && left[0] != text {
			left = left[1:]
		}
		require.NotEmpty(t, left, "%s is lost", text)
		types[e.Type()] = left[1:]
	}
}

func TestJoiningLosesNothingAndEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sub := rapid.SampledFrom([]string{"", "subagents/agent-1"}).Draw(t, "subpath")
		store := inmemory.New()
		write := func(key sessionstore.Key, list []sessionstore.Entry) {
			if len(list) > 0 {
				require.NoError(t, store.Append(t.Context(), key, list))
			}
		}
		var places []sessionstore.Key
		for i := range rapid.IntRange(1, 3).Draw(t, "places") {
			key := at(fmt.Sprint("p", i), sub)
			write(key, drawPlace(t, "entries"))
			write(key, []sessionstore.Entry{sessionstore.Entry(fmt.Sprintf(`{"type":"user","uuid":"own%d"}`, i))})
			places = append(places, key.Main())
		}
		into := at(rapid.SampledFrom([]string{"new", "new", "p0"}).Draw(t, "into"), "")
		target := into
		target.Subpath = sub
		join := func() (added int) {
			before := loadAll(t, store, target)
			all, err := Locate(t.Context(), store, testID, nil)
			require.NoError(t, err)
			var found []sessionstore.Key
			for _, p := range all {
				found = append(found, p.Key)
			}
			found = rapid.Permutation(found).Draw(t, "order")
			report, err := Join(t.Context(), store, into, found)
			if err != nil {
				require.ErrorIs(t, err, sessionstore.ErrDiverged)
				require.Equal(t, before, loadAll(t, store, target), "nothing is changed")
				return -1
			}
			for _, p := range places {
				p.Subpath = sub
				requireHolds(t, loadAll(t, store, target), loadAll(t, store, p))
			}
			return report.Entries
		}
		if join() < 0 {
			require.Equal(t, "p0", into.ProjectKey, "into a new place, joining never fails")
			return
		}
		require.Zero(t, join(), "a second one adds nothing")
		require.Equal(t, loadAll(t, store, target), loadAll(t, Joined(store, into, append(places, into)), target), "and the view is what was joined")
		grown := rapid.SampledFrom(places).Draw(t, "grown")
		grown.Subpath = sub
		write(grown, drawPlace(t, "more"))
		if join() >= 0 {
			require.Zero(t, join(), "nor does one after it has grown")
		}
	})
}

func TestASessionAndItsCopyAreTheSession(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		store := inmemory.New()
		list := drawPlace(t, "entries")
		if len(list) == 0 {
			return
		}
		for _, p := range []string{"a", "b"} {
			require.NoError(t, store.Append(t.Context(), at(p, ""), list))
		}
		want := loadAll(t, store, at("a", ""))
		for _, as := range []string{"a", "b", "c"} {
			for _, places := range [][]sessionstore.Key{{at("a", ""), at("b", "")}, {at("b", ""), at("a", "")}} {
				require.Equal(t, want, loadAll(t, Joined(store, at(as, ""), places), at(as, "")))
			}
		}
	})
}
