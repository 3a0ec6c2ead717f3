package keyenc

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEncode(t *testing.T) {
	for in, want := range map[string]string{
		"-home-dev-proj":                       "-home-dev-proj",
		"d6539f4a-c309-4c8e-9a65-6e4746f7faab": "d6539f4a-c309-4c8e-9a65-6e4746f7faab",
		"agent-a9a9b3d18adf187e1":              "agent-a9a9b3d18adf187e1",
		"wf_12345678-abc":                      "wf_12345678-abc",
		"v1.2":                                 "v1.2",
		".":                                    "!2E",
		"..":                                   "!2E!2E",
		"...":                                  "!2E.!2E",
		"a/b":                                  "a!2Fb",
		"a:b":                                  "a!3Ab",
		"!2F":                                  "!212F",
		"%2F":                                  "!252F",
		"{x}":                                  "!7Bx!7D",
		"*":                                    "!2A",
		"x.jsonl":                              "x!2Ejsonl",
		"x.meta.json":                          "x!2Emeta.json",
		".jsonl":                               "!2Ejsonl",
		"part-0000000000001-abcdef.jsonl":      "!70art-0000000000001-abcdef!2Ejsonl",
		"é":                                    "!C3!A9",
	} {
		require.Equal(t, want, Encode(in), "Encode(%q)", in)
		require.Equal(t, len(want), Len(in), "Len(%q)", in)
	}
}

func TestDecodeRefusesWhatEncodeDoesNotProduce(t *testing.T) {
	for _, name := range []string{
		"", "a b", "a!2", "a!", "a!zz", "a!2f", "!41", ".hidden", "x.jsonl", "a/b", "part-1", "é", "x.",
	} {
		_, err := Decode(name)
		require.ErrorIs(t, err, ErrName, "Decode(%q)", name)
	}
	for _, path := range []string{"a//b", "/a", "a/", "a/../b", "a!2Fb"} {
		_, err := DecodePath(path)
		require.ErrorIs(t, err, ErrName, "DecodePath(%q)", path)
	}
}

func FuzzEncodeRoundTrip(f *testing.F) {
	for _, s := range []string{"a", "..", "a/b", "x.jsonl", "é", "!2F", "part-1", "a.meta.json", "\x00", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		enc := Encode(s)
		require.Len(t, enc, Len(s))
		for i := range len(enc) {
			require.True(t, plain(enc[i]) || enc[i] == '!', "unsafe byte in %q", enc)
		}
		if s == "" {
			return
		}
		require.NotContains(t, []string{".", ".."}, enc)
		got, err := Decode(enc)
		require.NoError(t, err)
		require.Equal(t, s, got)
		// What Decode accepts is what Encode produces: the map is one to one.
		if dec, err := Decode(s); err == nil {
			require.Equal(t, s, Encode(dec))
		}
	})
}

func FuzzEncodePathRoundTrip(f *testing.F) {
	for _, s := range []string{"a/b", "subagents/agent-1", "a//b", "../x", "a/x.jsonl/b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		enc := EncodePath(s)
		require.Len(t, enc, PathLen(s))
		got, err := DecodePath(enc)
		if s == "" || strings.HasPrefix(s, "/") || strings.HasSuffix(s, "/") || strings.Contains(s, "//") {
			require.Error(t, err, "empty segments are not keys")
			return
		}
		require.NoError(t, err)
		require.Equal(t, s, got)
	})
}
