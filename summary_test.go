package sessionstore_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/jsonscan"
)

// recordedFold is the official SDK's summary after an append.
type recordedFold struct {
	AppendLine int                         `json:"append_line"`
	Summary    sessionstore.SessionSummary `json:"summary"`
}

func TestFoldAgreesWithRecordedSessions(t *testing.T) {
	files, err := filepath.Glob("testdata/transcripts/*/folds.jsonl")
	require.NoError(t, err)
	require.Len(t, files, 6)
	for _, file := range files {
		dir := filepath.Dir(file)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			type batch struct {
				Key     struct{ SessionID, Subpath string }
				Entries []sessionstore.Entry
			}
			appends := decodeLines[batch](t, filepath.Join(dir, "appends.jsonl"))
			states := map[string]json.RawMessage{}
			done := 0
			for _, want := range decodeLines[recordedFold](t, file) {
				id := want.Summary.SessionID
				for ; done <= want.AppendLine; done++ {
					if b := appends[done]; b.Key.Subpath == "" {
						states[b.Key.SessionID] = fold(t, states[b.Key.SessionID], b.Entries...)
					}
				}
				require.JSONEq(t, string(want.Summary.Data), string(states[id]), "after append %d", want.AppendLine)
			}
		})
	}
}

func TestFoldAgreesWithRecordedAnswersToMadeUpTranscripts(t *testing.T) {
	compared := 0
	for _, tr := range madeUpTranscripts(t) {
		var state json.RawMessage
		at := 0
		for i, n := range tr.Batches {
			state = fold(t, state, tr.Entries[at:at+n]...)
			at += n
			requireSameJSON(t, tr.Folds[i].Data, state, "transcript %d after batch %d", tr.ID, i)
			compared++
		}
	}
	require.Equal(t, 519, compared)
}

func TestFoldRules(t *testing.T) {
	user := func(content string) string { return `{"type":"user","message":{"content":` + content + `}}` }
	x200 := strings.Repeat("x", 200)
	for _, c := range []struct {
		name    string
		entries []string
		want    string // without isSidechain, which is false
	}{
		{"no fields", []string{`{}`}, `{}`},
		{"created at first readable timestamp", []string{`{"timestamp":"soon"}`, `{"timestamp":5}`, `{"timestamp":"2023-11-14T22:13:21.5Z"}`, `{"timestamp":"2020-01-01"}`}, `{"createdAt":1700000001500}`},
		{"cwd first non-empty string", []string{`{"cwd":""}`, `{"cwd":7}`, `{"cwd":"/a"}`, `{"cwd":"/b"}`}, `{"cwd":"/a"}`},
		{"last string wins on any type", []string{`{"customTitle":"a","aiTitle":"b","lastPrompt":"c","summary":"d","gitBranch":"e"}`, `{"type":"x","customTitle":"A","aiTitle":"B","lastPrompt":"C","summary":"D","gitBranch":"E"}`}, `{"customTitle":"A","aiTitle":"B","lastPrompt":"C","summaryHint":"D","gitBranch":"E"}`},
		{"empty string counts", []string{`{"customTitle":"a","gitBranch":"b"}`, `{"customTitle":"","gitBranch":""}`}, `{"customTitle":"","gitBranch":""}`},
		{"other types are passed over", []string{`{"customTitle":"a"}`, `{"customTitle":null}`, `{"customTitle":3}`, `{"customTitle":["b"]}`}, `{"customTitle":"a"}`},
		{"repeated key counts last", []string{`{"customTitle":"a","customTitle":"b"}`, `{"aiTitle":"a","aiTitle":null}`}, `{"customTitle":"b"}`},
		{"escaped key and type", []string{`{"\u0074ype":"t\u0061g","tag":"x"}`}, `{"tag":"x"}`},
		{"keys by exact case", []string{`{"CWD":"/a","customtitle":"b"}`}, `{}`},
		{"lone surrogate stays", []string{`{"customTitle":"\ud83d"}`}, `{"customTitle":"\ud83d"}`},
		{"tag only on its type", []string{`{"type":"user","tag":"a"}`}, `{}`},
		{"tag last", []string{`{"type":"tag","tag":"a"}`, `{"type":"tag","tag":"b"}`, `{"type":"user","tag":"c"}`}, `{"tag":"b"}`},
		{"tag cleared by empty", []string{`{"type":"tag","tag":"a"}`, `{"type":"tag","tag":""}`}, `{}`},
		{"tag cleared by absence", []string{`{"type":"tag","tag":"a"}`, `{"type":"tag"}`}, `{}`},
		{"tag cleared by null", []string{`{"type":"tag","tag":"a"}`, `{"type":"tag","tag":null}`}, `{}`},

		{"prompt from string", []string{user(`"hi"`), user(`"later"`)}, prompt(`hi`)},
		{"prompt from blocks", []string{user(`[{"type":"image","text":"no"},"no",7,{"type":"text","text":5},{"type":"text","text":" "}, {"type":"text","text":"yes"} ]`)}, prompt(`yes`)},
		{"prompt of users only", []string{`{"type":"assistant","message":{"content":"a"}}`, `{"message":{"content":"b"}}`}, `{}`},
		{"no message", []string{`{"type":"user"}`, `{"type":"user","message":"x"}`, `{"type":"user","message":[]}`, user(`{}`), user(`null`), user(`[]`), user(`[[]]`)}, `{}`},
		{"meta and compact summary", []string{`{"type":"user","isMeta":true,"message":{"content":"a"}}`, `{"type":"user","isCompactSummary":true,"message":{"content":"b"}}`}, `{}`},
		{"meta that is not true", []string{`{"type":"user","isMeta":1,"isCompactSummary":"true","message":{"content":"a"}}`}, prompt(`a`)},
		{"sidechain and team are not skipped", []string{`{"type":"user","teamName":"t","isSidechain":false,"message":{"content":"a"}}`}, prompt(`a`)},
		{"tool result anywhere", []string{user(`[{"type":"text","text":"a"},{"type":"tool_result","content":[{"type":"text","text":"]"}]}]`)}, `{}`},
		{"quotes and brackets in blocks", []string{user(`[{"a":"\\\""},"]\\","\"]",{"b":[["}"]]},{"type":"text","text":"c"}]`)}, prompt(`c`)},
		{"tool result inside a block", []string{user(`[{"type":"text","text":"a","x":{"type":"tool_result"}}]`)}, prompt(`a`)},
		{"lines become spaces", []string{user(`"\n a\n\nb\r\n"`)}, prompt(`a  b`)},
		{"white space of JavaScript", []string{user(`"\u00a0\ufeff\u2028\u1680\u000b"`), user(`"\u0085 "`)}, prompt(`\u0085`)},
		{"command", []string{user(`"<command-name>/a</command-name>"`), user(`"x <command-name> /b </command-name>"`)}, `{"commandFallback":"/a"}`},
		{"command then prompt", []string{user(`[{"type":"text","text":"<command-name>/a</command-name>"},{"type":"text","text":"b"}]`)}, `{"commandFallback":"/a","firstPrompt":"b","firstPromptLocked":true}`},
		{"command without a name", []string{user(`"<command-name></command-name>"`)}, `{"commandFallback":""}`},
		{"command after one without a name", []string{user(`"<command-name></command-name>"`), user(`"<command-name>/b</command-name>"`)}, `{"commandFallback":"/b"}`},
		{"command after prompt", []string{user(`"a"`), user(`"<command-name>/b</command-name>"`)}, prompt(`a`)},
		{"command over two lines", []string{user(`"<command-name>a\nb</command-name>"`)}, `{"commandFallback":"a b"}`},
		{"command over a line separator", []string{user(`"<command-name>a\u2028<command-name>b</command-name>"`)}, `{"commandFallback":"b"}`},
		{"no command over a line separator", []string{user(`"<command-name>a\rb</command-name>"`)}, prompt(`<command-name>a\rb</command-name>`)},
		{"bash", []string{user(`"<bash-input> ls\n-l </bash-input>"`)}, prompt(`! ls -l`)},
		{"bash without input", []string{user(`"<bash-input> </bash-input>"`)}, `{}`},
		{"bash not closed", []string{user(`"<bash-input>ls"`)}, prompt(`<bash-input>ls`)},
		{"noise", []string{user(`"<local-command-stdout>a"`), user(`" <session-start-hook>"`), user(`"<tick>1</tick>"`), user(`"<goal>g"`), user(`"<system-reminder>r"`), user(`"[Request interrupted by user]"`), user(`"[Request interrupted by user for tool use] more"`), user(`"<ide_opened_file>a</ide_opened_file>"`), user(`" <ide_selection>a\nb</ide_selection>\n"`)}, `{}`},
		{"noise not at the start", []string{user(`"a <tick>"`)}, prompt(`a <tick>`)},
		{"interruption not closed", []string{user(`"[Request interrupted by user"`)}, prompt(`[Request interrupted by user`)},
		{"element with more behind it", []string{user(`"<ide_selection>a</ide_selection> b"`)}, prompt(`<ide_selection>a</ide_selection> b`)},
		{"tags that overlap", []string{user(`"<ide_selection></ide_selectio"`)}, prompt(`<ide_selection></ide_selectio`)},
		{"200 units", []string{user(`"` + x200 + `"`)}, prompt(x200)},
		{"201 units", []string{user(`"` + x200 + `y"`)}, prompt(x200 + `…`)},
		{"space before the cut", []string{user(`"` + x200[:190] + strings.Repeat(" ", 20) + `y"`)}, prompt(x200[:190] + `…`)},
		{"units are not bytes", []string{user(`"` + strings.Repeat("é", 200) + `"`)}, prompt(strings.Repeat("é", 200))},
		{"100 pairs", []string{user(`"` + strings.Repeat("😀", 100) + `"`)}, prompt(strings.Repeat("😀", 100))},
		{"101 pairs", []string{user(`"` + strings.Repeat("😀", 101) + `"`)}, prompt(strings.Repeat("😀", 100) + `…`)},
		{"cut in a pair", []string{user(`"` + x200[:199] + `😀"`)}, prompt(x200[:199] + `\ud83d…`)},
		{"lone surrogates in a prompt", []string{user(`"\ude00\ud83d\n\ude00"`)}, prompt(`\ude00\ud83d \ude00`)},
		{"escapes in a prompt", []string{user(`"a\"\\\t\u0000\u2028<"`)}, prompt(`a\"\\\t\u0000\u2028<`)},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			var entries []sessionstore.Entry
			for _, e := range c.entries {
				require.NoError(t, sessionstore.Entry(e).Validate(), e)
				entries = append(entries, sessionstore.Entry(e))
			}
			want := strings.Replace(`{"isSidechain":false,`+c.want[1:], ",}", "}", 1)
			requireSameJSON(t, []byte(want), fold(t, nil, entries...), "fold")
		})
	}
}

func prompt(text string) string {
	return `{"firstPrompt":"` + text + `","firstPromptLocked":true}`
}

func TestSidechainIsThatOfTheVeryFirstEntry(t *testing.T) {
	for entries, want := range map[string]string{
		`{"type":"mode","isSidechain":true} {"isSidechain":false}`: `{"isSidechain":true}`,
		`{"type":"mode"} {"isSidechain":true}`:                     `{"isSidechain":false}`,
		`{"isSidechain":"true"}`:                                   `{"isSidechain":false}`,
	} {
		var state sessionstore.SummaryState
		for e := range strings.FieldsSeq(entries) {
			state.Fold(sessionstore.Entry(e))
		}
		got, err := state.MarshalJSON()
		require.NoError(t, err)
		require.Equal(t, want, string(got), entries)
	}
}

// The times are what Date.parse of Node.js 20 says where TZ is UTC.
func TestTimestampsAreReadAsJavaScriptReadsThem(t *testing.T) {
	for text, want := range map[string]int64{
		"2023": 1672531200000, "2023-11": 1698796800000, "2023-11-14": 1699920000000,
		"2023-11-14T22:13":                    1699999980000,
		"2023-11-14T22:13:21":                 1700000001000,
		"2023-11-14 22:13:21":                 1700000001000,
		"2023-11-14t22:13:21z":                1700000001000,
		"2023-11-14T22:13:21.1Z":              1700000001100,
		"2023-11-14T22:13:21.123456789Z":      1700000001123,
		"2023-11-14T22:13:21.99999999999999Z": 1700000001999,
		"2023-11-14T22:13:21+01:00":           1699996401000,
		"2023-11-14T22:13:21+0100":            1699996401000,
		"2023-11-14T22:13:21-23:59":           1700086341000,
		"2023-11-14T24:00Z":                   1700006400000,
		"2023-11-14T24:00:00.000+01:00":       1700002800000,
		"2023-02-29T00:00:00Z":                1677628800000,
		"2023-02-31":                          1677801600000,
		"2023T22:13Z":                         1672611180000,
		"1969-12-31T23:59:59.9999Z":           -1,
		"0000-01-01":                          -62167219200000,
		"-000001-01-01T00:00Z":                -62198755200000,
		"+002023-11-14T00:00Z":                1699920000000,
		"+275760-09-13T00:00:00.000Z":         8640000000000000,
		"-271821-04-20T00:00:00Z":             -8640000000000000,
	} {
		got := fold(t, nil, sessionstore.Entry(fmt.Sprintf(`{"timestamp":%q}`, text)))
		require.JSONEq(t, fmt.Sprintf(`{"isSidechain":false,"createdAt":%d}`, want), string(got), text)
	}
	for _, text := range []string{
		"", "soon", "2023-11-14T", "2023-11-14T22Z", "2023-11-14TZ", "2023-11-14T2:13:21Z", "2023-11-14T22:13.5Z",
		"2023-11-14T22:13:21.Z", "2023-11-14T22:13:21,5Z", "2023-11-14T22:13:21+01", "2023-11-14T22:13:21+24:00",
		"2023-11-14T22:13:21+01:60", "2023-11-14T24:00:01Z", "2023-11-14T24:00:00.0001Z", "2023-11-14T25:00:00Z",
		"2023-11-14T22:60:00Z", "2023-11-14T22:13:60Z", "2023-02-32", "2023-13-01", "2023-00-01", "2023-11-00",
		"-000000-01-01T00:00Z", "+275760-09-13T00:00:00.001Z", "-271821-04-19T23:59:59Z", "2023-11-14T22:13:21Z ",
		"2023-11-14T22:13:21−01:00", "20231114T221321Z", "2023-11-14T221321Z",
	} {
		got := fold(t, nil, sessionstore.Entry(fmt.Sprintf(`{"timestamp":%q}`, text)))
		require.Equal(t, `{"isSidechain":false}`, string(got), text)
	}
}

func TestFoldStateWithoutEntriesIsNil(t *testing.T) {
	for _, none := range []json.RawMessage{nil, {}, json.RawMessage("null"), json.RawMessage(" {} ")} {
		state, err := sessionstore.FoldSummary(none, nil)
		require.NoError(t, err)
		require.Nil(t, state, "%q", none)
		require.Equal(t, `{"isSidechain":false}`, string(fold(t, none, sessionstore.Entry("{}"))))
	}
}

func TestFoldKeepsMembersItDoesNotKnow(t *testing.T) {
	state := json.RawMessage("{ \"v\" : [1.0,\n{\"tag\":2}], \"\\u0074ag\":\"a\", \"\\u0078\":\"\\ud83d<\", \"v\":null, \"isSidechain\":true }")
	want := `{"isSidechain":true,"tag":"a","v":[1.0,{"tag":2}],"\u0078":"\ud83d<","v":null}`
	require.Equal(t, want, string(fold(t, state)))
	require.Equal(t, want, string(fold(t, json.RawMessage(want), sessionstore.Entry(`{"isSidechain":false}`))))
}

func TestFoldRefusesAnUnreadableState(t *testing.T) {
	for state, want := range map[string]string{
		`{"tag":`:                  "unexpected end at byte 7",
		`[]`:                       "not a JSON object at byte 0",
		` `:                        "empty at byte 1",
		`{"tag":1}`:                "tag is not a string",
		`{"tag":null}`:             "tag is not a string",
		`{"createdAt":"2023"}`:     "createdAt is not a number",
		`{"isSidechain":"false"}`:  "isSidechain is not a bool",
		`{"firstPromptLocked":[]}`: "firstPromptLocked is not a bool",
	} {
		got, err := sessionstore.FoldSummary(json.RawMessage(state), []sessionstore.Entry{sessionstore.Entry("{}")})
		require.ErrorIs(t, err, sessionstore.ErrCorrupt, state)
		require.EqualError(t, err, "stored data is corrupt: session summary: "+want, state)
		require.Nil(t, got)
	}
}

func TestFoldPassesOverInvalidEntries(t *testing.T) {
	for _, e := range []string{``, `null`, `[]`, `{"customTitle":"a"`, `{"customTitle":"a"}{`, "{\"customTitle\":\"\xff\"}"} {
		require.Nil(t, fold(t, nil, sessionstore.Entry(e)), e)
	}
	require.Nil(t, fold(t, nil, nil))
}

func TestSummaryStateKeepsNoBytesOfTheCaller(t *testing.T) {
	entry := sessionstore.Entry(`{"cwd":"/aaa","customTitle":"bbb","type":"user","message":{"content":"ccc"}}`)
	var state sessionstore.SummaryState
	state.Fold(entry)
	before := state
	want, err := state.MarshalJSON()
	require.NoError(t, err)
	clear(entry)
	state.Fold(sessionstore.Entry(`{"customTitle":"ddd"}`))
	got, err := before.MarshalJSON()
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "a copy changed with the original or the entry")

	data := bytes.Clone(want)
	require.NoError(t, state.UnmarshalJSON(data))
	clear(data)
	require.Equal(t, before, state)
}

func TestFoldAllocatesNoMoreThanAScanWhileNothingChanges(t *testing.T) {
	entry := benchmarkEntry("assistant")
	var state sessionstore.SummaryState
	state.Fold(sessionstore.Entry(`{"type":"user","message":{"content":"a"}}`))
	state.Fold(entry)
	scan := testing.AllocsPerRun(100, func() {
		var last []byte
		_ = jsonscan.Object(entry, func(_, v []byte) { last = v })
		_ = last
	})
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { state.Fold(entry) }), scan)
}

func TestAnySplitIntoBatchesGivesTheSameState(t *testing.T) {
	var entries []sessionstore.Entry
	for _, tr := range madeUpTranscripts(t) {
		entries = append(entries, tr.Entries...)
	}
	rapid.Check(t, func(t *rapid.T) {
		batch := rapid.SliceOfN(rapid.SampledFrom(entries), 1, 30).Draw(t, "entries")
		whole := fold(t, nil, batch...)
		var state json.RawMessage
		var inMemory sessionstore.SummaryState
		for rest := batch; len(rest) > 0; {
			n := rapid.IntRange(0, len(rest)).Draw(t, "batch")
			state = fold(t, state, rest[:n]...)
			for _, e := range rest[:n] {
				inMemory.Fold(e)
			}
			rest = rest[n:]
		}
		require.Equal(t, string(whole), string(state))
		got, err := inMemory.MarshalJSON()
		require.NoError(t, err)
		require.Equal(t, string(whole), string(got))
	})
}

func FuzzFoldSummary(f *testing.F) {
	f.Add([]byte(`{"firstPrompt":"x","v":[1]}`), []byte(`{"type":"user","timestamp":"2023-11-14T22:13:21Z","message":{"content":"\ud83d<command-name>/a</command-name>"}}`+"\n"+
		`{"type":"user","message":{"content":[{"type":"text","text":"<bash-input>\u2028</bash-input>"} ,{"a":["]\"",{}]}, {"type":"text","text":"a\\\u0000"}]}}`))
	f.Add([]byte(nil), []byte(`{"type":"user","message":{"content":"`+strings.Repeat("é😀", 80)+`"}}`+"\n"+`{"type":"tag","tag":"\ude00"}`))
	f.Fuzz(func(t *testing.T, start, lines []byte) {
		var entries []sessionstore.Entry
		for line := range bytes.SplitSeq(lines, []byte("\n")) {
			entries = append(entries, line)
		}
		whole, err := sessionstore.FoldSummary(start, entries)
		if err != nil {
			require.ErrorIs(t, err, sessionstore.ErrCorrupt)
			return
		}
		state := json.RawMessage(start)
		for _, e := range entries {
			state = fold(t, state, e)
		}
		require.Equal(t, string(whole), string(state))
		if whole != nil {
			require.NoError(t, sessionstore.Entry(whole).Validate())
			require.NotContains(t, string(whole), "\n")
		}
	})
}

func BenchmarkFold(b *testing.B) {
	entry := benchmarkEntry("assistant")
	b.Run("InMemory", func(b *testing.B) {
		var state sessionstore.SummaryState
		state.Fold(benchmarkEntry("user"))
		b.ReportAllocs()
		b.SetBytes(int64(len(entry)))
		for b.Loop() {
			state.Fold(entry)
		}
	})
	b.Run("FirstPromptNotFound", func(b *testing.B) {
		meta := sessionstore.Entry(strings.Replace(string(benchmarkEntry("user")), "lorem", "<tick>", 1))
		var state sessionstore.SummaryState
		b.ReportAllocs()
		b.SetBytes(int64(len(meta)))
		for b.Loop() {
			state.Fold(meta)
		}
	})
	b.Run("JSON", func(b *testing.B) {
		batch := []sessionstore.Entry{entry}
		state := fold(b, nil, benchmarkEntry("user"))
		b.ReportAllocs()
		b.SetBytes(int64(len(entry)))
		for b.Loop() {
			state = fold(b, state, batch...)
		}
	})
}

// benchmarkEntry returns an entry of 2 KB with the usual fields.
func benchmarkEntry(typ string) sessionstore.Entry {
	return sessionstore.Entry(`{"parentUuid":"886b0755-08f3-4c9b-8a40-3d0c6c1a7a51","isSidechain":false,"type":"` + typ + `",` +
		`"message":{"role":"` + typ + `","content":[{"type":"text","text":"` + strings.Repeat("lorem ipsum dolor ", 90) + `"}]},` +
		`"uuid":"4e8e7f7e-ddac-48b2-b93b-ce26a4b58e75","timestamp":"2026-11-30T16:43:56.250Z","userType":"external",` +
		`"cwd":"/home/dev/proj","sessionId":"4e8e7f7e-ddac-48b2-b93b-ce26a4b58e75","version":"2.1.332","gitBranch":"main"}`)
}

func fold(t require.TestingT, state json.RawMessage, entries ...sessionstore.Entry) json.RawMessage {
	state, err := sessionstore.FoldSummary(state, entries)
	require.NoError(t, err)
	return state
}

// requireSameJSON compares texts with Entry.Equal, which tells a lone surrogate
// from U+FFFD where encoding/json does not.
func requireSameJSON(t *testing.T, want, got []byte, format string, args ...any) {
	t.Helper()
	if !sessionstore.Entry(got).Equal(want) {
		require.Fail(t, fmt.Sprintf(format, args...), "got  %s\nwant %s", got, want)
	}
}

type madeUpTranscript struct {
	ID      int
	Entries []sessionstore.Entry
	Batches []int
	Folds   []sessionstore.SessionSummary
}

func madeUpTranscripts(t *testing.T) []madeUpTranscript {
	return decodeLines[madeUpTranscript](t, "testdata/transcripts/synthetic.jsonl")
}

func decodeLines[T any](t *testing.T, file string) []T {
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var values []T
	for line := range bytes.Lines(data) {
		var v T
		require.NoError(t, json.Unmarshal(line, &v), "%s, line %d", file, len(values)+1)
		values = append(values, v)
	}
	return values
}

// Check and the fold share one scan; the result is that of a scan of its own.
func TestFoldCheckedIsFold(t *testing.T) {
	for _, text := range []string{
		`{"type":"user","uuid":"u","cwd":"/x","gitBranch":"main","timestamp":"2026-01-02T03:04:05Z","message":{"content":"hi"}}`,
		"{\"type\":\n\"tag\",\"tag\":\"t\",\r\n\"customTitle\":\"c\"}", `{"\u0074ype":"user","isSidechain":true,"isSidechain":false}`, `{}`,
	} {
		batch, err := sessionstore.Check(key("p", "s"), entries(text))
		require.NoError(t, err)
		var checked, scanned sessionstore.SummaryState
		checked.FoldChecked(&batch[0])
		scanned.Fold(sessionstore.Entry(text))
		require.Equal(t, scanned, checked, text)

		data, err := checked.MarshalJSON()
		require.NoError(t, err)
		var members []string
		for name, value := range checked.Members() {
			members = append(members, `"`+name+`":`+value)
		}
		require.Equal(t, string(data), "{"+strings.Join(members, ",")+"}")
	}
}
