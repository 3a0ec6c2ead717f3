package filestore_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/filestore"
)

// named is an entry with a uuid and a title.
func named(id, text string) sessionstore.Entry {
	return sessionstore.Entry(`{"type":"custom-title","uuid":"` + id + `","customTitle":"` + text + `"}`)
}

func line(e sessionstore.Entry) string { return string(e) + "\n" }

// titleOf returns the summary of the main key, from which it takes the title.
func titleOf(t testing.TB, s *filestore.Store) string {
	t.Helper()
	list, err := s.ListSessionSummaries(t.Context(), project)
	require.NoError(t, err)
	require.Len(t, list, 1)
	_, rest, _ := strings.Cut(string(list[0].Data), `"customTitle":"`)
	text, _, _ := strings.Cut(rest, `"`)
	return text
}

// requireFold compares both ways to the summary with the fold of all entries.
func requireFold(t testing.TB, s *filestore.Store, key sessionstore.Key) {
	t.Helper()
	entries, err := s.Load(t.Context(), key)
	require.NoError(t, err)
	want, err := sessionstore.FoldSummary(nil, entries)
	require.NoError(t, err)
	if want == nil && entries != nil {
		want = []byte("{}")
	}
	infos, err := s.ListSessions(t.Context(), key.ProjectKey)
	require.NoError(t, err)
	list, err := s.ListSessionSummaries(t.Context(), key.ProjectKey)
	require.NoError(t, err)
	require.Len(t, list, len(infos))
	for i, sum := range list {
		require.Equal(t, infos[i], sessionstore.SessionInfo{SessionID: sum.SessionID, Mtime: sum.Mtime})
		if sum.SessionID == key.SessionID {
			require.Equal(t, string(want), string(sum.Data))
		}
	}
	one, found, err := s.SessionSummary(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, want != nil, found)
	require.Equal(t, string(want), string(one.Data))
}

func TestSummariesOfAStoreAreReadWithoutTranscripts(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	appendAll(t, s, mainKey, user("a"), title("one"))
	appendAll(t, s, mainKey, user("a"), title("two"))
	for _, opts := range []*filestore.Options{nil, {ReadOnly: true}} {
		other := open(t, dir, opts)
		opened := other.Opened()
		require.Equal(t, "two", titleOf(t, other))
		_, found, err := other.SessionSummary(t.Context(), mainKey)
		require.NoError(t, err)
		require.True(t, found)
		require.Empty(t, *opened)
		requireFold(t, other, mainKey)
	}
}

func TestWhatOthersAddIsFoldedFromWhereTheSummaryEnded(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	appendAll(t, s, mainKey, user(strings.Repeat("y", 300)), title("first"), title(strings.Repeat("x", 1000)), user("a"))

	// What lies behind the beginning is changed so that it shows who reads it again.
	file := mainFile(dir)
	text := strings.Replace(read(t, file), "custom-title", "custom-tag!!", 1)
	text = strings.Replace(text, `"customTitle":"xxx`, `"customTitle":"yyy`, 1)
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(text)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	add(t, line(user("b")), file)

	opened := s.Opened()
	require.True(t, strings.HasPrefix(titleOf(t, s), "xxx"), "only the end was read")
	require.Equal(t, []string{project + "/" + session + ".jsonl"}, *opened)
	require.True(t, strings.HasPrefix(titleOf(t, s), "xxx"))
	require.Len(t, *opened, 1, "and it was kept")

	add(t, line(title("of the agent")), file)
	require.Equal(t, "of the agent", titleOf(t, s))
	add(t, line(title("of the agent again")), file)
	appendAll(t, open(t, dir, nil), mainKey, user("c"))
	opened = s.Opened()
	require.Equal(t, "of the agent again", titleOf(t, s), "an append catches up too")
	require.Empty(t, *opened)
}

func TestChangedFilesAreFoldedFromTheStart(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, file string){
		"Shrunk": func(t *testing.T, file string) {
			require.NoError(t, os.Truncate(file, int64(len(line(title("first"))))))
		},
		"Replaced": func(t *testing.T, file string) {
			other := write(t, strings.ReplaceAll(read(t, file), "last", "LAST")+line(user("b")), file+".new")
			require.NoError(t, os.Rename(other, file))
		},
		"OverwrittenAndGrown": func(t *testing.T, file string) {
			write(t, strings.ReplaceAll(read(t, file), "last", "LAST")+line(user("b")), file)
		},
		"OverwrittenInPlace": func(t *testing.T, file string) {
			write(t, strings.ReplaceAll(read(t, file), "last", "LAST"), file)
			require.NoError(t, os.Chtimes(file, time.Time{}, time.Now().Add(time.Hour)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, nil)
			appendAll(t, s, mainKey, title("first"), title("last"))
			if name != "OverwrittenAndGrown" { // which is told by the end alone
				appendAll(t, s, mainKey, user(strings.Repeat("x", 300)))
			}
			change(t, mainFile(dir))
			require.NotEqual(t, "last", titleOf(t, open(t, dir, &filestore.Options{ReadOnly: true})))
			requireFold(t, s, mainKey)
			appendAll(t, s, mainKey, user("c"))
			requireFold(t, s, mainKey)
		})
	}
}

func TestRepeatsOfOthersAreNotFolded(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	file := mainFile(dir)
	appendAll(t, s, mainKey, named("t", "right"), user("u"))

	add(t, line(named("t", "repeat before the summary")), file)
	require.Equal(t, "right", titleOf(t, s))
	add(t, line(named("v", "new"))+line(named("v", "repeat behind it")), file)
	require.Equal(t, "new", titleOf(t, s))
	add(t, string(named("t", "without line feed")), file)
	require.Equal(t, "new", titleOf(t, s))
	add(t, "\n"+line(named("t", "repeat again")), file)
	appendAll(t, open(t, dir, nil), mainKey, named("v", "repeat of the batch"), user("w"))
	require.Equal(t, "new", titleOf(t, s))
	requireFold(t, open(t, dir, nil), mainKey)
}

func TestLastLineWithoutLineFeedCounts(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	file := mainFile(dir)
	appendAll(t, s, mainKey, title("one"))
	half := string(title("two"))
	add(t, half[:10], file)
	require.Equal(t, "one", titleOf(t, s))
	add(t, half[10:], file)
	require.Equal(t, "two", titleOf(t, s))
	requireFold(t, s, mainKey)
	add(t, "garbage", file)
	require.Equal(t, "one", titleOf(t, s), "the line is none any more")
	requireFold(t, s, mainKey)
	add(t, "\n"+string(title("three")), file)
	require.Equal(t, "three", titleOf(t, s))
	add(t, "\n", file)
	require.Equal(t, "three", titleOf(t, s), "it is whole now")
	add(t, string(title("four")), file)
	require.Equal(t, "four", titleOf(t, s))
	appendAll(t, s, mainKey, user("a"))
	require.Equal(t, "four", titleOf(t, s))
	requireFold(t, s, mainKey)
}

func TestReadOnlyStoreKeepsNoSummaryOnDisk(t *testing.T) {
	dir := t.TempDir()
	file := write(t, line(title("of the agent")), mainFile(dir))
	require.NoError(t, os.Chtimes(file, time.Time{}, time.Now().Add(-time.Hour)))
	s := open(t, dir, &filestore.Options{ReadOnly: true})
	require.Equal(t, "of the agent", titleOf(t, s))
	opened := s.Opened()
	require.Equal(t, "of the agent", titleOf(t, s))
	require.Empty(t, *opened, "but in memory")
	require.NoDirExists(t, filepath.Join(dir, filestore.PrivateDir))

	// It must not be told apart by its size alone.
	write(t, line(title("of the AGENT")), mainFile(dir))
	require.Equal(t, "of the AGENT", titleOf(t, s))
}

func TestYoungSummaryIsNotRemembered(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	file := write(t, line(title("one")), mainFile(dir))
	require.NoError(t, os.Chtimes(file, now, now))
	s := open(t, dir, &filestore.Options{ReadOnly: true})
	require.Equal(t, "one", titleOf(t, s))
	// In the same tick of the clock that gives files their times.
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(line(title("two")))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, os.Chtimes(file, now, now))
	require.Equal(t, "two", titleOf(t, s))
}

func TestSummaryLeftBehindByACrashIsHealed(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	summary := filepath.Join(dir, filestore.SummaryFile(mainKey))
	appendAll(t, s, mainKey, title("one"))
	old := read(t, summary)
	appendAll(t, s, mainKey, title("two"))
	good := read(t, summary)
	for name, text := range map[string]string{
		"Older": old, "Cut": good[:len(good)-3], "Empty": "", "NUL": string(make([]byte, len(good))),
		"LongerBefore": good + old, "Changed": strings.Replace(good, "two", "TWO", 1), "OtherFormat": strings.Replace(good, " 1 ", " 2 ", 1),
	} {
		t.Run(name, func(t *testing.T) {
			write(t, text, summary)
			require.Equal(t, "two", titleOf(t, open(t, dir, nil)))
			opened := s.Opened()
			require.Equal(t, "two", titleOf(t, s))
			require.Empty(t, *opened, "it was healed")
			write(t, text, summary)
			appendAll(t, open(t, dir, nil), mainKey, user(name))
			requireFold(t, open(t, dir, &filestore.Options{ReadOnly: true}), mainKey)
			good = read(t, summary)
		})
	}
	t.Run("Directory", func(t *testing.T) {
		require.NoError(t, os.Remove(summary))
		write(t, "x", summary, "x")
		require.Equal(t, "two", titleOf(t, s))
		appendAll(t, s, mainKey, title("three"))
		require.Equal(t, "three", titleOf(t, open(t, dir, nil)))
		require.NoError(t, s.Delete(t.Context(), mainKey))
		require.NoFileExists(t, summary)
	})
}

func TestSummaryGoesWithItsSession(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	summary := filepath.Join(dir, filestore.SummaryFile(mainKey))
	summaries := filepath.Dir(summary)
	appendAll(t, s, mainKey, title("one"))
	require.FileExists(t, summary)
	require.NoError(t, s.Delete(t.Context(), mainKey))
	require.NoDirExists(t, summaries)

	appendAll(t, s, mainKey, title("one"))
	_, err := s.Purge(t.Context(), time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.NoDirExists(t, summaries)

	appendAll(t, s, mainKey, title("one"))
	appendAll(t, s, benchKeyIn(project, 1), title("two"))
	require.NoError(t, os.Remove(mainFile(dir)))
	require.Equal(t, "two", titleOf(t, s))
	require.NoFileExists(t, summary, "after the agent's own files were deleted")
	_, found, err := s.SessionSummary(t.Context(), mainKey)
	require.NoError(t, err)
	require.False(t, found)
}

func benchKeyIn(project string, n int) sessionstore.Key {
	key := benchKey(n)
	key.ProjectKey = project
	return key
}

func TestListAgreesWhileOthersWrite(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for w := range 3 {
		s := open(t, dir, nil)
		wg.Go(func() {
			for i := range 30 {
				key := mainKey
				if i%5 == 4 {
					key = benchKeyIn(project, w)
				}
				if err := s.Append(t.Context(), key, []sessionstore.Entry{named(fmt.Sprint(w, "-", i/2), fmt.Sprint(i))}); err != nil {
					t.Error(err)
				}
				if _, err := s.ListSessionSummaries(t.Context(), project); err != nil {
					t.Error(err)
				}
				if i%10 == 9 {
					if err := s.Delete(t.Context(), benchKeyIn(project, w)); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	requireFold(t, open(t, dir, nil), mainKey)
}

// TestSummaryIsTheFoldWhateverHappens does what stores, agents and crashes do,
// in any order.
func TestSummaryIsTheFoldWhateverHappens(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			dir := t.TempDir()
			file, summary := mainFile(dir), filepath.Join(dir, filestore.SummaryFile(mainKey))
			stores := []*filestore.Store{open(t, dir, nil), open(t, dir, nil), open(t, dir, &filestore.Options{ReadOnly: true})}
			some := func() (entries []sessionstore.Entry) {
				for range 1 + r.IntN(3) {
					id := fmt.Sprint(r.IntN(20))
					entries = append(entries, []sessionstore.Entry{
						title(fmt.Sprint(r.Int())), named(id, fmt.Sprint(r.Int())), user(id),
						sessionstore.Entry(`{"type":"user","uuid":"` + id + `","gitBranch":"` + fmt.Sprint(r.IntN(3)) + `"}`),
					}[r.IntN(4)])
				}
				return entries
			}
			var old []byte
			for range 40 {
				switch r.IntN(9) {
				case 0, 1, 2:
					appendAll(t, stores[r.IntN(2)], mainKey, some()...)
				case 3, 4:
					text := string(joinLines(some()))
					if r.IntN(3) == 0 {
						text = text[:r.IntN(len(text))]
					}
					agentAdd(t, text, file)
				case 5:
					if text, err := os.ReadFile(file); err == nil && r.IntN(3) == 0 {
						require.NoError(t, os.Truncate(file, int64(r.IntN(len(text)+1))))
					}
				case 6:
					if old != nil {
						require.NoError(t, os.MkdirAll(filepath.Dir(summary), 0o700))
						require.NoError(t, os.WriteFile(summary, old, 0o600))
					}
				case 7:
					old, _ = os.ReadFile(summary)
				case 8:
					if r.IntN(3) == 0 {
						require.NoError(t, stores[r.IntN(2)].Delete(t.Context(), mainKey))
					}
				}
				requireFold(t, stores[r.IntN(3)], mainKey)
			}
		})
	}
}

// agentAdd writes as an agent does, which also makes files. Its last line may
// be half of one.
func agentAdd(t testing.TB, text, file string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	require.NoError(t, err)
	_, err = f.WriteString(text)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func TestSummaryThatIsALinkIsNotFollowedOut(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	s := open(t, dir, nil)
	appendAll(t, s, mainKey, title("one"))
	summary := filepath.Join(dir, filestore.SummaryFile(mainKey))
	victim := write(t, "victim", outside, "victim")
	require.NoError(t, os.Remove(summary))
	require.NoError(t, os.Symlink(victim, summary))
	appendAll(t, s, mainKey, title("two"))
	require.Equal(t, "two", titleOf(t, s))
	require.Equal(t, "victim", read(t, victim))

	inside := mainFile(dir)
	before := read(t, inside)
	require.NoError(t, os.Remove(summary))
	target, err := filepath.Rel(filepath.Dir(summary), inside)
	require.NoError(t, err)
	require.NoError(t, os.Symlink(target, summary))
	appendAll(t, s, mainKey, title("three"))
	require.Equal(t, before+line(title("three")), read(t, inside), "nor to a transcript")
	require.Equal(t, "three", titleOf(t, s))
	require.True(t, bytes.HasSuffix([]byte(read(t, inside)), []byte(line(title("three")))))
}
