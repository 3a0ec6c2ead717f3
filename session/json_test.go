package session

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore/internal/jsonscan"
)

func TestTruthyIsThatOfJavaScript(t *testing.T) {
	for value, want := range map[string]bool{
		``: false, `null`: false, `false`: false, `0`: false, `-0.0`: false, `0e5`: false, `""`: false,
		`true`: true, `1`: true, `-2`: true, `1e400`: true, `"0"`: true, `[]`: true, `{}`: true,
	} {
		require.Equal(t, want, truthy([]byte(value)), value)
	}
}

func FuzzMembersAgreeWithEncodingJSON(f *testing.F) {
	for _, s := range []string{
		`{}`, ` { "a" : 1 , "b":[ 1 , "x]" , {"y":"}"} ] } `, `{"a":"\\\"","\u0061":true}`, `{"":null,"n":-0.5e+3}`, `{"a":[[],{},""]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if jsonscan.Object(data, nil) != nil {
			return
		}
		object := data[jsonscan.SkipSpace(data, 0):]
		got := map[string]string{}
		members(object, func(m member) {
			value := object[m.valueStart:m.valueEnd]
			if isArray(value) {
				var list []string
				elements(value, func(start, end int) { list = append(list, string(value[start:end])) })
				require.True(t, jsonscan.Equal(value, []byte("["+strings.Join(list, ",")+"]")), "%s", value)
			}
			got[text(object[m.keyStart:m.keyEnd])] = string(value)
		})
		var want map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(data, &want))
		require.Len(t, got, len(want))
		for k, v := range want {
			require.Equal(t, string(v), got[k])
		}
		require.Equal(t, string(data), string(rewrite(data, []change{{name: "never there", remove: true}})))
	})
}
