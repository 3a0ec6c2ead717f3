package main

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func wrapped(text string, width int) []string {
	var lines []string
	wrap(text, width, func(l string) { lines = append(lines, l) })
	return lines
}

func TestWrap(t *testing.T) {
	require.Equal(t, []string{"one two", "three"}, wrapped("one two three", 10))
	require.Equal(t, []string{"exactly 10", "more"}, wrapped("exactly 10 more", 10))
	require.Equal(t, []string{"abcdefghij", "klm"}, wrapped("abcdefghijklm", 10))
	require.Equal(t, []string{"    abcdef", "ghi"}, wrapped("    abcdefghi", 10))
	require.Equal(t, []string{"    indent"}, wrapped("    indent  ", 10))
	require.Equal(t, []string{"a", "", "b"}, wrapped("a\n\nb", 10))
	require.Equal(t, []string{"日本語日本", "語"}, wrapped("日本語日本語", 10))
	require.Equal(t, []string{"👩‍👩‍👧 x👩‍👩‍👧 xx", "👩‍👩‍👧"}, wrapped("👩‍👩‍👧 x👩‍👩‍👧 xx 👩‍👩‍👧", 10))
}

func FuzzWrapAndClean(f *testing.F) {
	f.Add("one two three\tfour\x1b[31m\r\n", 12)
	f.Add(strings.Repeat("日", 50)+"\u0301\u0301 \u200d", 10)
	f.Fuzz(func(t *testing.T, text string, width int) {
		width = 10 + (width&0x7fffffff)%100
		c := clean(text)
		if !utf8.ValidString(c) || clean(c) != c {
			t.Fatalf("clean(%q) = %q", text, c)
		}
		var back strings.Builder
		for _, l := range wrapped(c, width) {
			if textWidth(l) > width && utf8.RuneCountInString(l) > 1 {
				t.Fatalf("%q is wider than %d", l, width)
			}
			back.WriteString(l)
		}
		squeeze := func(s string) string { return strings.NewReplacer(" ", "", "\n", "").Replace(s) }
		if squeeze(back.String()) != squeeze(c) {
			t.Fatalf("wrapping lost text: %q became %q", c, back.String())
		}
	})
}

func TestCut(t *testing.T) {
	require.Equal(t, "short", cut("short", 5))
	require.Equal(t, "abc…", cut("abcdef", 4))
	require.Equal(t, "日…", cut("日本語", 4))
	require.Equal(t, "…cde", cutFront("abcde", 4))
	require.Equal(t, "abcde", cutFront("abcde", 5))
}

func TestFormats(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Hour: "0s", 59 * time.Second: "59s", 90 * time.Second: "1m", 47 * time.Hour: "47h", 49 * time.Hour: "2d",
		150 * 24 * time.Hour: "4mo", 800 * 24 * time.Hour: "2y",
	} {
		require.Equal(t, want, age(d))
	}
	for n, want := range map[int64]string{
		0: "0 B", 999: "999 B", 1000: "1.0 kB", 9949: "9.9 kB", 10_000: "10 kB", 999_499: "999 kB", 999_500: "1.0 MB", 5e12: "5.0 TB", 5e15: "5.0 PB",
	} {
		require.Equal(t, want, size(n))
	}
	require.Equal(t, "-1,234,567", number(-1234567))
	require.Equal(t, "100", number(100))
	require.Equal(t, "1 entry", plural(1, "entry"))
	require.Equal(t, "2 entries", plural(2, "entry"))
	require.Equal(t, "0 sessions", plural(0, "session"))
	for _, bad := range []string{"", "d", "30", "-1d", "1.5h", "99999999999999w", "30x"} {
		_, err := parseAge(bad)
		require.Error(t, err, bad)
	}
	d, err := parseAge("2w")
	require.NoError(t, err)
	require.Equal(t, 14*24*time.Hour, d)
	require.Equal(t, `'it'\''s here'`, quoteShell("it's here"))
	require.Equal(t, "file:/tmp/x-1", quoteShell("file:/tmp/x-1"))
	require.Equal(t, "''", quoteShell(""))
}

// Anything worse than linear would not end before the test times out.
func TestMegabyteLinesAreWrapped(t *testing.T) {
	for _, unit := range []string{"x", "word ", "日本 ", "\x1b[31m\x01"} {
		text := clean(strings.Repeat(unit, 1<<20/len(unit)))
		n := 0
		wrap(text, 80, func(string) { n++ })
		require.Positive(t, n)
	}
}

func TestInvisibleCharactersBecomeVisible(t *testing.T) {
	for _, r := range "\u00AD\u034F\u180E\u200B\u2060\u2064\u206A\uFEFF\uFFF9\uFFFA\uFFFB\U000E0001\U000E0041\U000E007F" {
		require.Equal(t, "a\uFFFDb", clean("a"+string(r)+"b"), "%U", r)
	}
	for _, s := range []string{"a\u200Db", "a\u200Cb", "日\u200D", "\u200D日", "日\u200D ", "日\u200D\u200B"} {
		require.NotContains(t, clean(s), "\u200D", "%q", s)
		require.Contains(t, clean(s), "\uFFFD", "%q", s)
	}
	for _, s := range []string{"👩‍👩‍👧", "👩🏽‍🚀 ❤️‍🔥", "می\u200Cخواهم", "क्\u200Dष"} {
		require.Equal(t, s, clean(s))
	}
}
