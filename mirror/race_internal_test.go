package mirror

import (
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
)

// What a Replay removes before it sees that it is being written is written
// again.
func TestBatchIsKeptWhileAnotherRemovesUnfinishedFiles(t *testing.T) {
	spill := t.TempDir()
	q := &queue{key: sessionstore.Key{ProjectKey: "p", SessionID: "s"}}
	dir := keyDir(spill, q.key)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					removeTemps(dir)
					_ = os.Remove(dir)
				}
			}
		})
	}
	e := &Error{Key: q.key, Entries: []sessionstore.Entry{[]byte(`{"type":"x"}`)}, Err: errors.New("down")}
	var errs []error
	for range 1000 {
		name, err := writeSpill(spill, q, e)
		if err == nil {
			err = os.Remove(name)
		}
		errs = append(errs, err)
	}
	close(stop)
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
}
