package redisstore

import (
	"sync"

	"github.com/sessionstore/sessionstore"
)

// maxSummaries is for how many sessions a handle remembers the summary.
const maxSummaries = 4096

// folded is a summary and the position that it is valid for. The zero value is
// that of a transcript that does not exist.
type folded struct {
	generation string
	count      int
	state      sessionstore.SummaryState
}

// summaryCache remembers the summaries of the sessions that a handle writes to,
// so that an append can bring the next one along. It may be wrong: the script
// takes a summary only at the position that it was made for.
type summaryCache struct {
	mu sync.Mutex
	m  map[sessionstore.Key]folded
}

func (c *summaryCache) get(key sessionstore.Key) folded {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.m[key]
}

func (c *summaryCache) put(key sessionstore.Key, f folded) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		c.m = make(map[sessionstore.Key]folded)
	}
	if _, ok := c.m[key]; !ok && len(c.m) >= maxSummaries {
		for other := range c.m { // any one
			delete(c.m, other)
			break
		}
	}
	c.m[key] = f
}

func (c *summaryCache) drop(key sessionstore.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.m, key)
}

// predict prepares the summary that the transcript will have with this batch,
// if it stands where this handle believes.
func (st *step) predict() {
	if st.key.Subpath == "" {
		st.guess = st.s.summaries.get(st.key)
		st.next = fold(st.guess.state, st.batch.lines)
		st.summary, _ = st.next.MarshalJSON() // never fails
	}
}

func fold(state sessionstore.SummaryState, lines []*sessionstore.Checked) sessionstore.SummaryState {
	for _, c := range lines {
		state.FoldChecked(c)
	}
	return state
}

// learn remembers what an append has shown about the summary. If ours was not
// taken, because of repeats or of another writer, the stored one lags behind
// until the next append of this handle, or until a list folds the rest.
func (st *step) learn(d done) {
	if st.key.Subpath != "" {
		return
	}
	f := folded{generation: d.generation, count: d.after}
	switch {
	case d.folded:
		f.state = st.next
	case st.guess.generation == d.generation && st.guess.count == d.before:
		f.state = fold(st.guess.state, st.added(d))
	case d.foldedTo == d.before && f.state.UnmarshalJSON(orEmpty(d.summary)) == nil:
		f.state = fold(f.state, st.added(d))
	default:
		st.s.summaries.drop(st.key)
		return
	}
	st.s.summaries.put(st.key, f)
}

// added returns the entries of the batch that have been added.
func (st *step) added(d done) []*sessionstore.Checked {
	if d.after == d.before {
		return nil
	}
	if len(d.repeats) == 0 {
		return st.batch.lines
	}
	var added []*sessionstore.Checked
	next := 0
	for i, e := range st.batch.lines {
		if next < len(d.repeats) && d.repeats[next] == i+1 {
			next++
			continue
		}
		added = append(added, e)
	}
	return added
}

func orEmpty(summary string) []byte {
	if summary == "" {
		return []byte("{}")
	}
	return []byte(summary)
}

// prime remembers a summary that has been read along.
func (s *Store) prime(key sessionstore.Key, r row, summary string) {
	f := folded{generation: r.generation, count: r.count}
	if key.Subpath == "" && r.folded == r.count && f.state.UnmarshalJSON(orEmpty(summary)) == nil {
		s.summaries.put(key, f)
	}
}
