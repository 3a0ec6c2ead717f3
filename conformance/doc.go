// Package conformance is the suite that every
// [github.com/sessionstore/sessionstore.SessionStore] must pass. It tests the
// contract, which is docs/contract.md of this module, sentence by sentence; a
// case that fails quotes the sentence. It needs nothing but the standard
// library.
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
//			Require:     conformance.All | conformance.Handover | conformance.CommitOrder,
//			CommitOrder: true,
//		}
//	}
//
//	func TestConformance(t *testing.T)      { conformance.Run(t, harness()) }
//	func BenchmarkConformance(b *testing.B) { conformance.Benchmark(b, harness()) }
//
// Run it with the race detector. Without it, a store that forgets a lock passes
// on some days.
//
//	go test -race
//
// Each case is a subtest Group/Case with a store of its own:
//
//	go test -race -run 'Conformance/Load/UnknownKey'
//
// # Optional things
//
// The optional interfaces are found by assertion; a method that answers with
// [errors.ErrUnsupported] counts as missing. A case that needs something
// missing is skipped and says what. So name in Harness.Require all that your
// store and your harness have: then a method whose signature has changed, or a
// function that got lost, fails instead of skipping. At its end the suite logs
// how many cases ran and what was missing for the others (go test -v).
//
// Some promises only show when something goes wrong. The functions of the
// harness make that happen: another host opens the data (Reopen), its clock is
// behind (ReopenBehind), a reply gets lost (LoseReply), the backend is away
// (Outage), a part of a transcript has vanished (Damage). Without them a store
// is tested in good weather only.
//
// # Retried batches
//
// The promise that is hardest to keep is that a batch which is appended again,
// after Append failed, is stored once. Entries without uuid have no identity of
// their own, and two equal ones from two appends are two entries. So the batch
// needs an identity. The recipe:
//
//   - Give each batch a random identity before it is sent, and let the backend
//     store it with the batch, in the same write. Within the transcript an
//     entry with a uuid is recognised by that, and one without by the identity
//     of its batch and its position in it. What is stored already is skipped.
//   - When the outcome is unknown, remember the identity in the handle, under
//     the key, with a digest of the batch: of the length and the bytes of each
//     entry. Unknown is every failure after which the batch may have landed: a
//     timeout, a lost connection, a context cancelled in mid-call.
//   - A batch with the same content on the same key continues that attempt: it
//     is sent under the remembered identity. If that surely stores nothing, the
//     outcome of the first attempt stays unknown.
//   - A success forgets what is remembered under the key. So does the success
//     of another batch, since a writer that goes on to it has given the first
//     one up, unless several writers share the key (appends overlap): then it
//     says nothing about the others. Limit how much you remember.
//   - Deleting a transcript deletes the identities stored with it, so that a
//     retry stores the batch after all.
//
// A store for which the outcome is always known, because a failed write can be
// undone or is written over by the next, needs none of this. The cases of group
// LostReply test it; they need Harness.LoseReply.
//
// # Cost
//
// The whole suite stores some hundred MiB and makes some ten thousand calls.
// With Harness.Short, or under go test -short, the heavy cases shrink: an entry
// of 1 MiB in place of 64 MiB, 2,000 entries in a batch in place of 20,000, 100
// batches in place of 1,500, 50 subpaths in place of 1,500. Cases run one after
// the other.
package conformance
