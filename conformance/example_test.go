package conformance_test

import (
	"testing"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/conformance"
	"github.com/sessionstore/sessionstore/inmemory"
)

// In a real package this is func TestConformance(t *testing.T). Run it with
// go test -race.
func ExampleRun() {
	_ = func(t *testing.T) {
		conformance.Run(t, conformance.Harness{
			Open: func(testing.TB) sessionstore.SessionStore { return inmemory.New() },
			// Skipped cases prove nothing: a store that loses one of these
			// fails instead.
			Require: conformance.All,
		})
	}
}

// In a real package this is func BenchmarkConformance(b *testing.B).
func ExampleBenchmark() {
	_ = func(b *testing.B) {
		conformance.Benchmark(b, conformance.Harness{
			Open: func(testing.TB) sessionstore.SessionStore { return inmemory.New() },
		})
	}
}
