package memdir

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore/memory"
)

func TestAListBesideRenamesIsWhole(t *testing.T) {
	dir := t.TempDir()
	s, other := open(t, dir, "scope"), open(t, dir, "scope")
	for _, p := range strings.Fields("1 2 3 4 5 6 7 8") {
		require.NoError(t, s.Write(t.Context(), "/memories/m/d/"+p, nil, "", memory.Limits{}))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 300 {
			from, to := "z", "a"
			if i == 0 {
				from = "m"
			} else if i%2 == 1 {
				from, to = to, from
			}
			assert.NoError(t, s.Rename(t.Context(), "/memories/"+from+"/d", "/memories/"+to+"/d"))
		}
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		list, err := other.List(t.Context(), memory.Root)
		require.NoError(t, err)
		at := map[byte]int{}
		for _, f := range list {
			at[f.Path[len("/memories/")]]++
		}
		if len(list) != 8 || len(at) != 1 {
			<-done
			t.Fatalf("a list has %d files in %d directories", len(list), len(at))
		}
	}
}
