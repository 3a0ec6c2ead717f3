package s3store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/sessionstore/sessionstore/internal/s3util"
)

// errGone: an object that was listed is not there any more.
var errGone = s3util.ErrGone

// listed is one object of a list.
type listed struct {
	rest     string // of its name, behind the prefix that was listed
	size     int64
	modified time.Time
	etag     string
}

// listAll pages through the objects below a prefix that ends in a slash. With
// dirs it stays in that directory and gives the names of those below it, each
// once. A list that cannot be followed to its end is an error.
func (s *Store) listAll(ctx context.Context, prefix string, dirs bool) (objects []listed, below []string, err error) {
	var dir func(name string)
	if dirs {
		dir = func(name string) { below = append(below, name) }
	}
	err = s3util.List(ctx, s.client, s.bucket, prefix, func(rest string, o types.Object) {
		objects = append(objects, listed{rest, aws.ToInt64(o.Size), aws.ToTime(o.LastModified), aws.ToString(o.ETag)})
	}, dir)
	if err != nil {
		return nil, nil, err
	}
	return objects, below, nil
}

// object is an object that holds entries of a transcript.
type object struct {
	name     partName
	size     int64
	modified time.Time
	etag     string
}

// parts lists the objects of a transcript, sorted by name.
func (s *Store) parts(ctx context.Context, dir string) ([]object, error) {
	all, _, err := s.listAll(ctx, dir, true)
	if err != nil {
		return nil, err
	}
	parts := make([]object, 0, len(all))
	for _, o := range all {
		if name, ok := parsePart(o.rest); ok {
			parts = append(parts, object{name, o.size, o.modified, o.etag})
		}
	}
	compare := func(a, b object) int { return a.name.compare(b.name) }
	if !slices.IsSortedFunc(parts, compare) { // as in directory buckets
		slices.SortFunc(parts, compare)
	}
	return slices.CompactFunc(parts, func(a, b object) bool { return a.name == b.name }), nil
}

// bodyTries is how often a body is fetched that breaks off.
const bodyTries = s3util.BodyTries

// get fetches a whole object of a known size and its table. An object that has
// another size is not the one that was listed.
func (s *Store) get(ctx context.Context, name string, size int64) (body []byte, table string, err error) {
	for try := 1; ; try++ {
		body, table, err = s.getOnce(ctx, name, size)
		var broken *bodyError
		if !errors.As(err, &broken) || try == bodyTries || ctx.Err() != nil {
			return body, table, err
		}
	}
}

// bodyError: the answer began well, but its body could not be read whole.
type bodyError = s3util.BodyError

func (s *Store) getOnce(ctx context.Context, name string, size int64) ([]byte, string, error) {
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: &name})
	if err != nil {
		return nil, "", gone(err)
	}
	if out.ContentLength != nil && *out.ContentLength != size {
		out.Body.Close()
		return nil, "", &bodyError{Name: name, Err: fmt.Errorf("it has %d bytes, the list says %d", *out.ContentLength, size)}
	}
	body, err := s3util.ReadBody(name, out.Body, size)
	return body, tableOf(out.Metadata), err
}

// getRange fetches a part of an object that is too large to be held.
func (s *Store) getRange(ctx context.Context, name, etag string, from, to int64) (body []byte, table string, err error) {
	for try := 1; ; try++ {
		body, table, err = s.getRangeOnce(ctx, name, etag, from, to)
		var broken *bodyError
		if !errors.As(err, &broken) || try == bodyTries || ctx.Err() != nil {
			return body, table, err
		}
	}
}

func (s *Store) getRangeOnce(ctx context.Context, name, etag string, from, to int64) ([]byte, string, error) {
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{
		Bucket: &s.bucket, Key: &name, Range: aws.String(fmt.Sprintf("bytes=%d-%d", from, to-1)),
	})
	if err != nil {
		return nil, "", gone(err)
	}
	defer out.Body.Close()
	if got := aws.ToString(out.ETag); etag != "" && got != "" && got != etag {
		return nil, "", fmt.Errorf("read %s: it has changed meanwhile", name)
	}
	body := make([]byte, to-from)
	if n := aws.ToInt64(out.ContentLength); out.ContentLength != nil && n != to-from {
		return nil, "", &bodyError{Name: name, Err: fmt.Errorf("%d bytes instead of %d", n, to-from)}
	}
	if _, err := io.ReadFull(out.Body, body); err != nil {
		return nil, "", &bodyError{Name: name, Err: err}
	}
	return body, tableOf(out.Metadata), nil
}

// table fetches the table of an object alone.
func (s *Store) table(ctx context.Context, name string) (string, error) {
	out, err := s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.bucket, Key: &name})
	if err != nil {
		return "", gone(err)
	}
	return tableOf(out.Metadata), nil
}

// put stores an object. The body can be read again, so the client can repeat
// the request, and knows length and checksum beforehand.
func (s *Store) put(ctx context.Context, name string, body []byte, contentType, table string, class types.StorageClass) error {
	in := &s3.PutObjectInput{
		Bucket: &s.bucket, Key: &name, Body: bytes.NewReader(body), ContentType: &contentType,
		StorageClass: class, ServerSideEncryption: s.sse, SSEKMSKeyId: s.kmsKeyID, Tagging: s.tagging,
	}
	if table != "" {
		in.Metadata = map[string]string{tableMetadata: table}
	}
	for try := 1; ; try++ {
		_, err := s.client.PutObject(ctx, in)
		if err == nil {
			return nil
		}
		// Nothing can be in the way of a fresh name. A server over a file system
		// answers so while it removes an empty directory.
		if try == conflictTries || !isConflict(err) {
			return err
		}
		select {
		case <-time.After(time.Duration(try) * conflictPause):
		case <-ctx.Done():
			return err
		}
		in.Body = bytes.NewReader(body)
	}
}

const (
	conflictTries = 5
	conflictPause = 5 * time.Millisecond
)

func isConflict(err error) bool { return s3util.IsConflict(err) }

const (
	linesType = "application/x-ndjson"
	indexType = "application/json"
)

// putIndex stores an index object. Those are written often, so they stay in the
// bucket's default storage class.
func (s *Store) putIndex(ctx context.Context, name string, body []byte) error {
	return s.put(ctx, name, body, indexType, "", "")
}

// putPart stores entries.
func (s *Store) putPart(ctx context.Context, name string, body []byte, table string) error {
	return s.put(ctx, name, body, linesType, table, s.storageClass)
}

// deleteAll deletes objects. Those that are gone already are no error. If some
// cannot be deleted, the others are, and the error says how many are left.
func (s *Store) deleteAll(ctx context.Context, names []string) error {
	return s.deleter.Delete(ctx, s.client, s.bucket, s.concurrency, named(names))
}

func (s *Store) deleteEach(ctx context.Context, names []string) error {
	return s3util.DeleteEach(ctx, s.client, s.bucket, s.concurrency, named(names))
}

func named(names []string) []s3util.Object {
	objects := make([]s3util.Object, len(names))
	for i, name := range names {
		objects[i].Key = name
	}
	return objects
}

// gone turns the error of an object that is not there into errGone. A bucket
// that is not there is another matter.
func gone(err error) error { return s3util.Gone(err) }

// parallel calls f for 0 to n-1, some at a time, and waits.
func (s *Store) parallel(n int, f func(i int)) { s3util.Parallel(n, s.concurrency, f) }

// eachOf is parallel for calls that may fail. The first error, by i, counts;
// after one no further calls are begun.
func (s *Store) eachOf(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.parallel(n, func(i int) {
		if ctx.Err() != nil {
			return
		}
		if err := f(ctx, i); err != nil {
			cancel(err)
		}
	})
	return context.Cause(ctx)
}
