package s3fake

import (
	"bufio"
	"bytes"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"hash/crc32"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
)

var checksums = map[string]func() hash.Hash{
	"crc32":  func() hash.Hash { return crc32.NewIEEE() },
	"crc32c": func() hash.Hash { return crc32.New(crc32.MakeTable(crc32.Castagnoli)) },
	"sha1":   sha1.New,
	"sha256": sha256.New,
}

// verified returns the body of a request without its encoding, after all that
// the request says of it was found true; else an error code.
func (s *Server) verified(r *http.Request, body []byte) ([]byte, string) {
	encoded := strings.Contains(r.Header.Get("Content-Encoding"), "aws-chunked") ||
		strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-")
	if s.opts.RefuseTrailers && (encoded || r.Header.Get("X-Amz-Trailer") != "") {
		return nil, "InvalidRequest"
	}
	if encoded {
		var ok bool
		if body, ok = dechunked(r, body); !ok {
			return nil, "IncompleteBody"
		}
	}
	if want := r.Header.Get("X-Amz-Content-Sha256"); len(want) == 2*sha256.Size {
		if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != want {
			return nil, "XAmzContentSHA256Mismatch"
		}
	}
	protected := false
	if want := r.Header.Get("Content-Md5"); want != "" {
		if sum := md5.Sum(body); base64.StdEncoding.EncodeToString(sum[:]) != want {
			return nil, "BadDigest"
		}
		protected = true
	} else if s.opts.RequireMD5 && r.URL.Query().Has("delete") {
		return nil, "MissingContentMD5"
	}
	for name, values := range r.Header {
		kind, ok := strings.CutPrefix(strings.ToLower(name), "x-amz-checksum-")
		if !ok || kind == "mode" || kind == "algorithm" || kind == "type" {
			continue
		}
		if checksums[kind] == nil || digest(kind, body) != values[0] {
			return nil, "BadDigest"
		}
		protected = true
	}
	if !protected && r.URL.Query().Has("delete") {
		return nil, "InvalidRequest" // S3 demands one of them
	}
	return body, ""
}

func digest(kind string, body []byte) string {
	h := checksums[kind]()
	h.Write(body)
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// dechunked takes the aws-chunked encoding off a body, and moves its trailers
// to the header, where their values are verified.
func dechunked(r *http.Request, body []byte) ([]byte, bool) {
	in := bufio.NewReader(bytes.NewReader(body))
	var out []byte
	for {
		line, err := in.ReadString('\n')
		size, _, _ := strings.Cut(strings.TrimSpace(line), ";") // a signature may follow
		n, bad := strconv.ParseUint(size, 16, 31)
		if err != nil || bad != nil {
			return nil, false
		}
		if n == 0 {
			break
		}
		chunk := make([]byte, n+2)
		if _, err := io.ReadFull(in, chunk); err != nil || string(chunk[n:]) != "\r\n" {
			return nil, false
		}
		out = append(out, chunk[:n]...)
	}
	trailer, err := textproto.NewReader(in).ReadMIMEHeader()
	if err != nil && err != io.EOF {
		return nil, false
	}
	for name, values := range trailer {
		r.Header[name] = values
	}
	want := r.Header.Get("X-Amz-Decoded-Content-Length")
	return out, want == "" || want == strconv.Itoa(len(out))
}
