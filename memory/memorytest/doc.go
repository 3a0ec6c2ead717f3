// Package memorytest is the suite that every [memory.Store] must pass. It tests
// the contract, which is the comment of that interface, sentence by sentence; a
// case that fails quotes the sentence. It needs nothing but the standard
// library.
//
// A store runs it from an ordinary test:
//
//	func TestConformance(t *testing.T) {
//		memorytest.Run(t, memorytest.Harness{
//			Open: func(tb testing.TB, scope string) (memory.Store, error) {
//				return mystore.New(newDatabase(tb), scope)
//			},
//			Reopen: func(tb testing.TB, s memory.Store) memory.Store {
//				…
//			},
//			Require: memorytest.All,
//		})
//	}
//
// Run it with the race detector. Each case is a subtest Group/Case with a store
// of its own. [Bench] measures the tool on a store.
package memorytest
