package sessionstore_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
)

func TestKeyValidateNamesTheFieldAndTheLimit(t *testing.T) {
	long := strings.Repeat("x", sessionstore.MaxSegmentLen)
	for want, k := range map[string]sessionstore.Key{
		"project key is empty":                                           key("", "s"),
		"session id is empty":                                            key("p", ""),
		`session id "a\x00b" holds a NUL byte`:                           key("p", "a\x00b"),
		`project key "\xff" is not valid UTF-8`:                          key("\xff", "s"),
		`subpath "a/..sub/.." has the segment ".."`:                      key("p", "s", "a/..sub/.."),
		`subpath "./a" has the segment "."`:                              key("p", "s", "./a"),
		`subpath "a/" has the segment ""`:                                key("p", "s", "a/"),
		`subpath "/a" has the segment ""`:                                key("p", "s", "/a"),
		`subpath segment "\x00" holds a NUL byte`:                        key("p", "s", "\x00"),
		"project key has 241 bytes after escaping, the limit is 240":     key(long+"x", "s"),
		"session id has 243 bytes after escaping, the limit is 240":      key("p", strings.Repeat("é", 40)+":"),
		"subpath segment has 241 bytes after escaping, the limit is 240": key("p", "s", "a/"+long+"x"),
		"key has 801 bytes after escaping, the limit is 800":             key(long, long, long+"/"+strings.Repeat("y", 78)),
	} {
		err := k.Validate()
		require.ErrorIs(t, err, sessionstore.ErrInvalidKey)
		require.EqualError(t, err, "invalid key: "+want)
	}
}

func TestKeyValidateAcceptsWhatEveryBackendCanHold(t *testing.T) {
	long := strings.Repeat("x", sessionstore.MaxSegmentLen)
	for _, k := range []sessionstore.Key{
		key("p", "s"), key("..", "."), key("a/b", "../x"), key("p", "--version"), key("{x}", "*"),
		key("p", "a\nb"), key("p", "s", "subagents/workflows/wf_1/agent-2"), key("p", "s", "..a/b"),
		key("é", "e\u0301"), key("p", `C:\x`), key(long, long, long+"/"+strings.Repeat("y", 77)),
	} {
		require.NoError(t, k.Validate(), "%v", k)
	}
}

func TestKeyString(t *testing.T) {
	for want, k := range map[string]sessionstore.Key{
		"p/s":                   key("p", "s"),
		"p/s#subagents/agent-1": key("p", "s", "subagents/agent-1"),
		`"a/b"/"c d"#"é"/x`:     key("a/b", "c d", "é/x"),
		"p":                     key("p"),
		`""/s`:                  key("", "s"),
	} {
		require.Equal(t, want, k.String())
	}
	require.Less(t, len(key("p", strings.Repeat("\x00", 1<<20)).String()), 2000, "errors stay readable")
}
