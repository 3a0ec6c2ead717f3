package s3fake

import (
	"encoding/base64"
	"encoding/xml"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

type listEntry struct {
	Key          string
	LastModified string
	ETag         string
	Size         int
	StorageClass string
}

type listPrefix struct{ Prefix string }

type listPage struct {
	XMLName               xml.Name `xml:"ListBucketResult"`
	Prefix                string
	KeyCount              int
	MaxKeys               int
	IsTruncated           bool
	NextContinuationToken string `xml:",omitempty"`
	Contents              []listEntry
	CommonPrefixes        []listPrefix
}

// list answers a ListObjectsV2.
func (s *Server) list(c *call) reply {
	q := c.URL.Query()
	size := s.opts.PageSize
	if text := q.Get("max-keys"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return failure(http.StatusBadRequest, "InvalidArgument")
		}
		size = min(size, n)
	}
	after, ok := q.Get("start-after"), true
	if text := q.Get("continuation-token"); text != "" {
		if after, ok = readToken(text); !ok {
			return failure(http.StatusBadRequest, "InvalidArgument")
		}
		if s.opts.Pages == SameToken {
			after = ""
		}
	}
	page := s.page(c.objects, q.Get("prefix"), q.Get("delimiter"), after, size)
	if q.Get("encoding-type") == "url" {
		for i := range page.Contents {
			page.Contents[i].Key = url.QueryEscape(page.Contents[i].Key)
		}
		for i := range page.CommonPrefixes {
			page.CommonPrefixes[i].Prefix = url.QueryEscape(page.CommonPrefixes[i].Prefix)
		}
	}
	return xmlReply(http.StatusOK, page)
}

// page collects up to size keys and common prefixes after a key. After one
// that is a common prefix, the keys below it are not listed again.
func (s *Server) page(objects map[string]*object, prefix, delimiter, after string, size int) *listPage {
	page := &listPage{Prefix: prefix, MaxKeys: size}
	repeat := s.opts.Pages == RepeatedPrefixes
	folded, last, n := "", after, 0
	if delimiter != "" && strings.HasSuffix(after, delimiter) && !repeat {
		folded = after
	}
	for _, key := range slices.Sorted(maps.Keys(objects)) {
		if !strings.HasPrefix(key, prefix) || key <= after || folded != "" && strings.HasPrefix(key, folded) {
			continue
		}
		if n == size {
			page.IsTruncated = size > 0
			break
		}
		n++
		last = key
		if i := strings.Index(key[len(prefix):], delimiter); delimiter != "" && i >= 0 {
			common := key[:len(prefix)+i+len(delimiter)]
			if m := len(page.CommonPrefixes); m == 0 || page.CommonPrefixes[m-1].Prefix != common {
				page.CommonPrefixes = append(page.CommonPrefixes, listPrefix{common})
			}
			if !repeat {
				folded, last = common, common
			}
			continue
		}
		o := objects[key]
		page.Contents = append(page.Contents, listEntry{key, o.modified.Format(time.RFC3339), o.etag, len(o.body), "STANDARD"})
	}
	page.KeyCount = len(page.Contents) + len(page.CommonPrefixes)
	if page.IsTruncated && s.opts.Pages != MissingToken {
		page.NextContinuationToken = token(last)
	}
	return page
}

// token hides a key, as real tokens are opaque, behind characters that mean
// something else in a URL that was not escaped.
func token(key string) string { return "+&=" + base64.StdEncoding.EncodeToString([]byte(key)) }

func readToken(text string) (string, bool) {
	rest, marked := strings.CutPrefix(text, "+&=")
	key, err := base64.StdEncoding.DecodeString(rest)
	return string(key), marked && err == nil
}
