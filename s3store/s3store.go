package s3store

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/attempt"
	"github.com/sessionstore/sessionstore/internal/s3util"
)

// Client is what the store needs of a [s3.Client].
type Client interface {
	GetObject(context.Context, *s3.GetObjectInput, ...func(*s3.Options)) (*s3.GetObjectOutput, error)
	HeadObject(context.Context, *s3.HeadObjectInput, ...func(*s3.Options)) (*s3.HeadObjectOutput, error)
	PutObject(context.Context, *s3.PutObjectInput, ...func(*s3.Options)) (*s3.PutObjectOutput, error)
	DeleteObject(context.Context, *s3.DeleteObjectInput, ...func(*s3.Options)) (*s3.DeleteObjectOutput, error)
	DeleteObjects(context.Context, *s3.DeleteObjectsInput, ...func(*s3.Options)) (*s3.DeleteObjectsOutput, error)
	ListObjectsV2(context.Context, *s3.ListObjectsV2Input, ...func(*s3.Options)) (*s3.ListObjectsV2Output, error)
}

var _ Client = (*s3.Client)(nil)

// Options of [New]. The zero value is fine.
type Options struct {
	// Prefix starts the name of every object, such as "agents/". A slash is
	// added if it does not end in one. At most 128 bytes.
	Prefix string

	// StorageClass of the objects that hold entries; empty is the bucket's
	// default. Parts are small and short-lived, so a class with a minimum size
	// or duration costs more than it saves.
	StorageClass types.StorageClass

	// SSE asks for server-side encryption of every object: AES256 (SSE-S3) or
	// aws:kms (SSE-KMS). Empty leaves it to the bucket.
	SSE types.ServerSideEncryption
	// KMSKeyID is the key for SSE-KMS; empty is the account's default key.
	KMSKeyID string

	// Tags are put on every object, for lifecycle rules and cost reports.
	Tags map[string]string

	// LoadConcurrency is how many objects one Load, Stream or list fetches at a
	// time. The default is 10, the number of idle connections that a client of
	// the SDK keeps.
	LoadConcurrency int

	// CompactAfter is how many small parts at the end of a transcript may pile
	// up before they are put together in the background. The default is 8; a
	// negative value leaves that to [Store.Compact].
	CompactAfter int
}

// Store is a handle on the sessions in a bucket. It is safe for concurrent use.
// Make one with [New] and end it with [Store.Close].
type Store struct {
	client       Client
	bucket       string
	prefix       string // empty, or ends in a slash
	storageClass types.StorageClass
	sse          types.ServerSideEncryption
	kmsKeyID     *string
	tagging      *string
	tags         []types.Tag
	concurrency  int
	compactAfter int
	writer       string // names the index objects of this handle
	timing       timing

	attempts attempt.Tracker[sessionstore.Key, partName]
	states   stateMap
	sums     summaryCache
	deleter  s3util.Deleter

	background context.Context
	stop       context.CancelFunc
	slots      chan struct{} // for compactions

	mu      sync.Mutex // protects closed, and jobs.Add against jobs.Wait
	closed  bool
	closing chan struct{}
	jobs    sync.WaitGroup
}

// timing is what tests change.
type timing struct {
	now func() time.Time
	// indexEvery is how long the index of a session may lag behind its appends.
	indexEvery time.Duration
	// compactEvery is the least time between two compactions of a transcript.
	compactEvery time.Duration
	// closeWait limits how long Close waits for index objects to be written.
	closeWait time.Duration
	// subsumedAge is how old an index object of another handle must be before
	// one that covers it replaces it.
	subsumedAge time.Duration
}

var (
	_ sessionstore.SessionStore  = (*Store)(nil)
	_ sessionstore.SessionLister = (*Store)(nil)
	_ sessionstore.SummaryLister = (*Store)(nil)
	_ sessionstore.ProjectLister = (*Store)(nil)
	_ sessionstore.SubkeyLister  = (*Store)(nil)
	_ sessionstore.OrphanLister  = (*Store)(nil)
	_ sessionstore.Deleter       = (*Store)(nil)
	_ sessionstore.Streamer      = (*Store)(nil)
	_ sessionstore.Purger        = (*Store)(nil)
)

// New returns a store in a bucket, which must exist. The caller owns the client:
// credentials, region, endpoint, retries, checksums. Options may be nil. New
// sends nothing.
func New(client Client, bucket string, options *Options) (*Store, error) {
	o := Options{}
	if options != nil {
		o = *options
	}
	if o.Prefix != "" && !strings.HasSuffix(o.Prefix, "/") {
		o.Prefix += "/"
	}
	if err := o.check(client, bucket); err != nil {
		return nil, fmt.Errorf("s3store: %w", err)
	}
	s := &Store{
		client: client, bucket: bucket, prefix: o.Prefix,
		storageClass: o.StorageClass, sse: o.SSE, kmsKeyID: optional(o.KMSKeyID), tagging: optional(encodeTags(o.Tags)), tags: sortedTags(o.Tags),
		concurrency:  cmp.Or(o.LoadConcurrency, 10),
		compactAfter: cmp.Or(o.CompactAfter, 8),
		writer:       randomHex(8),
		timing: timing{
			now: time.Now, indexEvery: time.Second, compactEvery: time.Second,
			closeWait: 30 * time.Second, subsumedAge: time.Hour,
		},
		slots:   make(chan struct{}, 2),
		closing: make(chan struct{}),
	}
	s.background, s.stop = context.WithCancel(context.Background())
	return s, nil
}

func (o Options) check(client Client, bucket string) error {
	switch {
	case client == nil:
		return errors.New("the client is nil")
	case bucket == "":
		return errors.New("the bucket has no name")
	case o.LoadConcurrency < 0:
		return errors.New("LoadConcurrency is negative")
	case o.KMSKeyID != "" && o.SSE != types.ServerSideEncryptionAwsKms && o.SSE != types.ServerSideEncryptionAwsKmsDsse:
		return errors.New("KMSKeyID needs SSE to be aws:kms")
	}
	if err := s3util.CheckPrefix(o.Prefix); err != nil {
		return fmt.Errorf("prefix %q: %w", o.Prefix, err)
	}
	return checkTags(o.Tags)
}

// maxPrefixLen is what the limits of a [sessionstore.Key] leave in the 1,024
// bytes of an object's name.
const maxPrefixLen = s3util.MaxPrefixLen

// Close writes the index objects that are still due, stops compactions, which
// may end at any step, and waits for both. Appends fail afterwards. Without
// Close the index of the last second is missing until the next append to the
// session, and no entry is lost. The client stays open.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		s.jobs.Wait()
		return nil
	}
	s.closed = true
	close(s.closing)
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), s.timing.closeWait)
	defer cancel()
	err := s.flushAll(ctx, "")
	s.stop()
	s.jobs.Wait()
	if err != nil {
		return opError("close", sessionstore.Key{}, err)
	}
	return nil
}

// spawn runs a job in the background unless the store is closed.
func (s *Store) spawn(job func(ctx context.Context)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.jobs.Go(func() { job(s.background) })
	return true
}

var errClosed = errors.New("the store is closed")

func (s *Store) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// begin is how every operation starts: an invalid key or a cancelled context
// ends it before anything is sent.
func begin(ctx context.Context, invalid error) error { return cmp.Or(invalid, ctx.Err()) }

func opError(op string, key sessionstore.Key, err error) error {
	return &sessionstore.OpError{Package: "s3store", Op: op, Key: key, Err: err}
}

// corruptError says that stored data is not whole.
type corruptError struct{ what string }

func (e *corruptError) Error() string { return sessionstore.ErrCorrupt.Error() + ": " + e.what }
func (e *corruptError) Unwrap() error { return sessionstore.ErrCorrupt }

func corrupt(format string, args ...any) error { return &corruptError{fmt.Sprintf(format, args...)} }

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
