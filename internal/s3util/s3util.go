// Package s3util is the care for an S3 client that the stores on S3 share:
// lists followed to their end, bodies of their full length, deletes on servers
// that do no batches, and what errors mean.
package s3util

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// ErrGone: there is no such object.
var ErrGone = errors.New("the object is gone")

// Lister is what List needs of a client.
type Lister interface {
	ListObjectsV2(context.Context, *s3.ListObjectsV2Input, ...func(*s3.Options)) (*s3.ListObjectsV2Output, error)
}

// List pages through the objects below a prefix that ends in a slash, and calls
// object for each, with its name behind the prefix. Unless dir is nil it stays
// in that directory and calls dir for the names of those below it, each once. A
// list that cannot be followed to its end is an error.
func List(ctx context.Context, client Lister, bucket, prefix string, object func(rest string, o types.Object), dir func(name string)) error {
	in := &s3.ListObjectsV2Input{Bucket: &bucket, Prefix: &prefix}
	if dir != nil {
		in.Delimiter = aws.String("/")
	}
	seen := make(map[string]bool) // directories, which may stand on two pages
	tokens := make(map[string]bool)
	last := ""
	for {
		out, err := client.ListObjectsV2(ctx, in)
		if err != nil {
			return err
		}
		for _, p := range out.CommonPrefixes {
			name, ok := strings.CutPrefix(aws.ToString(p.Prefix), prefix)
			if name = strings.TrimSuffix(name, "/"); ok && name != "" && !seen[name] && dir != nil {
				seen[name] = true
				dir(name)
			}
		}
		for _, o := range out.Contents {
			rest, ok := strings.CutPrefix(aws.ToString(o.Key), prefix)
			if !ok {
				return fmt.Errorf("list of %q holds %q", prefix, aws.ToString(o.Key))
			}
			if rest != "" && rest != last {
				object(rest, o)
			}
			last = rest
		}
		if !aws.ToBool(out.IsTruncated) {
			return nil
		}
		token := aws.ToString(out.NextContinuationToken)
		if token == "" || tokens[token] {
			return fmt.Errorf("list of %q: a page says that more follow, but its continuation token is %q", prefix, token)
		}
		tokens[token] = true
		in.ContinuationToken = &token
	}
}

// BodyError: an answer began well, but its body could not be read whole.
type BodyError struct {
	Name string
	Err  error
}

func (e *BodyError) Error() string { return fmt.Sprintf("read %s: %v", e.Name, e.Err) }

// Unwrap returns the cause.
func (e *BodyError) Unwrap() error { return e.Err }

// BodyTries is how often a body is fetched that breaks off. The client repeats
// requests, but not the reading of answers.
const BodyTries = 3

// ReadBody reads and closes a body of a known size.
func ReadBody(name string, body io.ReadCloser, size int64) ([]byte, error) {
	defer body.Close()
	// Room for one more, to see the end, and the checksum that the client
	// compares there.
	data := make([]byte, size+1)
	n, err := io.ReadFull(body, data)
	switch {
	case err == nil:
		return nil, &BodyError{name, fmt.Errorf("more than %d bytes", size)}
	case !errors.Is(err, io.ErrUnexpectedEOF) && err != io.EOF, int64(n) != size:
		return nil, &BodyError{name, err}
	}
	return data[:size:size], nil
}

// DeleteClient is what a Deleter needs of a client.
type DeleteClient interface {
	DeleteObject(context.Context, *s3.DeleteObjectInput, ...func(*s3.Options)) (*s3.DeleteObjectOutput, error)
	DeleteObjects(context.Context, *s3.DeleteObjectsInput, ...func(*s3.Options)) (*s3.DeleteObjectsOutput, error)
}

// Object names what is deleted.
type Object struct {
	Key string
	// ETag, unless it is empty, must be that of the object. Not every server
	// looks.
	ETag string
}

// deleteBatch is how many objects one request deletes.
const deleteBatch = 1000

// Deleter deletes objects in batches, and one by one on servers that refuse
// those.
type Deleter struct {
	oneByOne atomic.Bool
}

// Delete deletes objects, up to parallel at a time where it is one by one.
// Those that are gone already are no error, nor are those that have another
// etag, which stay. If some cannot be deleted, the others are, and the error
// says how many are left.
func (d *Deleter) Delete(ctx context.Context, client DeleteClient, bucket string, parallel int, objects []Object) error {
	var errs []error
	for batch := range slices.Chunk(objects, deleteBatch) {
		if err := d.some(ctx, client, bucket, parallel, batch); err != nil {
			errs = append(errs, err)
			if ctx.Err() != nil {
				break
			}
		}
	}
	return errors.Join(errs...)
}

func (d *Deleter) some(ctx context.Context, client DeleteClient, bucket string, parallel int, objects []Object) error {
	if len(objects) == 1 || d.oneByOne.Load() {
		return DeleteEach(ctx, client, bucket, parallel, objects)
	}
	in := &s3.DeleteObjectsInput{Bucket: &bucket, Delete: &types.Delete{Quiet: aws.Bool(true)}}
	for i := range objects {
		in.Delete.Objects = append(in.Delete.Objects, types.ObjectIdentifier{Key: &objects[i].Key, ETag: optional(objects[i].ETag)})
	}
	out, err := client.DeleteObjects(ctx, in)
	if err != nil {
		if !refusesBatches(err) {
			return err
		}
		// A single DELETE has no body, and so nothing that a server could ask
		// a Content-MD5 or another checksum for.
		if err := DeleteEach(ctx, client, bucket, parallel, objects); err != nil {
			return err
		}
		d.oneByOne.Store(true)
		return nil
	}
	var failed []types.Error
	for _, e := range out.Errors {
		if code := aws.ToString(e.Code); code != "NoSuchKey" && code != "PreconditionFailed" {
			failed = append(failed, e)
		}
	}
	if len(failed) > 0 {
		e := failed[0]
		return fmt.Errorf("%d of %d objects could not be deleted; %s: %s: %s", len(failed), len(objects),
			aws.ToString(e.Key), aws.ToString(e.Code), aws.ToString(e.Message))
	}
	return nil
}

// DeleteEach deletes objects one by one.
func DeleteEach(ctx context.Context, client DeleteClient, bucket string, parallel int, objects []Object) error {
	errs := make([]error, len(objects))
	Parallel(len(objects), parallel, func(i int) {
		o := objects[i]
		_, err := client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &bucket, Key: &o.Key, IfMatch: optional(o.ETag)})
		if err != nil && !errors.Is(Gone(err), ErrGone) && !(o.ETag != "" && IsPrecondition(err)) {
			errs[i] = fmt.Errorf("delete %s: %w", o.Key, err)
		}
	})
	failed, first := 0, error(nil)
	for _, err := range errs {
		if err != nil {
			failed++
			if first == nil {
				first = err
			}
		}
	}
	if failed > 1 {
		return fmt.Errorf("%d of %d objects could not be deleted: %w", failed, len(objects), first)
	}
	return first
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// refusesBatches reports whether a server does not do DeleteObjects, or not the
// way the client asks for it.
func refusesBatches(err error) bool {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return false
	}
	switch api.ErrorCode() {
	case "MissingContentMD5", "InvalidDigest", "BadDigest", "NotImplemented", "MethodNotAllowed", "InvalidRequest",
		"InvalidArgument", "MissingContentLength", "XAmzContentSHA256Mismatch", "MalformedXML", "BadRequest":
		return true
	}
	code := status(err)
	return code == http.StatusNotImplemented || code == http.StatusMethodNotAllowed
}

// Gone turns the error of an object that is not there into ErrGone. A bucket
// that is not there is another matter.
func Gone(err error) error {
	var api smithy.APIError
	if errors.As(err, &api) {
		switch api.ErrorCode() {
		case "NoSuchKey", "NotFound":
			return fmt.Errorf("%w: %w", ErrGone, err)
		}
	}
	return err
}

// IsConflict: something is in the way at this moment. A server over a file
// system answers so while it removes an empty directory, and S3 when two
// conditional writes meet.
func IsConflict(err error) bool { return status(err) == http.StatusConflict }

// IsPrecondition: the condition of a request did not hold.
func IsPrecondition(err error) bool { return status(err) == http.StatusPreconditionFailed }

// Answered: the server has refused the request, so it surely had no effect.
func Answered(err error) bool {
	code := status(err)
	return code >= 400 && code < 500 && code != http.StatusRequestTimeout
}

func status(err error) int {
	var reply *smithyhttp.ResponseError
	if errors.As(err, &reply) {
		return reply.HTTPStatusCode()
	}
	return 0
}

// Parallel calls f for 0 to n-1, up to limit at a time, and waits.
func Parallel(n, limit int, f func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(n, limit) {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// MaxPrefixLen is what the limits of keys leave in the 1,024 bytes of an
// object's name.
const MaxPrefixLen = 128

// CheckPrefix refuses what some servers fold into other names.
func CheckPrefix(prefix string) error {
	switch {
	case prefix == "":
		return nil
	case len(prefix) > MaxPrefixLen:
		return fmt.Errorf("it has %d bytes, the limit is %d", len(prefix), MaxPrefixLen)
	case prefix[0] == '/':
		return errors.New("it must not begin with a slash")
	case !utf8.ValidString(prefix) || strings.ContainsFunc(prefix, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' || r == 0xfffe || r == 0xffff }):
		return errors.New("it holds a control character, a backslash, invalid UTF-8 or what XML cannot hold")
	}
	for seg := range strings.SplitSeq(strings.TrimSuffix(prefix, "/"), "/") {
		if seg == "" || seg == "." || seg == ".." {
			return fmt.Errorf("it has the segment %q", seg)
		}
	}
	return nil
}
