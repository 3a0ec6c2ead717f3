// Package conformance is the suite that every
// [github.com/sessionstore/sessionstore.SessionStore] must pass. It has at
// least one case for each sentence of the contract, and a case that fails
// quotes the sentence. It needs nothing but the standard library.
//
// A store runs it from an ordinary test:
//
//	package mystore_test
//
//	import (
//		"testing"
//
//		"github.com/sessionstore/sessionstore"
//		"github.com/sessionstore/sessionstore/conformance"
//
//		"example.com/mystore"
//	)
//
//	func harness() conformance.Harness {
//		return conformance.Harness{
//			Open: func(tb testing.TB) sessionstore.SessionStore {
//				s, err := mystore.Open(tb.TempDir())
//				if err != nil {
//					tb.Fatal(err)
//				}
//				tb.Cleanup(func() { s.Close() })
//				return s
//			},
//			Reopen: func(tb testing.TB, s sessionstore.SessionStore) sessionstore.SessionStore {
//				other, err := mystore.Open(s.(*mystore.Store).Dir())
//				if err != nil {
//					tb.Fatal(err)
//				}
//				tb.Cleanup(func() { other.Close() })
//				return other
//			},
//			Require:     conformance.All | conformance.Handover,
//			CommitOrder: true,
//		}
//	}
//
//	func TestConformance(t *testing.T)      { conformance.Run(t, harness()) }
//	func BenchmarkConformance(b *testing.B) { conformance.Benchmark(b, harness()) }
//
// Each case is a subtest Group/Case with a store of its own:
//
//	go test -run 'Conformance/Load/UnknownKey'
//
// # Optional things
//
// The optional interfaces are found by assertion; a method that answers with
// [errors.ErrUnsupported] counts as missing. A case that needs something
// missing is skipped and says what, or fails if Harness.Require has it.
//
// Some promises only show when something goes wrong. The functions of the
// harness make that happen: another host opens the data (Reopen), its clock is
// behind (ReopenBehind), a reply gets lost (LoseReply), the backend is away
// (Outage), a part of a transcript has vanished (Damage). Without them a store
// is tested in good weather only.
//
// # Cost
//
// The whole suite stores some hundred MiB and makes some ten thousand calls.
// With Harness.Short, or under go test -short, the heavy cases shrink: an entry
// of 1 MiB in place of 64 MiB, 2,000 entries in a batch in place of 20,000, 100
// batches in place of 1,500, 50 subpaths in place of 1,500. Cases run one after
// the other.
package conformance
