package mems3

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/keyenc"
	"github.com/sessionstore/sessionstore/internal/s3util"
	"github.com/sessionstore/sessionstore/memory"
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
	// added if it does not end in one. At most 128 bytes. It may be that of a
	// session store.
	Prefix string

	// SSE asks for server-side encryption of every object: AES256 (SSE-S3) or
	// aws:kms (SSE-KMS). Empty leaves it to the bucket.
	SSE types.ServerSideEncryption
	// KMSKeyID is the key for SSE-KMS; empty is the account's default key.
	KMSKeyID string
}

// Store holds the files of one scope. It is safe for concurrent use. Make one
// with [New].
type Store struct {
	client   Client
	bucket   string
	scope    string
	base     string // what the names of all objects begin with
	sse      types.ServerSideEncryption
	kmsKeyID *string
	deleter  s3util.Deleter
	now      func() time.Time

	mu      sync.Mutex
	heeded  bool                 // the server heeds conditions
	touched map[string]time.Time // uses that this handle has noted
}

var (
	_ memory.Store   = (*Store)(nil)
	_ memory.Expirer = (*Store)(nil)
)

const (
	memoryDir = "!memory/"

	// Names in the directory of a scope. No escaped name begins so.
	intentName = "!intent"
	usedName   = "!used"
	probeName  = "!probe-"

	// Metadata of objects.
	opsMetadata    = "memory-ops"    // the names of the last writes, the last first
	intentMetadata = "memory-intent" // the rename that has made or ended it

	// keptOps is how many names of writes an object carries.
	keptOps = 8
	// parallel is how many requests one operation makes at a time.
	parallel = 8
)

// New returns a store of a scope in a bucket, which must exist. The caller owns
// the client: credentials, region, endpoint, retries, checksums. An empty scope
// is an error. Options may be nil. New sends nothing.
func New(client Client, bucket, scope string, options *Options) (*Store, error) {
	var o Options
	if options != nil {
		o = *options
	}
	if o.Prefix != "" && !strings.HasSuffix(o.Prefix, "/") {
		o.Prefix += "/"
	}
	err := cmp.Or(s3util.CheckPrefix(o.Prefix), memory.CheckScope(scope))
	switch {
	case err != nil:
	case client == nil:
		err = errors.New("the client is nil")
	case bucket == "":
		err = errors.New("the bucket has no name")
	}
	if err != nil {
		return nil, &memory.OpError{Package: "mems3", Op: "new", Scope: scope, Err: err}
	}
	s := &Store{
		client: client, bucket: bucket, scope: scope, base: o.Prefix + memoryDir + keyenc.Encode(scope) + "/",
		sse: o.SSE, now: time.Now, touched: map[string]time.Time{},
	}
	if o.KMSKeyID != "" {
		s.kmsKeyID = &o.KMSKeyID
	}
	return s, nil
}

func (s *Store) wrap(op, path string, err error) error {
	if err == nil {
		return nil
	}
	var noBucket interface{ ErrorCode() string }
	if errors.As(err, &noBucket) && noBucket.ErrorCode() == "NoSuchBucket" {
		err = undone{err}
	}
	return &memory.OpError{Package: "mems3", Op: op, Scope: s.scope, Path: path, Err: err}
}

// undone is a failure that has changed nothing, which the tool tells the model.
type undone struct{ error }

func (e undone) Unwrap() error { return e.error }
func (e undone) NothingDone()  {}

// name is the name of a file's object.
func (s *Store) name(path string) string {
	return s.base + keyenc.EncodePath(strings.TrimPrefix(path, memory.Root+"/"))
}

// object is an object that was fetched.
type object struct {
	data     []byte
	etag     string
	modified time.Time
	ops      []string // the names of the last writes
	intent   string
}

// ended says that a rename has taken the file away.
func (o object) ended() bool { return o.intent != "" && bytes.HasPrefix(o.data, []byte(tombstone)) }

// get fetches an object whole. None is ErrGone; one longer than max (0: any) is
// ErrTooLarge.
func (s *Store) get(ctx context.Context, name string, max int64) (o object, err error) {
	for try := 1; ; try++ {
		o, err = s.getOnce(ctx, name, max)
		var broken *s3util.BodyError
		if !errors.As(err, &broken) || try == s3util.BodyTries || ctx.Err() != nil {
			return o, err
		}
	}
}

func (s *Store) getOnce(ctx context.Context, name string, max int64) (o object, err error) {
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: &name})
	if err != nil {
		return o, s3util.Gone(err)
	}
	if out.ContentLength == nil {
		out.Body.Close()
		return o, fmt.Errorf("read %s: the answer gives no length", name)
	}
	if max > 0 && *out.ContentLength > max {
		out.Body.Close()
		return o, fmt.Errorf("%w: %d bytes, at most %d", memory.ErrTooLarge, *out.ContentLength, max)
	}
	o = object{etag: aws.ToString(out.ETag), modified: aws.ToTime(out.LastModified)}
	o.ops, o.intent = metadata(out.Metadata)
	o.data, err = s3util.ReadBody(name, out.Body, *out.ContentLength)
	return o, err
}

func metadata(m map[string]string) (ops []string, intent string) {
	for k, v := range m {
		switch strings.ToLower(k) { // some servers change the case of names
		case opsMetadata:
			ops = strings.Fields(v)
		case intentMetadata:
			intent = v
		}
	}
	return ops, intent
}

// condition is what must hold for a put: this etag, or no object.
type condition struct{ etag string }

// put stores an object if the condition holds; else the error is ErrConflict.
// The ops are names of writes, the own one first. An answer that is lost, or
// that says of our own write that it has been overtaken, is checked against
// what is there.
func (s *Store) put(ctx context.Context, name string, data []byte, c condition, ops []string, intent string) (etag string, err error) {
	return s.putWatched(ctx, name, data, c, ops, intent, new(bool))
}

// watched is a retryer that notes when an answer was lost, since requests are
// also repeated by the client itself.
type watched struct {
	aws.Retryer
	lost *bool
}

func (w watched) IsErrorRetryable(err error) bool {
	if !s3util.Answered(err) {
		*w.lost = true
	}
	return w.Retryer.IsErrorRetryable(err)
}

// putWatched is put that says whether it had to send the object more than once
// because an answer was lost.
func (s *Store) putWatched(ctx context.Context, name string, data []byte, c condition, ops []string, intent string, lost *bool) (etag string, err error) {
	in := &s3.PutObjectInput{
		Bucket: &s.bucket, Key: &name, ServerSideEncryption: s.sse, SSEKMSKeyId: s.kmsKeyID,
		Metadata: map[string]string{opsMetadata: strings.Join(ops[:min(len(ops), keptOps)], " ")},
	}
	if intent != "" {
		in.Metadata[intentMetadata] = intent
	}
	if c.etag == "" {
		in.IfNoneMatch = aws.String("*")
	} else {
		in.IfMatch = &c.etag
	}
	for try := 1; ; try++ {
		in.Body = bytes.NewReader(data)
		out, err := s.client.PutObject(ctx, in, func(o *s3.Options) {
			if o.Retryer != nil {
				o.Retryer = watched{o.Retryer, lost}
			}
		})
		if err == nil {
			return aws.ToString(out.ETag), nil
		}
		*lost = *lost || !s3util.Answered(err)
		if s3util.Answered(err) && !s3util.IsPrecondition(err) && !s3util.IsConflict(err) && !errors.Is(s3util.Gone(err), s3util.ErrGone) {
			return "", err
		}
		etag, unchanged, lookErr := s.look(ctx, name, c, ops[0])
		switch {
		case lookErr != nil:
			return "", errors.Join(err, lookErr)
		case etag != "":
			return etag, nil
		case !unchanged:
			return "", memory.ErrConflict
		case try == putTries:
			return "", err
		}
		if err := pause(ctx, try); err != nil {
			return "", err
		}
	}
}

const putTries = 8

func pause(ctx context.Context, try int) error {
	timer := time.NewTimer(time.Duration(try) * 5 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// look finds out what has become of a put: the etag if it has landed, or
// whether its condition still holds.
func (s *Store) look(ctx context.Context, name string, c condition, op string) (etag string, unchanged bool, err error) {
	out, err := s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.bucket, Key: &name})
	if err = s3util.Gone(err); errors.Is(err, s3util.ErrGone) {
		return "", c.etag == "", nil
	}
	if err != nil {
		return "", false, err
	}
	if ops, _ := metadata(out.Metadata); slices.Contains(ops, op) {
		return aws.ToString(out.ETag), false, nil
	}
	return "", c.etag != "" && aws.ToString(out.ETag) == c.etag, nil
}

// Read returns a file.
func (s *Store) Read(ctx context.Context, path string, max int64) (memory.File, error) {
	err := cmp.Or(memory.CheckPath(path), ctx.Err())
	var o object
	if err == nil {
		o, err = s.read(ctx, path, max)
	}
	if errors.Is(err, s3util.ErrGone) {
		err = memory.ErrNotFound
	}
	if err != nil {
		return memory.File{}, s.wrap("read", path, err)
	}
	if last := o.modified; s.now().Sub(last) > memory.UseInterval && s.now().Sub(s.lastTouch(path)) > memory.UseInterval {
		s.touch(ctx, path)
	}
	return memory.File{Data: o.data, Version: o.version()}, nil
}

func (s *Store) read(ctx context.Context, path string, max int64) (object, error) {
	if path == memory.Root {
		return object{}, memory.ErrNotFound
	}
	for {
		var o object
		var err error
		var in intent
		var intentErr error
		var wg sync.WaitGroup
		wg.Go(func() { in, intentErr = s.getIntent(ctx) })
		o, err = s.get(ctx, s.name(path), max)
		wg.Wait()
		switch {
		case intentErr == nil:
			if err := s.complete(ctx, in); err != nil {
				return object{}, err
			}
			continue
		case !errors.Is(intentErr, s3util.ErrGone):
			return object{}, intentErr
		case err == nil && o.ended():
			// The rename has ended between the two requests, or a host that
			// came too late has left this.
			_, _ = s.deleteIf(ctx, s.name(path), o.etag)
			return object{}, s3util.ErrGone
		}
		return o, err
	}
}

// version has all that Write has to know of what it replaces.
func (o object) version() string {
	return fmt.Sprintf("%s|%d|%s", o.etag, len(o.data), strings.Join(o.ops, " "))
}

func parseVersion(version string) (c condition, size int64, ops []string, ok bool) {
	etag, rest, ok1 := strings.Cut(version, "|")
	length, names, ok2 := strings.Cut(rest, "|")
	size, err := strconv.ParseInt(length, 10, 64)
	return condition{etag}, size, strings.Fields(names), ok1 && ok2 && err == nil && etag != ""
}

// Write stores a file.
func (s *Store) Write(ctx context.Context, path string, data []byte, ifVersion string, limits memory.Limits) error {
	err := cmp.Or(memory.CheckWrite(path), ctx.Err())
	if err == nil {
		err = s.probe(ctx)
	}
	switch {
	case err != nil:
	case ifVersion == "":
		err = s.create(ctx, path, data, limits)
	default:
		err = s.replace(ctx, path, data, ifVersion, limits)
	}
	return s.wrap("write", path, err)
}

func (s *Store) replace(ctx context.Context, path string, data []byte, ifVersion string, limits memory.Limits) error {
	c, size, ops, ok := parseVersion(ifVersion)
	if !ok {
		return memory.ErrConflict
	}
	if more := int64(len(data)) - size; more > 0 && limits.Bytes > 0 {
		all, err := s.settled(ctx)
		if err != nil {
			return err
		}
		if err := limits.Check(len(all.files), all.bytes(), 0, more); err != nil {
			return err
		}
	}
	_, err := s.put(ctx, s.name(path), data, c, append([]string{rand.Text()}, ops...), "")
	return err
}

// create stores a new file, and takes it back if it turns out that somebody has
// made a directory in its place, or a file in the place of a directory above
// it, at the same moment. Of two who meet at least one sees the other.
func (s *Store) create(ctx context.Context, path string, data []byte, limits memory.Limits) error {
	for try := 1; ; try++ {
		if err := s.mayCreate(ctx, path, int64(len(data)), limits); err != nil {
			return err
		}
		etag, err := s.put(ctx, s.name(path), data, condition{}, []string{rand.Text()}, "")
		switch {
		case err == nil:
			return s.confirm(ctx, path, etag)
		case !errors.Is(err, memory.ErrConflict):
			return s.whyNot(ctx, path, err)
		case try == putTries:
			return memory.ErrExists
		}
		// There is a file, or the tombstone of one.
		if _, err := s.read(ctx, path, 0); !errors.Is(err, s3util.ErrGone) {
			return cmp.Or(err, memory.ErrExists)
		}
	}
}

// mayCreate looks before a new file is written. Only for limits it lists the
// whole scope.
func (s *Store) mayCreate(ctx context.Context, path string, size int64, limits memory.Limits) error {
	if limits.Files > 0 || limits.Bytes > 0 && size > 0 {
		all, err := s.settled(ctx)
		if err == nil {
			err = all.free(path)
		}
		if err == nil {
			err = limits.Check(len(all.files), all.bytes(), 1, size)
		}
		return err
	}
	for {
		in, err := s.around(ctx, path)
		if in == nil && (errors.Is(err, memory.ErrExists) || errors.Is(err, memory.ErrNotDirectory)) {
			all, listErr := s.settled(ctx) // if it is not a tombstone
			return cmp.Or(listErr, all.free(path))
		}
		if in == nil {
			return err
		}
		if err := s.complete(ctx, *in); err != nil {
			return err
		}
	}
}

// around looks, in parallel, for an intent, for files in the place of the
// directories above a path, and for files below it.
func (s *Store) around(ctx context.Context, path string) (open *intent, err error) {
	parents := memory.Parents(path)
	errs := make([]error, len(parents)+2)
	s3util.Parallel(len(errs), parallel, func(i int) {
		switch i {
		case 0:
			in, err := s.getIntent(ctx)
			if err == nil {
				open = &in
			} else if !errors.Is(err, s3util.ErrGone) {
				errs[0] = err
			}
		case 1:
			out, err := s.client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &s.bucket, Prefix: aws.String(s.name(path) + "/"), MaxKeys: aws.Int32(1)})
			if errs[1] = err; err == nil && len(out.Contents) > 0 {
				errs[1] = memory.ErrExists
			}
		default:
			name := s.name(parents[i-2])
			_, err := s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.bucket, Key: &name})
			if err = s3util.Gone(err); err == nil {
				errs[i] = memory.ErrNotDirectory
			} else if !errors.Is(err, s3util.ErrGone) {
				errs[i] = err
			}
		}
	})
	return open, cmp.Or(errs...)
}

// confirm looks whether a new file may stay.
func (s *Store) confirm(ctx context.Context, path, etag string) error {
	in, err := s.around(ctx, path)
	if in != nil && in.Op == opRename && (path == in.To || memory.Below(path, in.To)) {
		err = cmp.Or(err, memory.ErrExists) // the rename came first
	}
	if err == nil {
		return nil
	}
	_, deleteErr := s.deleteIf(ctx, s.name(path), etag)
	return errors.Join(err, deleteErr)
}

// whyNot looks for what is in the way of a new file: a server over a file
// system refuses a file below a file.
func (s *Store) whyNot(ctx context.Context, path string, err error) error {
	if all, listErr := s.settled(ctx); listErr == nil {
		return cmp.Or(all.free(path), err)
	}
	return err
}

// probe makes sure, once, that the server heeds conditions.
func (s *Store) probe(ctx context.Context) error {
	s.mu.Lock()
	heeded := s.heeded
	s.mu.Unlock()
	if heeded {
		return nil
	}
	name := s.base + probeName + rand.Text()
	put := func(c condition) (string, bool, error) {
		in := &s3.PutObjectInput{Bucket: &s.bucket, Key: &name, Body: bytes.NewReader(nil), ServerSideEncryption: s.sse, SSEKMSKeyId: s.kmsKeyID}
		if c.etag == "" {
			in.IfNoneMatch = aws.String("*")
		} else {
			in.IfMatch = &c.etag
		}
		out, err := s.client.PutObject(ctx, in)
		if err != nil {
			if s3util.IsPrecondition(err) {
				err = nil
			}
			return "", false, err
		}
		return aws.ToString(out.ETag), true, nil
	}
	etag, first, err1 := put(condition{})
	_, again, err2 := put(condition{})
	_, wrong, err3 := put(condition{`"00000000000000000000000000000000"`})
	_, right, err4 := put(condition{cmp.Or(etag, `"d41d8cd98f00b204e9800998ecf8427e"`)})
	err5 := s3util.DeleteEach(ctx, s.client, s.bucket, 1, []s3util.Object{{Key: name}})
	if err := cmp.Or(err1, err2, err3, err4, err5); err != nil {
		return err
	}
	if again || wrong || !right {
		return fmt.Errorf("the server does not heed If-Match and If-None-Match (new: %v, over an object: %v, over another: %v, over the right one: %v), without which edits could be lost: %w",
			first, again, wrong, right, errors.ErrUnsupported)
	}
	s.mu.Lock()
	s.heeded = true
	s.mu.Unlock()
	return nil
}

// corrupt says that an object of the store's own cannot be read.
func corrupt(name string, err error) error {
	return fmt.Errorf("%w: %s: %w", sessionstore.ErrCorrupt, name, err)
}
