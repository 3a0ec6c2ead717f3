package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// testCase is one promise of the contract. The name is Group/Case, so that one
// of them can be run alone.
type testCase struct {
	name     string
	contract string     // the sentence that is broken when the case fails
	needs    Capability // the case is skipped without
	run      func(c *env)
}

// cases are all cases of the suite, in the order in which they run.
func cases() []testCase {
	return slices.Concat(
		appendCases, loadCases, invalidEntryCases, invalidKeyCases, keyLimitCases, contextCases,
		identityCases, identityScopeCases, lostReplyCases,
		orderCases, writerCases, handoverCases,
		bytesCases(), keysCases(), sizeCases, metadataCases,
		sessionsCases, projectsCases, subkeysCases, orphansCases, summaryCases,
		deleteCases, recreateCases, streamCases, purgeCases,
		outageCases, damageCases,
	)
}

// Run runs every case of the suite as a subtest Group/Case, each on a store of
// its own. At its end it logs how many cases ran, and what was missing for the
// others; go test shows that with -v.
func Run(t *testing.T, h Harness) {
	t.Helper()
	if h.Open == nil {
		t.Fatal("conformance: Harness.Open is nil")
	}
	var sum tally
	defer func() { t.Helper(); t.Log(sum.report(h)) }()
	all := cases()
	for i := 0; i < len(all); {
		group, _, _ := strings.Cut(all[i].name, "/")
		n := i
		for n < len(all) && strings.HasPrefix(all[n].name, group+"/") {
			n++
		}
		members := all[i:n]
		t.Run(group, func(t *testing.T) {
			for _, tc := range members {
				t.Run(strings.TrimPrefix(tc.name, group+"/"), func(t *testing.T) {
					runCase(t, h, h.sizes(), tc, &sum)
				})
			}
		})
		i = n
	}
}

// tally counts cases.
type tally struct {
	run, skipped int
	missing      Capability
}

func (s *tally) count(tb testing.TB, missing Capability) {
	s.missing |= missing
	if tb.Skipped() || missing != 0 {
		s.skipped++
	} else {
		s.run++
	}
}

// report says what a pass does not: how much was tested.
func (s *tally) report(h Harness) string {
	text := fmt.Sprintf("conformance: %d cases run, %d skipped", s.run, s.skipped)
	if s.missing != 0 {
		text += "; missing: " + s.missing.String()
	}
	if h.sizes() == shortSizes {
		text += "; heavy cases scaled down"
	}
	if !raceDetector {
		text += "; without the race detector"
	}
	return text
}

func runCase(tb testing.TB, h Harness, size sizes, tc testCase, sum *tally) {
	tb.Helper()
	var missing Capability
	defer func() {
		sum.count(tb, missing)
		if tb.Failed() && missing == 0 {
			tb.Logf("The contract, docs/contract.md, says: %s", tc.contract)
		}
	}()
	c := &env{TB: tb, h: h, size: size, store: h.Open(tb), key: mainKey, known: map[Capability]bool{}}
	if c.store == nil {
		tb.Fatal("Harness.Open returned nil, want a store")
	}
	for one := range tc.needs.each {
		if !c.has(one) {
			missing |= one
		}
	}
	switch {
	case missing == 0:
		tc.run(c)
	case missing&h.Require != 0:
		tb.Fatalf("required, but missing: %s", missing&h.Require)
	default:
		tb.Skipf("missing: %s", missing)
	}
}
