package jsonscan

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestObjectReportsTopLevelMembersAsTheyStand(t *testing.T) {
	var got []string
	err := Object([]byte(" {\"a\" : 1.0 ,\"b\":{\"a\":[2,{}]},\"\\u0063\":\"x\\\"\" , \"a\":[ ]}\n"), func(k, v []byte) {
		got = append(got, string(k)+"="+string(v))
	})
	require.NoError(t, err)
	require.Equal(t, []string{`"a"=1.0`, `"b"={"a":[2,{}]}`, `"\u0063"="x\""`, `"a"=[ ]`}, got)
}

func TestObjectSaysWhatIsWrongAndWhere(t *testing.T) {
	for in, want := range map[string]string{
		``:                        "empty at byte 0",
		`  `:                      "empty at byte 2",
		`null`:                    "not a JSON object at byte 0",
		`[]`:                      "not a JSON object at byte 0",
		`{"a":1`:                  "unexpected end at byte 6",
		`{"a":1}{`:                "more text after the object at byte 7",
		`{"a":01}`:                "expected a comma or the end of the container at byte 6",
		`{"a":-}`:                 "invalid number at byte 5",
		`{"a":1.}`:                "invalid number at byte 5",
		`{"a":"` + "\xff" + `"}`:  "invalid UTF-8 at byte 6",
		"{\"a\":\"\x01\"}":        "raw control character in a string at byte 6",
		`{"a":"\x"}`:              "invalid escape at byte 6",
		`{"a":"\ud83"}`:           "invalid escape at byte 6",
		`{"a":tru}`:               "invalid value at byte 5",
		`{"a":[1}`:                "expected a comma or the end of the container at byte 7",
		`{"a":1,}`:                "expected a key at byte 7",
		`{"a" 1}`:                 "expected a colon at byte 5",
		`{"a":"` + "\xed\xa0\x80": "invalid UTF-8 at byte 6",
	} {
		err := Object([]byte(in), nil)
		require.EqualError(t, err, want, "Object(%q)", in)
	}
}

func TestDepthLimitIsThatOfEncodingJSON(t *testing.T) {
	for _, depth := range []int{MaxDepth - 1, MaxDepth, MaxDepth + 1} {
		text := []byte(`{"a":` + strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + `}`)
		require.Equal(t, json.Valid(text), Object(text, nil) == nil, "depth %d", depth)
	}
}

func TestUnquoteKeepsDifferentTextsDifferent(t *testing.T) {
	for in, want := range map[string]string{
		`"abc"`:                "abc",
		`"\u0061\n\/"`:         "a\n/",
		`"\ud83d\ude00"`:       "😀",
		`"\ud83d"`:             "\xed\xa0\xbd",
		`"\ude00\ud83d"`:       "\xed\xb8\x80\xed\xa0\xbd",
		`"\ud83dx"`:            "\xed\xa0\xbdx",
		`"\ud83d\u0041"`:       "\xed\xa0\xbdA",
		`"\\u0000"`:            `\u0000`,
		`"\u0000"`:             "\x00",
		`"\ufffd"`:             "\uFFFD",
		`"\ud83d\ud83d\ude00"`: "\xed\xa0\xbd😀",
	} {
		require.Equal(t, want, string(Unquote([]byte(in))), "Unquote(%s)", in)
	}
}

func TestEqual(t *testing.T) {
	equal := [][2]string{
		{`{"a":1,"b":2}`, ` { "b" : 2 , "a" : 1 } `},
		{`{"n":1e2}`, `{"n":100}`},
		{`{"n":1.50}`, `{"n":15e-1}`},
		{`{"n":1e400}`, `{"n":10E+399}`},
		{`{"n":0e5}`, `{"n":0.0}`},
		{`{"s":"a/\u00e9"}`, `{"s":"\u0061\/é"}`},
		{`{"a":[ 1 , [ ] , { } ]}`, `{"a":[1,[],{}]}`},
		{`{"k":1,"x":0,"k":2}`, `{"x":0,"k":1,"k":2}`},
	}
	for _, p := range equal {
		require.True(t, Equal([]byte(p[0]), []byte(p[1])), "%s and %s", p[0], p[1])
	}
	different := [][2]string{
		{`{"n":9007199254740993}`, `{"n":9007199254740992}`},
		{`{"n":-0.0}`, `{"n":0.0}`},
		{`{"n":1e999999999999999999999}`, `{"n":1e999999999999999999998}`},
		{`{"k":1,"k":2}`, `{"k":2}`},
		{`{"k":1,"k":2}`, `{"k":2,"k":1}`},
		{`{"s":"\ud83d"}`, `{"s":"\ufffd"}`},
		{`{"s":"\\u0000"}`, `{"s":"\u0000"}`},
		{`{"a":[1,2]}`, `{"a":[2,1]}`},
		{`{"a":"1"}`, `{"a":1}`},
		{`{"a":"\",\""}`, `{"a":"","b":""}`},
		{`{"a":null}`, `{}`},
		{`{"a":[[]]}`, `{"a":[]}`},
	}
	for _, p := range different {
		require.False(t, Equal([]byte(p[0]), []byte(p[1])), "%s and %s", p[0], p[1])
	}
}

func FuzzObjectAgreesWithEncodingJSON(f *testing.F) {
	for _, s := range []string{
		`{"uuid":"u","type":"user"}`, `{"\u0075uid":"x","uuid":1}`, `{"a":[1,-0.5e+3,{"b":null}]}`,
		` {"a":"\ud83d\u0000"} `, `{"a":"é😀"}`, `{}`, `[]`, `{"a":1,}`, "{\"a\":\"12345678\x1f\"}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var uuid, typ any
		err := Object(data, func(k, v []byte) {
			if KeyIs(k, "uuid") {
				uuid = text(v)
			}
			if KeyIs(k, "type") {
				typ = text(v)
			}
		})
		want := utf8.Valid(data) && json.Valid(data) && bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{"))
		require.Equal(t, want, err == nil, "%q: %v", data, err)
		if !want {
			return
		}
		var std map[string]any
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		require.NoError(t, dec.Decode(&std))
		for name, got := range map[string]any{"uuid": uuid, "type": typ} {
			if s, ok := std[name].(string); ok {
				// encoding/json replaces lone surrogates, byte by byte here.
				require.Equal(t, s, strings.ToValidUTF8(got.(string), "\uFFFD"), "%s of %s", name, data)
			} else {
				require.Nil(t, got, "%s of %s", name, data)
			}
		}
		require.True(t, Equal(data, append([]byte(" "), data...)))
	})
}

func text(v []byte) any {
	if !IsString(v) {
		return nil
	}
	return string(Unquote(v))
}

func BenchmarkObject(b *testing.B) {
	entry := []byte(`{"parentUuid":"x","uuid":"y","type":"user","message":{"role":"user","content":"` + strings.Repeat("lorem ipsum dolor ", 110) + `"}}`)
	b.SetBytes(int64(len(entry)))
	for b.Loop() {
		if err := Object(entry, func(k, v []byte) {}); err != nil {
			b.Fatal(err)
		}
	}
}
