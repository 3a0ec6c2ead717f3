package sessionstore_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
)

func TestEntryFields(t *testing.T) {
	e := sessionstore.Entry(`{"uuid":"old","type":"user","x":{"uuid":"inner"},"timestamp":"2026-01-02T03:04:05.678Z","\u0075uid":"n\u0065w"}`)
	require.NoError(t, e.Validate())
	require.Equal(t, "user", e.Type())
	require.Equal(t, "new", e.UUID(), "the last one counts, however it is spelled")
	at, ok := e.Timestamp()
	require.True(t, ok)
	require.Equal(t, time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC), at)
}

func TestEntryFieldsThatAreNoStringsAreEmpty(t *testing.T) {
	for _, text := range []string{
		`{}`, `{"uuid":null,"type":1,"timestamp":5}`, `{"uuid":"a","uuid":7,"type":"b","type":[]}`,
		`{"UUID":"a","Type":"b","Timestamp":"2026-01-02T03:04:05Z"}`, `{"timestamp":"yesterday"}`, `not JSON`, ``,
	} {
		e := sessionstore.Entry(text)
		require.Empty(t, e.UUID(), text)
		require.Empty(t, e.Type(), text)
		_, ok := e.Timestamp()
		require.False(t, ok, text)
	}
}

func TestCheckNamesTheFaultyEntry(t *testing.T) {
	for text, want := range map[string]string{
		`[1]`:                   "entry 2 of 2: invalid entry: not a JSON object at byte 0",
		``:                      "entry 2 of 2: invalid entry: empty at byte 0",
		"{\"a\":\"\xff\"}":      "entry 2 of 2: invalid entry: invalid UTF-8 at byte 6",
		`{"a":1} {"b":2}`:       "entry 2 of 2: invalid entry: more text after the object at byte 8",
		`{"a":"x" "y"}`:         "entry 2 of 2: invalid entry: expected a comma or the end of the container at byte 9",
		"\xef\xbb\xbf{\"a\":1}": "entry 2 of 2: invalid entry: not a JSON object at byte 0",
	} {
		batch, err := sessionstore.Check(key("p", "s"), entries(`{"ok":1}`, text))
		require.ErrorIs(t, err, sessionstore.ErrInvalidEntry)
		require.EqualError(t, err, want)
		require.Nil(t, batch)
	}
	_, err := sessionstore.Check(key("p", ""), nil)
	require.ErrorIs(t, err, sessionstore.ErrInvalidKey)
}

func TestCheckRefusesAnEntryThatIsTooLong(t *testing.T) {
	e := sessionstore.Entry(`{"x":"` + strings.Repeat("x", sessionstore.MaxEntryLen) + `"}`)
	_, err := sessionstore.Check(key("p", "s"), []sessionstore.Entry{e})
	require.ErrorIs(t, err, sessionstore.ErrInvalidEntry)
	require.ErrorContains(t, err, "the limit is 268435456")
}

func TestCheckGivesOneLineAndTheIdentity(t *testing.T) {
	batch, err := sessionstore.Check(key("p", "s"), entries("{\r\n\"uuid\": \"a\",\n \"type\":\"user\"}\n", `{"uuid":""}`))
	require.NoError(t, err)
	require.Equal(t, `{"uuid": "a", "type":"user"}`, string(batch[0].Line))
	require.Equal(t, "a", string(batch[0].UUID))
	require.Equal(t, "user", string(batch[0].Type))
	require.Empty(t, batch[1].UUID)
}

func TestEntryEqual(t *testing.T) {
	require.True(t, sessionstore.Entry(`{"a":1e2,"b":1}`).Equal(sessionstore.Entry("{\"b\":1.0,\n\"a\":100}")))
	require.False(t, sessionstore.Entry(`{"a":9007199254740993}`).Equal(sessionstore.Entry(`{"a":9007199254740992}`)))
	require.True(t, sessionstore.Entry("broken").Equal(sessionstore.Entry("broken")))
	require.False(t, sessionstore.Entry("broken").Equal(sessionstore.Entry("broken ")))
}

func TestEntryInsideOtherJSONKeepsItsText(t *testing.T) {
	type frame struct {
		Entries []sessionstore.Entry `json:"entries"`
	}
	text := `{"entries":[{"n":1.0,"k":1,"k":2,"s":"\ud83d"},{"big":12345678901234567890}]}`
	var f frame
	require.NoError(t, json.Unmarshal([]byte(text), &f))
	require.Equal(t, `{"n":1.0,"k":1,"k":2,"s":"\ud83d"}`, f.Entries[0].String())
	out, err := json.Marshal(f)
	require.NoError(t, err)
	require.Equal(t, text, string(out))
}

func FuzzCheckKeepsTheValue(f *testing.F) {
	f.Add([]byte("{\"a\":\n[1,\r\n2]}"))
	f.Add([]byte(`{"uuid":"\ud800","type":"user"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		original := bytes.Clone(data)
		batch, err := sessionstore.Check(key("p", "s"), []sessionstore.Entry{data})
		require.Equal(t, original, data, "the caller's bytes are not touched")
		if err != nil {
			return
		}
		require.NotContains(t, string(batch[0].Line), "\n")
		require.True(t, batch[0].Line.Equal(original))
		require.Equal(t, string(batch[0].UUID), batch[0].Line.UUID())
	})
}

func BenchmarkCheck20x2KB(b *testing.B) {
	var batch []sessionstore.Entry
	size := 0
	for range 20 {
		e := sessionstore.Entry(`{"parentUuid":"0a63a0b5-1df6-4d4d-9ae6-9a5e1e0e9b1f","uuid":"d6539f4a-c309-4c8e-9a65-6e4746f7faab","type":"user","message":{"role":"user","content":"` + strings.Repeat("lorem ipsum dolor ", 105) + `"}}`)
		batch = append(batch, e)
		size += len(e)
	}
	b.SetBytes(int64(size))
	for b.Loop() {
		if _, err := sessionstore.Check(key("p", "s"), batch); err != nil {
			b.Fatal(err)
		}
	}
}
