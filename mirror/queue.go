package mirror

import (
	"slices"
	"time"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/attempt"
)

// queue holds the frames of one key. A worker has it while frames are due, so a
// key never has two appends in flight. Fields are guarded by Mirror.mu, except
// for those that only the worker uses.
type queue struct {
	key     sessionstore.Key
	frames  []frame
	due     int   // frames[:due] are to be appended
	waiting bool  // is in Mirror.waiting
	active  bool  // is in Mirror.ready, or a worker has it
	taken   int64 // frames that came in
	settled int64 // frames that are stored or given up

	held    bool      // batches of this key lie in files, and later ones go there
	retryAt time.Time // when the store is tried again for a held key
	lastTry bool      // the try that Close asks for has been made

	// Of the worker.
	looked     bool            // the spill directory was looked at
	stuck      *hanging        // a call that did not return in time
	anchor     []identity      // of the last entries stored, or kept in files
	nextNum    int             // of the next file, 0 if not known
	tried      string          // the file whose batch was appended last, and failed
	triedAs    *attempt.Batch  // the identity that it had
	landed     string          // the file whose batch is stored, as the call said in the end
	kept       []keptFile      // files written and not delivered
	missing    map[string]bool // files that were reported as missing
	delivering *replayer       // of the key's files, while it runs
}

type frame struct {
	entries []sessionstore.Entry
	bytes   int
}

// flush waits until frames are settled.
type flush struct {
	targets map[*queue]int64 // by queue, the number of frames to be settled
	errs    []error
	done    chan struct{}
}

// maxQueues is how many keys are remembered that have nothing to append.
const maxQueues = 4096

// add puts a frame into its queue. It waits for memory.
func (m *Mirror) add(key sessionstore.Key, entries []sessionstore.Entry) error {
	size := 0
	for _, e := range entries {
		size += len(e)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for !m.closed && m.bytes > 0 && m.bytes+size > m.opts.MaxPending {
		m.allDue()
		m.room.Wait()
	}
	if m.closed {
		return ErrClosed
	}
	m.stats.Frames++
	if len(entries) == 0 {
		return nil
	}
	q := m.queue(key)
	q.frames = append(q.frames, frame{entries, size})
	q.taken++
	m.bytes += size
	m.entries += len(entries)
	if m.opts.Mode == Eager {
		q.due = len(q.frames)
		m.schedule(q)
		return nil
	}
	if !q.waiting {
		q.waiting = true
		m.waiting = append(m.waiting, q)
	}
	m.waitEntries += len(entries)
	m.waitBytes += size
	if m.waitEntries > m.opts.MaxEntries || m.waitBytes > m.opts.MaxBytes {
		m.allDue()
	}
	return nil
}

func (m *Mirror) queue(key sessionstore.Key) *queue {
	q := m.queues[key]
	if q == nil {
		if len(m.queues) >= maxQueues {
			m.forgetIdle()
		}
		q = &queue{key: key}
		m.queues[key] = q
	}
	return q
}

// forgetIdle makes room for new keys: a mirror may live as long as a server.
func (m *Mirror) forgetIdle() {
	for key, q := range m.queues {
		if !q.active && !q.held && len(q.frames) == 0 && q.stuck == nil {
			delete(m.queues, key)
		}
	}
}

// allDue makes everything due that is pending.
func (m *Mirror) allDue() {
	for _, q := range m.waiting {
		q.waiting = false
		q.due = len(q.frames)
		m.schedule(q)
	}
	m.waiting = m.waiting[:0]
	m.waitEntries, m.waitBytes = 0, 0
}

// schedule gives a queue to a worker unless one has it.
func (m *Mirror) schedule(q *queue) {
	if q.active {
		return
	}
	q.active = true
	m.ready = append(m.ready, q)
	if m.workers < m.opts.Concurrency {
		m.workers++
		m.running.Add(1)
		go m.work()
	}
}

// work appends what is due until nothing is. Queues take turns.
func (m *Mirror) work() {
	defer m.running.Done()
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.ready) > 0 {
		q := m.ready[0]
		m.ready = m.ready[1:]
		entries, frames, size := m.take(q)
		m.stats.InFlight++
		m.mu.Unlock()
		err := m.deliver(q, entries)
		m.mu.Lock()
		m.stats.InFlight--
		m.settle(q, frames, len(entries), size, err)
		if q.due > 0 {
			m.ready = append(m.ready, q)
		} else {
			q.active = false
		}
	}
	m.ready = nil
	m.workers--
}

// take takes the next batch from a queue: one frame in eager mode, otherwise
// all that are due, up to the first one that exceeds the limits of a flush.
func (m *Mirror) take(q *queue) (entries []sessionstore.Entry, frames, size int) {
	for frames < q.due {
		f := q.frames[frames]
		frames++
		size += f.bytes
		switch frames {
		case 1:
			entries = slices.Clip(f.entries)
		default:
			entries = append(entries, f.entries...)
		}
		if m.opts.Mode == Eager || len(entries) > m.opts.MaxEntries || size > m.opts.MaxBytes {
			break
		}
	}
	clear(q.frames[:frames])
	q.frames = q.frames[frames:]
	q.due -= frames
	if len(q.frames) == 0 {
		q.frames = nil
	}
	return entries, frames, size
}

// settle notes that frames are stored or given up.
func (m *Mirror) settle(q *queue, frames, entries, size int, err error) {
	before := q.settled
	q.settled += int64(frames)
	m.bytes -= size
	m.entries -= entries
	m.room.Broadcast()
	for f := range m.flushes {
		target, ok := f.targets[q]
		if !ok {
			continue
		}
		if err != nil && before < target {
			f.errs = append(f.errs, err)
		}
		if q.settled >= target {
			m.reached(f, q)
		}
	}
}

func (m *Mirror) reached(f *flush, q *queue) {
	delete(f.targets, q)
	if len(f.targets) == 0 {
		delete(m.flushes, f)
		close(f.done)
	}
}

// startFlush makes everything due and returns what waits for it.
func (m *Mirror) startFlush() *flush {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.allDue()
	f := &flush{targets: make(map[*queue]int64), done: make(chan struct{})}
	for _, q := range m.queues {
		if q.settled < q.taken {
			f.targets[q] = q.taken
		}
	}
	if len(f.targets) == 0 {
		close(f.done)
		return f
	}
	m.flushes[f] = struct{}{}
	return f
}
