package mems3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/sessionstore/sessionstore/internal/s3util"
	"github.com/sessionstore/sessionstore/memory"
)

// object is an object that was fetched.
type object struct {
	data     []byte // of the file, without the line of a mark
	etag     string
	modified time.Time
	metadata
}

// metadata is what the store notes on its objects.
type metadata struct {
	ops    []string // the names of the last writes, the last first
	intent string   // the rename that has brought the file here, and its hold
	mark   mark
}

func parseMetadata(m map[string]string) (d metadata) {
	for k, v := range m {
		switch strings.ToLower(k) { // some servers change the case of names
		case opsMetadata:
			d.ops = strings.Fields(v)
		case intentMetadata:
			d.intent = v
		case markMetadata:
			if f := strings.Fields(v); len(f) == 3 {
				d.mark = mark{f[0], f[1], f[2]}
			}
		}
	}
	return d
}

func (d metadata) encode() map[string]string {
	m := map[string]string{opsMetadata: strings.Join(d.ops[:min(len(d.ops), keptOps)], " ")}
	if d.intent != "" {
		m[intentMetadata] = d.intent
	}
	if d.mark != (mark{}) {
		m[markMetadata] = d.mark.kind + " " + d.mark.intent + " " + d.mark.hold
	}
	return m
}

// bare is an etag without its quotes, which not every server sends.
func bare(etag *string) string { return strings.Trim(aws.ToString(etag), `"`) }

// ifMatch is an etag in the form in which the server wants it.
func (s *Store) ifMatch(etag string) *string {
	if !s.unquoted.Load() {
		etag = `"` + etag + `"`
	}
	return &etag
}

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
	o = object{etag: bare(out.ETag), modified: aws.ToTime(out.LastModified), metadata: parseMetadata(out.Metadata)}
	marked := o.mark != mark{}
	if marked && max > 0 {
		max += maxMarkBytes
	}
	if max > 0 && *out.ContentLength > max {
		out.Body.Close()
		return o, fmt.Errorf("%w: %d bytes, at most %d", memory.ErrTooLarge, *out.ContentLength, max)
	}
	o.data, err = s3util.ReadBody(name, out.Body, *out.ContentLength)
	if err == nil && marked {
		_, data, ok := bytes.Cut(o.data, []byte("\n"))
		if o.data = data; !ok {
			err = corrupt(name, errors.New("the line of its mark is missing"))
		}
	}
	return o, err
}

// head fetches what is known about an object. None is ErrGone.
func (s *Store) head(ctx context.Context, name string) (o object, err error) {
	out, err := s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.bucket, Key: &name})
	if err != nil {
		return o, s3util.Gone(err)
	}
	return object{etag: bare(out.ETag), modified: aws.ToTime(out.LastModified), metadata: parseMetadata(out.Metadata)}, nil
}

// condition is what must hold for a put: this etag, or no object.
type condition struct{ etag string }

func (s *Store) putInput(name string, c condition, d metadata) *s3.PutObjectInput {
	in := &s3.PutObjectInput{Bucket: &s.bucket, Key: &name, ServerSideEncryption: s.sse, SSEKMSKeyId: s.kmsKeyID, Metadata: d.encode()}
	if c.etag == "" {
		in.IfNoneMatch = aws.String("*")
	} else {
		in.IfMatch = s.ifMatch(c.etag)
	}
	return in
}

// put stores an object if the condition holds; else the error is ErrConflict.
// The first of the ops is the name of this write. An answer that is lost, or
// that says of our own write that it has been overtaken, is checked against
// what is there.
func (s *Store) put(ctx context.Context, name string, data []byte, c condition, d metadata) (etag string, err error) {
	return s.putWatched(ctx, name, data, c, d, new(bool))
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
func (s *Store) putWatched(ctx context.Context, name string, data []byte, c condition, d metadata, lost *bool) (etag string, err error) {
	in := s.putInput(name, c, d)
	if d.mark != (mark{}) {
		data = d.mark.wrap(d.ops[0], data)
	}
	for try := 1; ; try++ {
		in.Body = bytes.NewReader(data)
		out, err := s.client.PutObject(ctx, in, func(o *s3.Options) {
			if o.Retryer != nil {
				o.Retryer = watched{o.Retryer, lost}
			}
		})
		if err == nil {
			return bare(out.ETag), nil
		}
		*lost = *lost || !s3util.Answered(err)
		if s3util.Answered(err) && !s3util.IsPrecondition(err) && !s3util.IsConflict(err) && !errors.Is(s3util.Gone(err), s3util.ErrGone) {
			return "", err
		}
		etag, unchanged, lookErr := s.look(ctx, name, c, d.ops[0])
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
	o, err := s.head(ctx, name)
	switch {
	case errors.Is(err, s3util.ErrGone):
		return "", c.etag == "", nil
	case err != nil:
		return "", false, err
	case slices.Contains(o.ops, op):
		return o.etag, false, nil
	}
	return "", c.etag != "" && o.etag == c.etag, nil
}

// deleteIf deletes an object if it has this etag, and says whether it has. Not
// every server heeds a condition here, so it looks first.
func (s *Store) deleteIf(ctx context.Context, name, etag string) (bool, error) {
	o, err := s.head(ctx, name)
	if errors.Is(err, s3util.ErrGone) {
		return false, nil
	}
	if err != nil || o.etag != etag {
		return false, err
	}
	_, err = s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.bucket, Key: &name, IfMatch: s.ifMatch(etag)})
	if s3util.IsPrecondition(err) || errors.Is(s3util.Gone(err), s3util.ErrGone) {
		return false, nil
	}
	return err == nil, err
}

// takeBack deletes an object if this was the last write to it.
func (s *Store) takeBack(ctx context.Context, name, op string) error {
	o, err := s.head(ctx, name)
	if errors.Is(err, s3util.ErrGone) {
		return nil
	}
	if err == nil && len(o.ops) > 0 && o.ops[0] == op {
		_, err = s.deleteIf(ctx, name, o.etag)
	}
	return err
}
