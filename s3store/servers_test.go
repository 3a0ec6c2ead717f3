package s3store

import (
	"testing"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/conformance"
	"github.com/sessionstore/sessionstore/internal/s3fake"
	"github.com/sessionstore/sessionstore/internal/testenv"
)

// Servers of other kinds than the one of the other tests.

func TestConformanceOnRclone(t *testing.T) {
	t.Parallel()
	b := newBucketOn(t, testenv.S3Rclone(t))
	b.flaky = true
	h := b.harness(Options{Prefix: "some/prefix/"})
	h.Short = true // the heavy cases say more about the server
	conformance.Run(t, h)
}

func TestConformanceOnPagesOfTwo(t *testing.T) {
	t.Parallel()
	conformanceOnFake(t, s3fake.Options{PageSize: 2, IgnoreConditions: true}, Options{Prefix: "p"})
}

// Parts are put together all the time.
func TestConformanceWhileCompacting(t *testing.T) {
	t.Parallel()
	conformanceOnFake(t, s3fake.Options{PageSize: 2, Pages: s3fake.RepeatedPrefixes, RequireMD5: true}, Options{Prefix: "p", CompactAfter: 1})
}

func conformanceOnFake(t *testing.T, fake s3fake.Options, o Options) {
	server := s3fake.New(t, &fake)
	h := newBucketOn(t, testenv.S3Server{Endpoint: server.URL, Region: "us-east-1", AccessKey: "host", SecretKey: "secret"}).harness(o)
	h.Short = true // what takes long takes no other requests
	open := h.Open
	h.Open = func(tb testing.TB) sessionstore.SessionStore {
		s := open(tb).(*Store)
		s.timing.compactEvery = 0
		return s
	}
	if o.CompactAfter > 0 { // a damaged part may be one that is deleted just now
		h.Damage = nil
		h.Require &^= conformance.Damage
	}
	conformance.Run(t, h)
}
