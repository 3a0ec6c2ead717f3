package conformance

import (
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
)

// mistake is one way to get a store wrong, and the cases that must find it.
type mistake struct {
	name string
	// want are the cases that fail, and no others. They may be patterns. One
	// with a question mark may fail: it depends on how goroutines meet.
	want []string
	make func(s *testStore)
	// broad says that most cases stand on what is broken, so that any may fail.
	broad bool
	// alone keeps other tests away: the case counts goroutines.
	alone bool
}

// untested are the cases that no mistake aims at.
var untested = map[string]string{
	"InvalidEntry/TooLong": "an entry of 256 MiB takes too long to make for each mistake",
}

func mistakes() []mistake {
	return slices.Concat(appendMistakes, inputMistakes, identityMistakes, retryMistakes, orderMistakes,
		handoverMistakes, bytesMistakes(), keyMistakes, listMistakes, summaryMistakes, deleteMistakes, readMistakes, failureMistakes)
}

// oneIn says which part of the cases runs against a mistake that is not theirs.
func oneIn() int {
	if raceDetector {
		return 5
	}
	return 1
}

// TestMistakes shows that each case finds what it is for and nothing else. The
// race detector makes it so slow that only a part of the other cases is run
// under it.
func TestMistakes(t *testing.T) {
	for i, m := range mistakes() {
		t.Run(strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
			if !m.alone {
				t.Parallel()
			}
			todo := make(chan testCase)
			var workers sync.WaitGroup
			for range 4 {
				workers.Go(func() {
					for tc := range todo {
						m.check(t, tc)
					}
				})
			}
			for j, tc := range cases() {
				if must, _ := m.wants(tc.name); must || (i+j)%oneIn() == 0 {
					todo <- tc
				}
			}
			close(todo)
			workers.Wait()
		})
	}
}

func (m mistake) check(t *testing.T, tc testCase) {
	r := record(t, testHarness(m.make), tinySizes, tc)
	must, may := m.wants(tc.name)
	for l := range strings.Lines(r.log.String()) {
		if len(l) > 1_000 {
			t.Errorf("%s prints a line of %d bytes: %s", tc.name, len(l), l)
		}
	}
	switch {
	case r.Skipped() && untested[tc.name] == "":
		t.Errorf("%s is skipped: %s", tc.name, r.log.String())
	case must && !r.Failed():
		t.Errorf("%s does not fail", tc.name)
	case r.Failed() && !must && !may:
		t.Errorf("%s fails too: %s", tc.name, r.log.String())
	}
}

// wants says whether the case must fail or may fail.
func (m mistake) wants(name string) (must, may bool) {
	for _, w := range m.want {
		pattern, optional := strings.CutSuffix(w, "?")
		if ok, _ := path.Match(pattern, name); ok {
			return !optional, optional || m.broad
		}
	}
	return false, m.broad
}

func TestEachCaseFindsAMistake(t *testing.T) {
	all := mistakes()
	for _, tc := range cases() {
		found := slices.ContainsFunc(all, func(m mistake) bool { must, _ := m.wants(tc.name); return must })
		if found == (untested[tc.name] != "") {
			t.Errorf("%s: found a mistake = %v, listed as untested = %q", tc.name, found, untested[tc.name])
		}
	}
	for _, m := range all {
		for _, w := range m.want {
			if !slices.ContainsFunc(cases(), func(tc testCase) bool {
				ok, _ := path.Match(strings.TrimSuffix(w, "?"), tc.name)
				return ok
			}) {
				t.Errorf("mistake %q names %q, which is no case", m.name, w)
			}
		}
	}
	t.Logf("%d mistakes", len(all))
}
