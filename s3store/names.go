package s3store

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/keyenc"
)

// Names of objects. Project, session and the segments of the subpath are
// escaped, so that "part-" starts no directory and "!index" is no project:
//
//	<prefix><project>/<session>/part-<number>-<suffix>.jsonl          main transcript
//	<prefix><project>/<session>/<subpath>/part-<number>-<suffix>.jsonl
//	<prefix>!index/<project>/<session>/<writer>                       index

const indexDir = "!index/"

// partName is the name of an object with entries: 13 digits of a clock in
// milliseconds that never stands still, and 24 random bits. It is the name of
// a segment too.
type partName struct {
	ms     int64
	suffix uint32
}

const (
	maxPartMS = 9_999_999_999_999
	maxSuffix = 1<<24 - 1
)

func (n partName) String() string { return fmt.Sprintf("part-%013d-%06x.jsonl", n.ms, n.suffix) }

func (n partName) compare(o partName) int {
	return cmp.Or(cmp.Compare(n.ms, o.ms), cmp.Compare(n.suffix, o.suffix))
}

// parsePart accepts exactly what String gives.
func parsePart(name string) (partName, bool) {
	const form = "part-0000000000000-000000.jsonl"
	if len(name) != len(form) || name[:5] != "part-" || name[18] != '-' || name[25:] != ".jsonl" {
		return partName{}, false
	}
	ms, err1 := strconv.ParseUint(name[5:18], 10, 63)
	suffix, err2 := strconv.ParseUint(name[19:25], 16, 24)
	n := partName{int64(ms), uint32(suffix)}
	return n, err1 == nil && err2 == nil && n.String() == name
}

func randomSuffix() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint32(b[:]) & maxSuffix
}

func (s *Store) projectDir(project string) string { return s.prefix + keyenc.Encode(project) + "/" }

func (s *Store) sessionDir(key sessionstore.Key) string {
	return s.projectDir(key.ProjectKey) + keyenc.Encode(key.SessionID) + "/"
}

// dir is where the parts of a transcript lie.
func (s *Store) dir(key sessionstore.Key) string {
	dir := s.sessionDir(key)
	if key.Subpath != "" {
		dir += keyenc.EncodePath(key.Subpath) + "/"
	}
	return dir
}

// parseObject tells what an object below a project's directory belongs to.
// Objects of others are not ok.
func parseObject(project, rest string) (sessionstore.Key, partName, bool) {
	session, rest, ok := strings.Cut(rest, "/")
	if !ok {
		return sessionstore.Key{}, partName{}, false
	}
	key := sessionstore.Key{ProjectKey: project}
	var err error
	if key.SessionID, err = keyenc.Decode(session); err != nil {
		return key, partName{}, false
	}
	if i := strings.LastIndexByte(rest, '/'); i >= 0 {
		if key.Subpath, err = keyenc.DecodePath(rest[:i]); err != nil {
			return key, partName{}, false
		}
		rest = rest[i+1:]
	}
	name, ok := parsePart(rest)
	return key, name, ok
}

func (s *Store) indexProjectDir(project string) string {
	return s.prefix + indexDir + keyenc.Encode(project) + "/"
}

func (s *Store) indexSessionDir(key sessionstore.Key) string {
	return s.indexProjectDir(key.ProjectKey) + keyenc.Encode(key.SessionID) + "/"
}

// parseIndexWriter reads the name of an index object: that of a handle, and
// behind it, for one that was made afterwards, the time of the session.
func parseIndexWriter(name string) (ms int64, ok bool) {
	writer, time, has := strings.Cut(name, "-")
	if writer == "" || strings.Contains(name, "/") {
		return 0, false
	}
	if !has {
		return 0, true
	}
	ms, err := strconv.ParseInt(time, 10, 64)
	return ms, err == nil && ms >= 0
}

// Limits of S3 for the tags of an object.
const (
	maxTags   = 10
	maxTagKey = 128
	maxTagVal = 256
)

func checkTags(tags map[string]string) error {
	if len(tags) > maxTags {
		return fmt.Errorf("%d tags, the limit is %d", len(tags), maxTags)
	}
	for k, v := range tags {
		if k == "" || len([]rune(k)) > maxTagKey || len([]rune(v)) > maxTagVal {
			return errors.New("a tag has no name, or is longer than 128 and 256 characters")
		}
	}
	return nil
}

func encodeTags(tags map[string]string) string {
	values := make(url.Values, len(tags))
	for k, v := range tags {
		values.Set(k, v)
	}
	return values.Encode()
}

func sortedTags(tags map[string]string) []types.Tag {
	var list []types.Tag
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		list = append(list, types.Tag{Key: aws.String(k), Value: aws.String(tags[k])})
	}
	return list
}
