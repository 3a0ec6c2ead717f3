package s3fake

import (
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
)

// Request is what a test can know about a request.
type Request struct {
	N       int    // 1 for the first of the log
	Account string // the access key it was signed with
	Op      string // such as "PutObject"
	Bucket  string
	Key     string // of the object; the prefix, for a list
	Query   url.Values
	Header  http.Header
	Body    []byte
	Status  int // of the reply; 0 before
}

// Fault is what happens to one request. Zero fields do nothing.
type Fault struct {
	Before func() // runs before the effect; the request waits for it
	After  func() // runs after the effect and before the reply

	Refuse    bool   // no effect, the connection is closed
	Status    int    // no effect, a reply with this status …
	Code      string // … and this error code
	LoseReply bool   // the effect, then the connection is closed
	CutBody   bool   // half of the reply's body, under the full length

	// KeyError returns the error code for a key of a DeleteObjects, "" for none.
	KeyError func(key string) string
}

// Intercept has rule asked about each request from now on. The first rule
// that returns a fault decides. It may be called at the same time from several
// requests, and must not call the server.
func (s *Server) Intercept(rule func(Request) *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = append(s.rules, rule)
}

// Heal forgets all rules.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = nil
}

// Kill lets the next n requests of an account through, and nothing after them:
// what a host looks like that died after its n-th request.
func (s *Server) Kill(account string, n int) {
	var seen atomic.Int64
	s.Intercept(func(r Request) *Fault {
		if r.Account == account && seen.Add(1) > int64(n) {
			return &Fault{Refuse: true}
		}
		return nil
	})
}

// Once has fault happen to the first request that matches.
func (s *Server) Once(match func(Request) bool, fault Fault) {
	var done atomic.Bool
	s.Intercept(func(r Request) *Fault {
		if match(r) && done.CompareAndSwap(false, true) {
			return &fault
		}
		return nil
	})
}

// admit logs a request and finds its fault.
func (s *Server) admit(req Request) (*Request, *Fault) {
	s.mu.Lock()
	req.N = len(s.log) + 1
	logged := &req
	s.log = append(s.log, logged)
	known := req
	rules := s.rules
	s.mu.Unlock()
	for _, rule := range rules {
		if f := rule(known); f != nil {
			return logged, f
		}
	}
	return logged, &Fault{}
}

type operation func(*Server, *call) reply

// parse names the operation; without a name there is no function for it.
func parse(r *http.Request, body []byte) (Request, operation) {
	q := r.URL.Query()
	bucket, key := path(r)
	req := Request{Bucket: bucket, Key: key, Query: q, Header: r.Header.Clone(), Body: body}
	_, after, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	req.Account, _, _ = strings.Cut(after, "/")
	var do operation
	switch kind := r.Method + " " + shape(key, q); kind {
	case "PUT bucket":
		req.Op, do = "CreateBucket", (*Server).createBucket
	case "DELETE bucket":
		req.Op, do = "DeleteBucket", (*Server).deleteBucket
	case "HEAD bucket":
		req.Op, do = "HeadBucket", (*Server).headBucket
	case "GET list":
		req.Op, req.Key, do = "ListObjectsV2", q.Get("prefix"), (*Server).list
	case "POST delete":
		req.Op, do = "DeleteObjects", (*Server).deleteObjects
	case "PUT object":
		req.Op, do = "PutObject", (*Server).put
	case "GET object", "HEAD object":
		req.Op, do = map[string]string{"GET": "GetObject", "HEAD": "HeadObject"}[r.Method], (*Server).get
	case "DELETE object":
		req.Op, do = "DeleteObject", (*Server).delete
	default:
		req.Op = kind
	}
	return req, do
}

// shape says what a request is about. A parameter that is not known makes it
// another operation than it seems.
func shape(key string, q url.Values) string {
	for name := range q {
		switch name {
		case "x-id", "list-type", "prefix", "delimiter", "start-after", "continuation-token", "max-keys", "encoding-type", "delete":
		default:
			return name
		}
	}
	switch {
	case key != "":
		return "object"
	case q.Get("list-type") == "2":
		return "list"
	case q.Has("delete"):
		return "delete"
	}
	return "bucket"
}

func path(r *http.Request) (bucket, key string) {
	bucket, key, _ = strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	return bucket, key
}
