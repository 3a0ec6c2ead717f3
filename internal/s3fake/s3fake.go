// Package s3fake is an S3 server in memory for the faults that a real server
// won't produce when a test needs them: pages of two keys, continuation tokens
// that repeat, lost replies, bodies cut short, a host that dies between two
// chosen requests. Everything else belongs to the real servers of testenv.
//
// It is strict where real servers differ or forgive. Checksums and Content-MD5
// are verified when sent, keys and user metadata have their limits, lists are
// sorted by the bytes of the keys, LastModified has whole seconds, continuation
// tokens hold characters that a URL must escape, and what it does not know is
// an error. Buckets are addressed by path. Signatures are not checked; the
// access key names the sender, so that a test can tell its hosts apart.
package s3fake

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Options are the lasting peculiarities of a server. For faults of single
// requests see [Server.Intercept].
type Options struct {
	// PageSize is the most keys in a page of a list; 0 means 1,000.
	PageSize int
	// Pages says what is wrong with the pages of a list.
	Pages PageFault
	// RequireMD5 refuses a DeleteObjects without Content-MD5, as servers did
	// before there were other checksums.
	RequireMD5 bool
	// RefuseTrailers refuses bodies in the aws-chunked encoding.
	RefuseTrailers bool
	// IgnoreConditions makes If-Match and If-None-Match of a PUT or DELETE mean
	// nothing.
	IgnoreConditions bool
	// TLS serves https: only there a client sends checksums as trailers.
	TLS bool
	// Clock stamps objects; nil means the real time.
	Clock func() time.Time
}

// PageFault is a way in which a list of several pages is broken.
type PageFault int

const (
	// SoundPages is the absence of a fault.
	SoundPages PageFault = iota
	// MissingToken says that a list is truncated, and not where it goes on.
	MissingToken
	// SameToken repeats the first page with the first token for ever.
	SameToken
	// RepeatedPrefixes ends pages amid the keys of a common prefix, and
	// gives the prefix again on the next page.
	RepeatedPrefixes
)

// Server is a running server. Its methods may be called at any time.
type Server struct {
	URL string // without a path

	opts Options
	http *httptest.Server

	mu      sync.Mutex
	buckets map[string]map[string]*object
	log     []*Request
	rules   []func(Request) *Fault
}

// New starts a server that ends with the test.
func New(t testing.TB, opts *Options) *Server {
	s := &Server{buckets: make(map[string]map[string]*object)}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.PageSize <= 0 {
		s.opts.PageSize = 1000
	}
	if s.opts.Clock == nil {
		s.opts.Clock = time.Now
	}
	s.http = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	if s.opts.TLS {
		s.http.StartTLS()
	} else {
		s.http.Start()
	}
	s.URL = s.http.URL
	t.Cleanup(s.http.Close)
	return s
}

// Fork starts another server with the same options and objects, and no rules.
func (s *Server) Fork(t testing.TB) *Server {
	fork := New(t, &s.opts)
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, objects := range s.buckets {
		fork.buckets[name] = maps.Clone(objects)
	}
	return fork
}

// HTTPClient returns a client that trusts the server's certificate.
func (s *Server) HTTPClient() *http.Client { return s.http.Client() }

// CreateBucket makes a bucket without a request.
func (s *Server) CreateBucket(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.buckets[name] == nil {
		s.buckets[name] = make(map[string]*object)
	}
}

// Keys returns the keys of a bucket that start with prefix, sorted.
func (s *Server) Keys(bucket, prefix string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := slices.Sorted(maps.Keys(s.buckets[bucket]))
	return slices.DeleteFunc(keys, func(k string) bool { return !strings.HasPrefix(k, prefix) })
}

// Body returns the content of an object, nil if there is none.
func (s *Server) Body(bucket, key string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.buckets[bucket][key]; o != nil {
		return bytes.Clone(o.body)
	}
	return nil
}

// Log returns the requests so far, in the order of their arrival.
func (s *Server) Log() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := make([]Request, len(s.log))
	for i, r := range s.log {
		log[i] = *r
	}
	return log
}

// Counts returns the number of requests of each operation since the last Forget.
func (s *Server) Counts() map[string]int {
	counts := make(map[string]int)
	for _, r := range s.Log() {
		counts[r.Op]++
	}
	return counts
}

// Forget empties the log.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = nil
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the client is gone
	}
	req, do := parse(r, body)
	logged, fault := s.admit(req)
	if fault.Before != nil {
		fault.Before()
	}
	if fault.Refuse {
		panic(http.ErrAbortHandler)
	}
	var rep reply
	if fault.Status != 0 {
		rep = failure(fault.Status, fault.Code)
	} else {
		rep = s.perform(r, req.Op, body, do, fault)
	}
	s.mu.Lock()
	logged.Status = rep.status
	s.mu.Unlock()
	if fault.After != nil {
		fault.After()
	}
	if fault.LoseReply {
		panic(http.ErrAbortHandler)
	}
	rep.write(w, r.Method == http.MethodHead, fault.CutBody)
}

func (s *Server) perform(r *http.Request, op string, body []byte, do operation, fault *Fault) reply {
	if do == nil {
		return failure(http.StatusNotImplemented, "NotImplemented")
	}
	body, code := s.verified(r, body)
	if code != "" {
		return failure(http.StatusBadRequest, code)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	bucket, key := path(r)
	objects := s.buckets[bucket]
	if objects == nil && op != "CreateBucket" {
		return failure(http.StatusNotFound, "NoSuchBucket")
	}
	return do(s, &call{r, bucket, objects, key, body, fault})
}
