package mirror_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/mirror"
)

const resultLine = `{"type":"result","subtype":"success"}` + "\n"

// random splits what it reads at random places.
type random struct {
	r   io.Reader
	rng *rand.Rand
}

func (r random) Read(p []byte) (int, error) {
	n := 1 + r.rng.IntN(len(p))
	if r.rng.IntN(2) == 0 {
		n = min(n, 1+r.rng.IntN(40))
	}
	return r.r.Read(p[:n])
}

func TestRecordedStreamsEndInTheRecordedTranscripts(t *testing.T) {
	for _, name := range recordingNames {
		for seed := range uint64(5) {
			t.Run(fmt.Sprint(name, seed), func(t *testing.T) {
				s := newFake()
				rng := rand.New(rand.NewPCG(seed, 1))
				for projects, frames := range recordedRuns(t, name) {
					stream, ordinary := mixed(frames, rng)
					m, err := mirror.New(s, projects, &mirror.Options{Mode: mirror.Mode(seed % 2)})
					require.NoError(t, err)
					out, err := io.ReadAll(random{m.Reader(random{strings.NewReader(stream), rng}), rng})
					require.NoError(t, err)
					require.Equal(t, ordinary, string(out))
					require.NoError(t, m.Close(t.Context()))
				}
				for key, want := range recordedAppends(t, name) {
					require.True(t, slices.EqualFunc(want, load(t, s, key), func(a, b string) bool {
						return sessionstore.Entry(a).Equal(sessionstore.Entry(b)) // that host encodes again
					}), "%v", key)
				}
				require.False(t, s.overlap)
			})
		}
	}
}

// recordedRuns returns the frames of each run of the agent, with its projects
// directory. After a resume the agent has another one.
func recordedRuns(t testing.TB, name string) iter.Seq2[string, [][]byte] {
	frames := recordedFrames(t, name)
	return func(yield func(string, [][]byte) bool) {
		start := 0
		for i := range frames {
			if i+1 == len(frames) || projectsOf(t, frames[i+1]) != projectsOf(t, frames[start]) {
				if !yield(projectsOf(t, frames[start]), frames[start:i+1]) {
					return
				}
				start = i + 1
			}
		}
	}
}

// mixed puts other messages between frames.
func mixed(frames [][]byte, rng *rand.Rand) (stream, ordinary string) {
	var all, other strings.Builder
	for i, f := range frames {
		all.Write(f)
		if rng.IntN(3) == 0 {
			line := fmt.Sprintf(`{"type":"assistant","n":%d,"text":"{\"type\":\"transcript_mirror\"}"}`+"\n", i)
			if rng.IntN(3) == 0 {
				line = resultLine
			}
			all.WriteString(line)
			other.WriteString(line)
		}
	}
	return all.String(), other.String()
}

// projectsOf returns the projects directory of the agent that wrote a frame.
func projectsOf(t testing.TB, frame []byte) string {
	t.Helper()
	var f struct{ FilePath string }
	require.NoError(t, json.Unmarshal(frame, &f))
	config, _, ok := strings.Cut(f.FilePath, "/projects/")
	require.True(t, ok)
	return config + "/projects"
}

func TestResumedRunUsesAnotherConfigurationDirectory(t *testing.T) {
	frames := recordedFrames(t, "compact-manual")
	var log errorLog
	opts := log.options()
	m, err := mirror.New(newFake(), projectsOf(t, frames[0]), &opts)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, m.Reader(bytes.NewReader(bytes.Join(frames, nil))))
	require.NoError(t, err)
	require.NotEmpty(t, log.foreign, "its last frames come from elsewhere")
	require.True(t, log.foreign[0].Outside)
	require.Error(t, m.Close(t.Context()))
}

func TestResultIsPassedOnWhenItsFlushHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		s.before = func(context.Context, sessionstore.Key, int) error { time.Sleep(time.Second); return nil }
		m := open(t, s, nil)
		in, out := io.Pipe()
		go func() {
			_, _ = io.WriteString(out, frameLine(mainPath, user("a"))+`{"type":"assistant"}`+"\n"+resultLine)
			_, _ = io.WriteString(out, frameLine(mainPath, user("b")))
			out.Close()
		}()
		r := bufio.NewReader(m.Reader(in))
		start := time.Now()
		line, err := r.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, `{"type":"assistant"}`+"\n", line)
		require.Zero(t, time.Since(start), "other messages do not wait")
		line, err = r.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, resultLine, line)
		require.Equal(t, time.Second, time.Since(start))
		require.Len(t, load(t, s, mainKey), 1)
		_, err = r.ReadString('\n')
		require.Equal(t, io.EOF, err)
		require.Len(t, load(t, s, mainKey), 2, "the end of the stream is a flush")
		require.NoError(t, m.Close(t.Context()))
	})
}

func TestOrdinaryOutputDoesNotWaitForTheEndOfItsLine(t *testing.T) {
	for _, start := range []string{
		`plain text`, `{"type":"assistant","mess`, `{"type":"x"`, `{"type":1,`, `{"other":{"type":"transcript_mirror"},"type":"as"`,
		`[`, `{}`, `{"type" : "user"`, `{"a":}`, " \t{\"type\":\"s\"", `{"type":"transcript_mirror2"`, "\xff",
	} {
		m := open(t, newFake(), nil)
		in, out := io.Pipe()
		go func() { _, _ = io.WriteString(out, start) }()
		buf := make([]byte, 100)
		n, err := io.ReadFull(m.Reader(in), buf[:len(start)])
		require.NoError(t, err)
		require.Equal(t, start, string(buf[:n]))
		require.NoError(t, m.Close(t.Context()))
	}
}

func TestFramesAreFoundHoweverTheyAreSpelled(t *testing.T) {
	for _, line := range []string{
		frameLine(mainPath, user("a")),
		` { "type" : "transcript_mirror" , "filePath" : "` + mainPath + `" , "entries" : [ {"type":"user","uuid":"a"} ] } ` + "\r\n",
		`{"entries":[{"type":"user","uuid":"a"}],"filePath":"` + mainPath + `","type":"transcript_mirror"}` + "\n",
		`{"\u0074ype":"transcript\u005fmirror","file\u0050ath":"` + strings.ReplaceAll(mainPath, "/", `\/`) + `","entries":[{"type":"user","uuid":"a"}],"more":{"x":[1]}}` + "\n",
		strings.TrimSuffix(frameLine(mainPath, user("a")), "\n"), // the last line has no end
	} {
		s := newFake()
		m := open(t, s, nil)
		out, err := io.ReadAll(m.Reader(iotest.OneByteReader(strings.NewReader(line))))
		require.NoError(t, err)
		require.Empty(t, out)
		require.NoError(t, m.Close(t.Context()))
		require.Len(t, load(t, s, mainKey), 1, line)
	}
}

func TestEntriesOfFramesKeepTheirBytes(t *testing.T) {
	odd := sessionstore.Entry(`{"type":"x","n":9007199254740993,"f":1.0,"e":1e400,"z":-0.0,"k":1,"k":2,"s":"\u0000\ud83d\\u0000\"]},{","u":"` + "\u2028<>&" + `"}`)
	s := newFake()
	m := open(t, s, nil)
	_, err := io.Copy(io.Discard, m.Reader(strings.NewReader(frameLine(mainPath, odd, user("a"), odd))))
	require.NoError(t, err)
	require.NoError(t, m.Close(t.Context()))
	require.Equal(t, texts(entries(odd, user("a"), odd)), load(t, s, mainKey))
}

func TestLinesOfAnyLength(t *testing.T) {
	long := strings.Repeat("x", 5<<20)
	image := sessionstore.Entry(`{"type":"user","uuid":"i","image":"` + long + `"}`)
	ordinary := `{"type":"user","text":"` + long + `"}` + "\n"
	late := `{"text":"` + long + `","type":"user"}` + "\n"
	s := newFake()
	m := open(t, s, nil)
	out, err := io.ReadAll(m.Reader(strings.NewReader(frameLine(mainPath, image) + ordinary + frameLine(mainPath, user("a")) + late)))
	require.NoError(t, err)
	require.True(t, ordinary+late == string(out))
	require.NoError(t, m.Close(t.Context()))
	require.Equal(t, []string{string(image), string(user("a"))}, load(t, s, mainKey))
}

func TestBrokenFrameGivesItsWholeEntries(t *testing.T) {
	whole := frameLine(mainPath, user("a"), user("b"), user("c"))
	cut := whole[:strings.Index(whole, `"uuid":"c"`)]
	for name, stream := range map[string]io.Reader{
		"killed":  strings.NewReader(cut),
		"failed":  io.MultiReader(strings.NewReader(cut), iotest.ErrReader(errors.New("pipe"))),
		"goes on": strings.NewReader(cut + "\n" + resultLine),
	} {
		t.Run(name, func(t *testing.T) {
			var log errorLog
			opts := log.options()
			s := newFake()
			m := open(t, s, &opts)
			out, err := io.ReadAll(m.Reader(stream))
			if name == "failed" {
				require.ErrorContains(t, err, "pipe")
			} else {
				require.NoError(t, err)
			}
			if name == "goes on" {
				require.Equal(t, resultLine, string(out))
			} else {
				require.Empty(t, out)
			}
			require.Equal(t, texts(entries(user("a"), user("b"))), load(t, s, mainKey))
			require.Len(t, log.all(), 1)
			require.ErrorIs(t, log.errs[0], mirror.ErrBrokenFrame)
			require.Equal(t, mainKey, log.errs[0].Key)
			require.True(t, m.Failed())
			require.ErrorContains(t, m.Close(t.Context()), "1 broken frame")
		})
	}
}

func TestFrameWithoutPathOrEntriesIsReported(t *testing.T) {
	for _, line := range []string{
		`{"type":"transcript_mirror"}`, `{"type":"transcript_mirror","entries":[{}]}`,
		`{"type":"transcript_mirror","filePath":"` + mainPath + `"}`, `{"type":"transcript_mirror","filePath":5,"entries":{}}`,
		`{"type":"transcript_mirror","filePath":"` + mainPath + `","entries":[{} x]}`, `{"type":"transcript_mirror"`,
	} {
		var log errorLog
		opts := log.options()
		m := open(t, newFake(), &opts)
		out, err := io.ReadAll(m.Reader(strings.NewReader(line + "\n")))
		require.NoError(t, err)
		require.Empty(t, out)
		require.Equal(t, 1, len(log.foreign)+len(log.errs), line)
		require.EqualValues(t, 1, m.Stats().Broken)
		require.Error(t, m.Close(t.Context()))
	}
}

func TestErrorMessagesAreInjectedBeforeTheirResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		s.before = func(_ context.Context, _ sessionstore.Key, n int) error {
			if n <= 6 {
				return errDown
			}
			return nil
		}
		m := open(t, s, &mirror.Options{InjectErrors: true})
		stream := frameLine(subPath, user("a")) + `{"type":"assistant"}` + "\n" + resultLine +
			resultLine + frameLine(mainPath, user("b")) + "text without an end"
		out, err := io.ReadAll(m.Reader(strings.NewReader(stream)))
		require.NoError(t, err)
		lines := strings.SplitAfter(string(out), "\n")
		require.Len(t, lines, 7)
		require.Equal(t, `{"type":"assistant"}`+"\n", lines[0])
		require.Equal(t, resultLine, lines[2])
		require.Equal(t, resultLine, lines[3])
		require.Equal(t, "text without an end\n", lines[4])
		require.Empty(t, lines[6])
		for line, key := range map[string]map[string]any{
			lines[1]: {"projectKey": project, "sessionId": session, "subpath": "subagents/agent-1a2b"},
			lines[5]: {"projectKey": project, "sessionId": session},
		} {
			var msg map[string]any
			require.NoError(t, json.Unmarshal([]byte(line), &msg))
			require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, msg["uuid"])
			delete(msg, "uuid")
			require.Equal(t, map[string]any{"type": "system", "subtype": "mirror_error", "error": "store is down", "key": key, "session_id": session}, msg)
		}
		require.Error(t, m.Close(t.Context()))
	})
}

func TestReaderAfterCloseReportsItsFrames(t *testing.T) {
	var log errorLog
	opts := log.options()
	m := open(t, newFake(), &opts)
	require.NoError(t, m.Close(t.Context()))
	out, err := io.ReadAll(m.Reader(strings.NewReader(frameLine(mainPath, user("a")) + resultLine)))
	require.NoError(t, err)
	require.Equal(t, resultLine, string(out))
	require.Len(t, log.all(), 1)
	require.ErrorIs(t, log.errs[0], mirror.ErrClosed)
	require.True(t, m.Failed())
}

func TestReaderThatGivesNothingIsAnError(t *testing.T) {
	m := open(t, newFake(), nil)
	_, err := m.Reader(stuck{}).Read(make([]byte, 1))
	require.ErrorIs(t, err, io.ErrNoProgress)
	require.NoError(t, m.Close(t.Context()))
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

// model is the same thing line by line.
func model(data []byte) (ordinary []byte, frames int) {
	for _, line := range bytes.SplitAfter(data, []byte("\n")) {
		if modelType(bytes.TrimSuffix(line, []byte("\n"))) == "transcript_mirror" {
			frames++
		} else {
			ordinary = append(ordinary, line...)
		}
	}
	return ordinary, frames
}

// modelType returns the first top-level member "type".
func modelType(line []byte) any {
	dec := json.NewDecoder(bytes.NewReader(line))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil
		}
		if key == "type" {
			tok, err := dec.Token()
			if err != nil {
				return nil
			}
			return tok
		}
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return nil
		}
	}
	return nil
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(frameLine(mainPath, user("a"))+resultLine+"text\n"), uint64(1))
	f.Add([]byte(`{"a":[{"b":"]}\""}],"type":"transcript_mirror","entries":[1,{},"`+"\n"+`{"type":"transcript_mirror"`), uint64(2))
	f.Add([]byte("\n\n{\n{}\n{\"type\"\n{\"type\":\n \r\n"), uint64(3))
	f.Add([]byte(`{"type":"transcript_mir`), uint64(4))
	f.Add([]byte(`{"x":tru`+"\n"+`{"x":1,"type":"result"}`+"\n"+`{"type":"ty\"pe","type":"transcript_mirror"}`), uint64(5))
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		want, frames := model(data)
		m := open(t, newFake(), nil)
		rng := rand.New(rand.NewPCG(seed, 2))
		out, err := io.ReadAll(random{m.Reader(random{bytes.NewReader(data), rng}), rng})
		require.NoError(t, err)
		// Where a line is no JSON in front of its type, it may be judged either
		// way; nothing else may differ.
		if !invalidBeforeType(data) {
			require.Equal(t, string(want), string(out))
			st := m.Stats()
			require.EqualValues(t, frames, st.Frames)
		}
		_ = m.Close(context.Background())
		var whole bytes.Buffer
		m = open(t, newFake(), nil)
		_, err = m.Reader(bytes.NewReader(data)).WriteTo(&whole)
		require.NoError(t, err)
		require.Equal(t, string(out), whole.String(), "splitting makes no difference")
		_ = m.Close(context.Background())
	})
}

// invalidBeforeType reports whether a line is not valid JSON.
func invalidBeforeType(data []byte) bool {
	for _, line := range bytes.Split(data, []byte("\n")) {
		if len(bytes.TrimSpace(line)) > 0 && !json.Valid(line) {
			return true
		}
	}
	return false
}

// recordingStore keeps the batches that are valid.
type recordingStore struct{ list []sessionstore.Entry }

func (s *recordingStore) Append(_ context.Context, key sessionstore.Key, list []sessionstore.Entry) error {
	if _, err := sessionstore.Check(key, list); err != nil {
		return err
	}
	s.list = append(s.list, list...)
	return nil
}

func (*recordingStore) Load(context.Context, sessionstore.Key) ([]sessionstore.Entry, error) {
	return nil, nil
}

// Entries are taken out of a frame as encoding/json would take them out.
func FuzzEntriesOfAFrame(f *testing.F) {
	f.Add(`{"a":"]}\\\""},{"b":[[{}]]} , {}`)
	f.Add(`null,5,"x",{"a":1e5},[],{"a":{"b":"\ud83d"}}`)
	f.Add("{\"a\":\"\xff\"},{\n}")
	f.Fuzz(func(t *testing.T, text string) {
		line := `{"type":"transcript_mirror","filePath":"` + mainPath + `","entries":[` + text + `]}`
		line = strings.ReplaceAll(line, "\n", " ")
		var frame struct{ Entries []json.RawMessage }
		if json.Unmarshal([]byte(line), &frame) != nil || strings.Count(line, "ntries") > 1 {
			return
		}
		var want []string
		for _, e := range frame.Entries {
			if sessionstore.Entry(e).Validate() == nil {
				want = append(want, string(e))
			}
		}
		s := &recordingStore{}
		m := open(t, s, nil)
		_, err := io.Copy(io.Discard, m.Reader(strings.NewReader(line)))
		require.NoError(t, err)
		_ = m.Close(context.Background())
		require.Equal(t, want, append([]string(nil), texts(s.list)...))
		require.EqualValues(t, len(frame.Entries)-len(want), m.Stats().Unusable)
	})
}
