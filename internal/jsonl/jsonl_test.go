package jsonl

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore/internal/jsonscan"
)

const testLimit = 64 << 20

// fileStart is where the text starts in the source "file".
const fileStart = 3

// sources are the ways to read one text; all of them must agree.
func sources(text string, maxLen int) map[string]*Lines {
	at := strings.NewReader("###" + text + "###")
	slow := iotest.OneByteReader
	if len(text) > 64<<10 {
		slow = iotest.HalfReader
	}
	return map[string]*Lines{
		"reader":    NewLines(strings.NewReader(text), maxLen),
		"few bytes": NewLines(slow(strings.NewReader(text)), maxLen),
		"eof early": NewLines(iotest.DataErrReader(strings.NewReader(text)), maxLen),
		"file":      NewLinesAt(at, fileStart, fileStart+int64(len(text)), maxLen),
	}
}

func startOf(source string) int64 {
	if source == "file" {
		return fileStart
	}
	return 0
}

type result struct {
	entries []string
	skips   []Skip
}

func readAll(t testing.TB, lines *Lines) result {
	var res result
	entries := NewEntries(lines, func(s Skip) { res.skips = append(res.skips, s) })
	for {
		e, err := entries.Next()
		if err == io.EOF {
			return res
		}
		require.NoError(t, err)
		res.entries = append(res.entries, string(e.Data))
	}
}

func numbers(skips []Skip) []int64 {
	var n []int64
	for _, s := range skips {
		n = append(n, s.Line)
	}
	return n
}

func entry(n int) string {
	return `{"type":"user","uuid":"u` + strconv.Itoa(n) + `"}`
}

func TestGoodLinesSurviveBadOnes(t *testing.T) {
	e1, e2, e3, e4 := entry(1), entry(2), entry(3), entry(4)
	nul := strings.Repeat("\x00", 300)
	deep := `{"a":` + strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001) + `}`
	tests := []struct {
		name, text string
		want       []string
		skipped    []int64
	}{
		{"cut line in the middle", e1 + "\n" + e2 + "\n" + `{"type":"attachment","uuid":"x","att` + "\n" + e3 + "\n" + e4 + "\n", []string{e1, e2, e3, e4}, []int64{3}},
		{"two halves on one line", `{"type":"pr-link","sessionId":"S","prNu` + e2 + "\n" + e3 + "\n", []string{e3}, []int64{1}},
		{"two objects on one line", e1 + e2 + "\n" + e3 + "\n", []string{e3}, []int64{1}},
		{"block of NUL bytes", e1 + "\n" + nul + "\n" + e3 + "\n", []string{e1, e3}, []int64{2}},
		{"NUL padding behind an entry", e2 + strings.Repeat("\x00", 9000) + "\n" + strings.Repeat("\x00", 143_000), []string{e2}, []int64{2}},
		{"NUL bytes before an entry", nul + e1 + "\n", []string{e1}, nil},
		{"carriage returns", e1 + "\r\n" + e2 + "\r\x00\n", []string{e1, e2}, nil},
		{"lines that are no objects", "\n   \nnull\n42\n\"x\"\n[]\ntrue\n" + e1 + "\n\n", []string{e1}, []int64{1, 2, 3, 4, 5, 6, 7, 9}},
		{"invalid UTF-8", "{\"a\":\"\xff\"}\n" + e1 + "\n", []string{e1}, []int64{1}},
		{"too deep", deep + "\n" + e1 + "\n", []string{e1}, []int64{1}},
		{"other line ends are no ends", "{\"a\":\"x\u2028y\u2029z\u0085\"}\n", []string{"{\"a\":\"x\u2028y\u2029z\u0085\"}"}, nil},
		{"escapes stay", `{"a":"ok \ud83d","n":9007199254740993,"f":1.0,"k":1,"k":2}` + "\n", []string{`{"a":"ok \ud83d","n":9007199254740993,"f":1.0,"k":1,"k":2}`}, nil},
		{"empty file", "", nil, nil},
		{"unterminated last entry", e1 + "\n" + e2, []string{e1, e2}, nil},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			for name, lines := range sources(tc.text, testLimit) {
				got := readAll(t, lines)
				require.Equal(t, tc.want, got.entries, name)
				require.Equal(t, tc.skipped, numbers(got.skips), name)
			}
		})
	}
}

func TestSkipSaysWhereAndWhy(t *testing.T) {
	text := entry(1) + "\n[]\n" + `{"cut":"of`
	for name, lines := range sources(text, testLimit) {
		skips := readAll(t, lines).skips
		require.Len(t, skips, 2, name)
		first := startOf(name) + int64(len(entry(1))+1)
		require.Equal(t, Skip{2, first, 2, false, &jsonscan.Error{Offset: 0, Reason: "not a JSON object"}}, skips[0], name)
		require.True(t, skips[1].Torn, name)
		require.Equal(t, first+3, skips[1].Offset, name)
		require.EqualValues(t, 10, skips[1].Length, name)
	}
}

func TestTornMarksOnlyAnUnterminatedLastLine(t *testing.T) {
	for name, lines := range sources(entry(1)+"\n"+entry(2), testLimit) {
		entries := NewEntries(lines, nil)
		e, err := entries.Next()
		require.NoError(t, err)
		require.False(t, e.Torn, name)
		require.Equal(t, "u1", string(e.UUID))
		e, err = entries.Next()
		require.NoError(t, err)
		require.True(t, e.Torn, name)
		require.EqualValues(t, 2, e.Line)
		require.EqualValues(t, startOf(name)+int64(len(entry(1))+1), e.Offset)
	}
}

func longEntry(n int) string {
	const frame = len(`{"image":""}`)
	return `{"image":"` + strings.Repeat("A", n-frame) + `"}`
}

func TestLinesOfAnyLength(t *testing.T) {
	lengths := []int{bufferLen - 1, bufferLen, bufferLen + 1, 2 * bufferLen, 70_000, 1_400_000, 5_400_000, 15_000_000}
	if !testing.Short() {
		lengths = append(lengths, testLimit)
	}
	for _, n := range lengths {
		long := longEntry(n)
		text := entry(1) + "\n" + long + "\n" + entry(2) + "\n" + long
		for _, lines := range []*Lines{
			NewLines(strings.NewReader(text), testLimit),
			NewLinesAt(strings.NewReader(text), 0, int64(len(text)), testLimit),
		} {
			got := readAll(t, lines)
			require.Len(t, got.entries, 4, "length %d", n)
			require.True(t, got.entries[1] == long && got.entries[3] == long, "length %d", n)
			require.Equal(t, entry(2), got.entries[2])
			require.Empty(t, got.skips)
		}
	}
}

func TestLineBeyondTheLimitIsSkippedAlone(t *testing.T) {
	for _, n := range []int{1001, bufferLen, 3*bufferLen + 17} {
		text := entry(1) + "\n" + longEntry(n) + "\n" + entry(2) + "\n" + longEntry(1000) + "\n" + longEntry(n)
		for name, lines := range sources(text, 1000) {
			got := readAll(t, lines)
			require.Equal(t, []string{entry(1), entry(2), longEntry(1000)}, got.entries, name)
			require.Equal(t, []int64{2, 5}, numbers(got.skips), name)
			require.ErrorIs(t, got.skips[0].Err, ErrTooLong)
			require.EqualValues(t, n, got.skips[0].Length)
			require.True(t, got.skips[1].Torn)
		}
	}
}

// A line of 300 MB must not be held in memory to be refused.
func TestLineBeyondTheLimitIsNotBuffered(t *testing.T) {
	huge := io.MultiReader(
		strings.NewReader(entry(1)+"\n"),
		io.LimitReader(repeat('A'), 300<<20),
		strings.NewReader("\n"+entry(2)+"\n"),
	)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := readAll(t, NewLines(huge, 1<<20))
	runtime.ReadMemStats(&after)
	require.Equal(t, []string{entry(1), entry(2)}, got.entries)
	require.EqualValues(t, 300<<20, got.skips[0].Length)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20))
}

type repeat byte

func (r repeat) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(r)
	}
	return len(p), nil
}

func TestReadErrorsAreNotTheEnd(t *testing.T) {
	disk := errors.New("disk")
	whole := entry(1) + "\n" + entry(2) + "\n" + entry(3) + "\n"
	for _, rest := range []string{"", entry(4), longEntry(2 * bufferLen)} {
		entries := NewEntries(NewLines(io.MultiReader(strings.NewReader(whole+rest), iotest.ErrReader(disk)), testLimit), nil)
		for range 3 {
			_, err := entries.Next()
			require.NoError(t, err)
		}
		for range 2 {
			_, err := entries.Next()
			require.ErrorIs(t, err, disk, "what may be half a line is not given")
		}
	}
}

func TestFileThatGotShorterIsAnError(t *testing.T) {
	for _, text := range []string{entry(1) + "\n", longEntry(2 * bufferLen)} {
		entries := NewEntries(NewLinesAt(strings.NewReader(text), 0, int64(len(text))+5, testLimit), nil)
		var err error
		for err == nil {
			_, err = entries.Next()
		}
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	}
}

func TestReaderThatGivesNothingIsAnError(t *testing.T) {
	_, err := NewLines(stuck{}, testLimit).Next()
	require.ErrorIs(t, err, io.ErrNoProgress)
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

func TestOwnedLinesStay(t *testing.T) {
	text := longEntry(bufferLen+10) + "\n" + longEntry(bufferLen+20) + "\n" + entry(1) + "\n"
	for name, lines := range sources(text, testLimit) {
		first, err := lines.Next()
		require.NoError(t, err)
		require.True(t, first.Owned, name)
		_, err = lines.Next()
		require.NoError(t, err)
		last, err := lines.Next()
		require.NoError(t, err)
		require.False(t, last.Owned, name)
		require.True(t, string(first.Data) == longEntry(bufferLen+10), name)
	}
}

// model is the same thing the plain way.
func model(data []byte, maxLen int) (entries []string, skipped []int64) {
	lines := bytes.Split(data, []byte("\n"))
	if len(lines[len(lines)-1]) == 0 {
		lines = lines[:len(lines)-1]
	}
	for i, line := range lines {
		if len(line) <= maxLen {
			text := bytes.TrimLeft(bytes.TrimRight(line, "\x00\r"), "\x00")
			if jsonscan.Object(text, nil) == nil {
				entries = append(entries, string(text))
				continue
			}
		}
		skipped = append(skipped, int64(i+1))
	}
	return entries, skipped
}

func FuzzEntries(f *testing.F) {
	f.Add([]byte(entry(1)+"\n"+entry(2)), uint16(9))
	f.Add([]byte(entry(1)+"\r\n\x00\x00\n{\n}\nnull\n"), uint16(100))
	f.Add([]byte("\n\n{}\x00\n{\"uuid\":\"\\u0061\"}{}\n"), uint16(3))
	f.Fuzz(func(t *testing.T, data []byte, limit uint16) {
		maxLen := int(limit) + 1
		want, skipped := model(data, maxLen)
		for name, lines := range sources(string(data), maxLen) {
			// A tiny buffer brings out the long way.
			lines.buf = make([]byte, 1+int(limit)%13)
			got := readAll(t, lines)
			require.Equal(t, want, got.entries, name)
			require.Equal(t, skipped, numbers(got.skips), name)
		}
	})
}
