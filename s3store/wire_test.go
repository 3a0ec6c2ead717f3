package s3store

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
)

// wire is the transport of a client. It counts requests, and disturbs them.
type wire struct {
	next http.RoundTripper

	down atomic.Bool  // no request gets through
	lose atomic.Int64 // how many answers to PUTs of parts still get lost

	mu     sync.Mutex
	counts counts
	left   int // requests until the host dies, if it is mortal
	mortal bool
	before func(*http.Request) // may be nil
}

// dieAfter lets so many requests through, and none after them.
func (w *wire) dieAfter(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left, w.mortal = n, true
}

// counts is how many requests there were.
type counts struct {
	list, get, head, delete int
	putPart, putIndex       int
}

func (c counts) total() int { return c.list + c.get + c.head + c.delete + c.putPart + c.putIndex }

var (
	errDown = errors.New("the network is down")
	errLost = errors.New("the answer was lost")
)

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	isPart := w.counts.add(r)
	dead := w.mortal && w.left == 0
	if w.mortal && !dead {
		w.left--
	}
	before := w.before
	w.mu.Unlock()
	if dead || w.down.Load() {
		return nil, errDown
	}
	if before != nil {
		before(r)
	}
	resp, err := w.next.RoundTrip(r)
	if isPart && err == nil && w.lose.Load() > 0 && w.lose.Add(-1) >= 0 {
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		return nil, errLost
	}
	return resp, err
}

func (c *counts) add(r *http.Request) (putsPart bool) {
	query := r.URL.Query()
	switch {
	case query.Has("list-type"):
		c.list++
	case r.Method == http.MethodGet:
		c.get++
	case r.Method == http.MethodHead:
		c.head++
	case r.Method == http.MethodDelete, r.Method == http.MethodPost && query.Has("delete"):
		c.delete++
	case r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/"+indexDir):
		c.putIndex++
	case r.Method == http.MethodPut:
		c.putPart++
		return true
	}
	return false
}

// reset returns the counts so far and begins anew.
func (w *wire) reset() counts {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.counts
	w.counts = counts{}
	return c
}
