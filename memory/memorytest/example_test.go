package memorytest_test

import (
	"testing"

	"github.com/sessionstore/sessionstore/memory"
	"github.com/sessionstore/sessionstore/memory/memmap"
	"github.com/sessionstore/sessionstore/memory/memorytest"
)

// In a real package this is func TestConformance(t *testing.T). Run it with
// go test -race.
func ExampleRun() {
	_ = func(t *testing.T) {
		memorytest.Run(t, memorytest.Harness{
			Open:      func(_ testing.TB, scope string) (memory.Store, error) { return memmap.New(scope) },
			OwnMemory: true,
			// Skipped cases prove nothing: a store that loses one of these fails
			// instead.
			Require: memorytest.Expire,
		})
	}
}
