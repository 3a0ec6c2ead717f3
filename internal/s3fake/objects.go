package s3fake

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// The limits of S3, in bytes.
const (
	maxKey      = 1024
	maxMetadata = 2048
	maxDeletes  = 1000
)

type object struct {
	body     []byte
	etag     string // in quotes
	modified time.Time
	header   http.Header // metadata, checksum, content type
}

// call is a request on its way to the objects of its bucket.
type call struct {
	*http.Request
	bucket  string
	objects map[string]*object // nil where there is no bucket
	key     string
	body    []byte
	fault   *Fault
}

type reply struct {
	status int
	header http.Header
	body   []byte
}

func (p reply) write(w http.ResponseWriter, head, cut bool) {
	for name, values := range p.header {
		w.Header()[name] = values
	}
	if p.status != http.StatusNoContent {
		w.Header().Set("Content-Length", strconv.Itoa(len(p.body)))
	}
	w.WriteHeader(p.status)
	switch {
	case head:
	case cut:
		w.Write(p.body[:len(p.body)/2])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	default:
		w.Write(p.body)
	}
}

func failure(status int, code string) reply {
	return xmlReply(status, struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
		Message string
	}{Code: code, Message: "s3fake: " + code})
}

func xmlReply(status int, v any) reply {
	body, err := xml.Marshal(v)
	if err != nil {
		panic(err)
	}
	return reply{status, http.Header{"Content-Type": {"application/xml"}}, append([]byte(xml.Header), body...)}
}

func (s *Server) createBucket(c *call) reply {
	if c.objects != nil {
		return failure(http.StatusConflict, "BucketAlreadyOwnedByYou")
	}
	s.buckets[c.bucket] = make(map[string]*object)
	return reply{status: http.StatusOK}
}

func (s *Server) deleteBucket(c *call) reply {
	if len(c.objects) > 0 {
		return failure(http.StatusConflict, "BucketNotEmpty")
	}
	delete(s.buckets, c.bucket)
	return reply{status: http.StatusNoContent}
}

func (s *Server) headBucket(*call) reply { return reply{status: http.StatusOK} }

func (s *Server) put(c *call) reply {
	switch {
	case len(c.key) > maxKey:
		return failure(http.StatusBadRequest, "KeyTooLongError")
	case !utf8.ValidString(c.key):
		return failure(http.StatusBadRequest, "InvalidURI")
	}
	kept, size := http.Header{}, 0
	for name, values := range c.Header {
		lower := strings.ToLower(name)
		if meta, ok := strings.CutPrefix(lower, "x-amz-meta-"); ok {
			size += len(meta) + len(values[0])
			kept[name] = values
		} else if lower == "content-type" || strings.HasPrefix(lower, "x-amz-checksum-") {
			kept[name] = values
		}
	}
	if size > maxMetadata {
		return failure(http.StatusBadRequest, "MetadataTooLarge")
	}
	if old := c.objects[c.key]; !s.opts.IgnoreConditions {
		if c.Header.Get("If-None-Match") == "*" && old != nil {
			return failure(http.StatusPreconditionFailed, "PreconditionFailed")
		}
		if want := c.Header.Get("If-Match"); want != "" && (old == nil || want != old.etag) {
			return failure(http.StatusPreconditionFailed, "PreconditionFailed")
		}
	}
	sum := md5.Sum(c.body)
	o := &object{c.body, `"` + hex.EncodeToString(sum[:]) + `"`, s.opts.Clock().UTC(), kept}
	c.objects[c.key] = o
	return reply{status: http.StatusOK, header: http.Header{"Etag": {o.etag}}}
}

func (s *Server) get(c *call) reply {
	o := c.objects[c.key]
	switch {
	case o == nil:
		return failure(http.StatusNotFound, "NoSuchKey")
	case c.Header.Get("If-None-Match") == o.etag:
		return reply{status: http.StatusNotModified}
	case c.Header.Get("If-Match") != "" && c.Header.Get("If-Match") != o.etag:
		return failure(http.StatusPreconditionFailed, "PreconditionFailed")
	}
	header := http.Header{"Etag": {o.etag}, "Last-Modified": {o.modified.Format(http.TimeFormat)}}
	for name, values := range o.header {
		if c.Header.Get("X-Amz-Checksum-Mode") == "ENABLED" || !strings.HasPrefix(name, "X-Amz-Checksum-") {
			header[name] = values
		}
	}
	if text := c.Header.Get("Range"); text != "" {
		return ranged(text, header, o.body)
	}
	return reply{http.StatusOK, header, o.body}
}

// ranged knows the form of a range that gives both ends.
func ranged(text string, header http.Header, body []byte) reply {
	var from, to int
	if n, err := fmt.Sscanf(text, "bytes=%d-%d", &from, &to); n != 2 || err != nil {
		return failure(http.StatusNotImplemented, "NotImplemented")
	}
	if from > to || from >= len(body) {
		return failure(http.StatusRequestedRangeNotSatisfiable, "InvalidRange")
	}
	to = min(to, len(body)-1)
	header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to, len(body)))
	for name := range header { // they are of the whole
		if strings.HasPrefix(name, "X-Amz-Checksum-") {
			header.Del(name)
		}
	}
	return reply{http.StatusPartialContent, header, body[from : to+1]}
}

func (s *Server) delete(c *call) reply {
	if want := c.Header.Get("If-Match"); want != "" && !s.opts.IgnoreConditions {
		if old := c.objects[c.key]; old == nil || want != old.etag {
			return failure(http.StatusPreconditionFailed, "PreconditionFailed")
		}
	}
	delete(c.objects, c.key)
	return reply{status: http.StatusNoContent}
}

type deleted struct{ Key string }

type deleteError struct{ Key, Code, Message string }

func (s *Server) deleteObjects(c *call) reply {
	var ask struct {
		XMLName xml.Name `xml:"Delete"`
		Quiet   bool
		Objects []deleted `xml:"Object"`
	}
	if err := xml.Unmarshal(c.body, &ask); err != nil || len(ask.Objects) == 0 || len(ask.Objects) > maxDeletes {
		return failure(http.StatusBadRequest, "MalformedXML")
	}
	var answer struct {
		XMLName xml.Name `xml:"DeleteResult"`
		Deleted []deleted
		Error   []deleteError
	}
	for _, o := range ask.Objects {
		code := ""
		if c.fault.KeyError != nil {
			code = c.fault.KeyError(o.Key)
		}
		if code != "" {
			answer.Error = append(answer.Error, deleteError{o.Key, code, fmt.Sprintf("s3fake: %s", code)})
			continue
		}
		delete(c.objects, o.Key)
		if !ask.Quiet {
			answer.Deleted = append(answer.Deleted, o)
		}
	}
	return xmlReply(http.StatusOK, answer)
}
