package s3store

import (
	"bytes"
	"cmp"
	"compress/flate"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
)

// segment is a part as it was appended. An object holds one, under its own
// name, or, if it was compacted, many. Readers take the union of all segments
// by name, so it makes no difference how often and where one is held.
type segment struct {
	name  partName
	lines int // how many there are; unknown (-1) in an object without table
}

// The table of a compacted object is in its metadata. Lost metadata makes it an
// ordinary part with the same entries, which reads the same once the parts that
// it was made of are gone.
const (
	tableMetadata = "segments"
	// maxTableLen leaves room in the 2 KB that S3 gives to metadata.
	maxTableLen  = 1900
	tableVersion = '1'
	// maxTableBytes limits what is unpacked.
	maxTableBytes = 1 << 20
)

// encodeTable writes a table, sorted by name. Columns of one kind of number
// compress better than rows.
func encodeTable(segs []segment) string {
	var suffixes []uint32
	for _, s := range segs {
		if !slices.Contains(suffixes, s.name.suffix) {
			suffixes = append(suffixes, s.name.suffix)
		}
	}
	b := binary.AppendUvarint(nil, uint64(len(segs)))
	b = binary.AppendUvarint(b, uint64(len(suffixes)))
	for _, s := range suffixes {
		b = append(b, byte(s>>16), byte(s>>8), byte(s))
	}
	last := int64(0)
	for _, s := range segs {
		b = binary.AppendUvarint(b, uint64(s.name.ms-last))
		last = s.name.ms
	}
	if len(suffixes) > 1 {
		for _, s := range segs {
			b = binary.AppendUvarint(b, uint64(slices.Index(suffixes, s.name.suffix)))
		}
	}
	for _, s := range segs {
		if s.lines < 0 {
			s.lines = 1 // a guess, to see how long the table will be
		}
		b = binary.AppendUvarint(b, uint64(s.lines))
	}
	var packed bytes.Buffer
	w, _ := flate.NewWriter(&packed, flate.BestCompression)
	_, _ = w.Write(b)
	_ = w.Close() // a buffer takes everything
	return string(tableVersion) + base64.RawURLEncoding.EncodeToString(packed.Bytes())
}

var errTable = errors.New("unreadable table of segments")

// decodeTable reads a table. The error wraps [sessionstore.ErrCorrupt].
func decodeTable(text string) ([]segment, error) {
	if text == "" || text[0] != tableVersion {
		return nil, corrupt("a table of segments has the format %.1q, this version knows %q", text, string(tableVersion))
	}
	packed, err := base64.RawURLEncoding.DecodeString(text[1:])
	if err == nil {
		var b []byte
		b, err = io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), maxTableBytes))
		if err == nil {
			var segs []segment
			if segs, err = parseTable(b); err == nil {
				return segs, nil
			}
		}
	}
	return nil, corrupt("%v: %v", errTable, err)
}

func parseTable(b []byte) ([]segment, error) {
	bad := false
	number := func(limit uint64) uint64 {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > limit {
			bad = true
			return 0
		}
		b = b[size:]
		return n
	}
	segs := make([]segment, number(uint64(len(b))))
	suffixes := make([]uint32, number(uint64(len(b)/3)))
	if bad || len(b) < 3*len(suffixes) || len(segs) == 0 || len(suffixes) == 0 {
		return nil, errTable
	}
	for i := range suffixes {
		suffixes[i] = uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2])
		b = b[3:]
	}
	last := uint64(0)
	for i := range segs {
		last += number(maxPartMS)
		segs[i].name = partName{int64(last), suffixes[0]}
	}
	for i := range segs {
		if len(suffixes) > 1 {
			if n := number(uint64(len(suffixes) - 1)); !bad {
				segs[i].name.suffix = suffixes[n]
			}
		}
	}
	for i := range segs {
		segs[i].lines = int(number(1 << 40))
	}
	increasing := slices.IsSortedFunc(segs, func(a, b segment) int { return cmp.Or(a.name.compare(b.name), -1) })
	if bad || len(b) > 0 || !increasing || last > maxPartMS {
		return nil, errTable
	}
	return segs, nil
}

// tableOf finds the table in the metadata of an object; empty is none.
func tableOf(metadata map[string]string) string {
	for k, v := range metadata {
		if strings.EqualFold(k, tableMetadata) {
			return v
		}
	}
	return ""
}

// segmentsOf returns what an object holds.
func segmentsOf(name partName, table string) ([]segment, error) {
	if table == "" {
		return []segment{{name, -1}}, nil
	}
	return decodeTable(table)
}
