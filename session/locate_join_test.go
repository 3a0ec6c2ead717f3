package session

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/filestore"
	"github.com/sessionstore/sessionstore/inmemory"
)

// placesOf returns where a session lies, as Locate finds it.
func placesOf(t *testing.T, store sessionstore.SessionStore) (keys []sessionstore.Key) {
	t.Helper()
	places, err := Locate(t.Context(), store, testID, nil)
	require.NoError(t, err)
	for _, p := range places {
		keys = append(keys, p.Key)
	}
	return keys
}

// After the first Join, Locate finds what was joined too.
func TestJoiningWhatLocateFindsEnds(t *testing.T) {
	store := inmemory.New()
	mode := func(s string) sessionstore.Entry {
		return sessionstore.Entry(`{"type":"mode","mode":"` + s + `"}`)
	}
	put(t, store, at("a", ""), title("T1"), timed(1), mode("plan"), mode("default"))
	put(t, store, at("b", ""), title("T1"), timed(2), mode("plan"))
	added := []int{}
	join := func() {
		report, err := Join(t.Context(), store, at("whole", ""), placesOf(t, store))
		require.NoError(t, err)
		added = append(added, report.Entries)
	}
	join()
	join()
	put(t, store, at("b", ""), mode("default"), timed(3), mode("plan"))
	join()
	join()
	require.Equal(t, []int{6, 0, 3, 0}, added)
	require.Equal(t, "T1 u1 mode mode u2 mode mode u3 mode", textOf(t, store, at("whole", "")))
}

// A directory keeps only the last metadata of a subagent, and gives it first.
func TestJoiningSubagentsInADirectoryEnds(t *testing.T) {
	store, err := filestore.Open(t.TempDir(), nil)
	require.NoError(t, err)
	defer store.Close()
	meta := func(s string) sessionstore.Entry {
		return sessionstore.Entry(`{"type":"agent_metadata","description":"` + s + `"}`)
	}
	const sub = "subagents/agent-1"
	put(t, store, at("a", ""), timed(1))
	put(t, store, at("a", sub), meta("one"), timed(1))
	put(t, store, at("b", sub), meta("two"), timed(2))
	for i, want := range []int{5, 0, 0} {
		report, err := Join(t.Context(), store, at("whole", ""), placesOf(t, store))
		require.NoError(t, err)
		require.Equal(t, want, report.Entries, "join %d", i)
	}
	require.Equal(t, "agent_metadata u1 u2", textOf(t, store, at("whole", sub)))
}

// What a place goes on with behind what was passed over never comes before it.
func TestJoinedKeepsTheOrderBehindWhatIsPassedOver(t *testing.T) {
	store := inmemory.New()
	put(t, store, at("a", ""), timed(8), timed(5))
	put(t, store, at("b", ""), timed(5), timed(6))
	require.Equal(t, "u8 u5 u6", textOf(t, Joined(store, at("x", ""), []sessionstore.Key{at("a", ""), at("b", "")}), at("x", "")))
}
