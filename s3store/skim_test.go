package s3store

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// skim agrees with scan about every entry that scan accepts.
func FuzzSkim(f *testing.F) {
	for _, text := range []string{
		`{}`, `{"uuid":"a"}`, `{"uuid":"a","uuid":"b"}`, `{"uuid":"a","uuid":7}`, `{"uuid":["a"]}`, `{"uuid":{"uuid":"a"}}`,
		`{"a":{"uuid":"x"},"b":["uuid","uuid"],"uuid" : "y\"\\"}`, `{"\u0075uid":"\u0061"}`, `{"a":"uuid","b":"\\\"uuid\":"}`,
		`{"a":[1,{"uuid":"x"},"uuid"],"uuid":""}`, ` { "uuid" : "a" , "b" : "," } `, `{"uuid":"a","b":{"uuid":"c"},"d":[]}`,
		`{"a":"x\"uuid","b":1}`, `{"a":"x\\"uuid","uuid":"c"}`, `{"uu\u0069d":"a","b":"uuid"}`, `{"b":["uuid"],"c":"d"}`, `{"uuid"	:	"a"}`,
		`{"a":{"b":{"uuid":"c"}},"d":"long enough to be the longer side"}`, `{"long":"enough to be the longer side","a":{"uuid":"c"}}`,
		`{"":"uuid","uuid":null}`, `"uuid"}`, `{"a":"\\","uuid":"b"}`, `{"a":"\\\"","uuid":"b"}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		want, err := scan(data)
		got, skimErr := skim(data)
		if err == nil {
			require.NoError(t, skimErr)
			require.Equal(t, want, got)
			got, err = walk(data)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	})
}

func TestWalkFindsWhatIsCutOff(t *testing.T) {
	for _, text := range []string{``, `{`, `{"a":"b}`, `{"a":"\"`, `{"a":[}`, `}`} {
		_, err := walk([]byte(text))
		require.Error(t, err, text)
	}
}
