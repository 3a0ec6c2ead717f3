package filestore_test

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/filestore"
)

var batchOfThree = []sessionstore.Entry{title("one"), user("b"), title("one")}

func mainFile(dir string) string { return filepath.Join(dir, project, session+".jsonl") }

func TestShortWriteIsTakenBack(t *testing.T) {
	for _, n := range []int{0, 1, 50, 80, 10_000} {
		dir := t.TempDir()
		s := open(t, dir, nil)
		s.CutWrites(n) // the first write is that of the format file
		require.ErrorIs(t, s.Append(t.Context(), mainKey, batchOfThree), filestore.ErrInject)
		s.CutWrites(n)
		require.ErrorIs(t, s.Append(t.Context(), mainKey, batchOfThree), filestore.ErrInject)
		require.Empty(t, files(t, dir), "a file that the append has made goes too")
		require.Nil(t, load(t, s, mainKey))

		appendAll(t, s, mainKey, user("a"))
		before := read(t, mainFile(dir))
		s.CutWrites(n)
		require.ErrorIs(t, s.Append(t.Context(), mainKey, batchOfThree), filestore.ErrInject)
		require.Equal(t, before, read(t, mainFile(dir)))
		appendAll(t, s, mainKey, batchOfThree...)
		require.Equal(t, texts(append([]sessionstore.Entry{user("a")}, batchOfThree...)...), load(t, s, mainKey))
	}
}

func TestFailedAppendWithMetadataIsTakenBackWhole(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	appendAll(t, s, subKey, metadata("old"), user("a"))
	want := load(t, s, subKey)
	batch := []sessionstore.Entry{metadata("new"), title("t"), user("b")}

	s.FailRename()
	require.ErrorIs(t, s.Append(t.Context(), subKey, batch), filestore.ErrInject)
	require.Equal(t, want, load(t, s, subKey))
	s.CutWrites(5) // of the sidecar
	require.ErrorIs(t, s.Append(t.Context(), subKey, batch), filestore.ErrInject)
	require.Equal(t, want, load(t, s, subKey))
	require.Len(t, files(t, dir), 2, "nothing is left beside the files")

	appendAll(t, s, subKey, batch...)
	require.Equal(t, texts(metadata("new"), user("a"), title("t"), user("b")), load(t, s, subKey))
}

func TestRetryAfterHalfABatchThatStayed(t *testing.T) {
	for _, n := range []int{1, 45, 60, 100} {
		dir := t.TempDir()
		s := open(t, dir, nil)
		appendAll(t, s, mainKey, user("a"))
		s.CutWrites(n)
		s.FailTruncate()
		require.ErrorIs(t, s.Append(t.Context(), mainKey, batchOfThree), filestore.ErrInject)
		require.Len(t, read(t, mainFile(dir)), len(user("a"))+1+n, "the half is there")
		appendAll(t, s, mainKey, batchOfThree...)
		require.Equal(t, string(joinLines(append([]sessionstore.Entry{user("a")}, batchOfThree...))), read(t, mainFile(dir)))
	}
}

func TestRetryAfterALostReply(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	appendAll(t, s, mainKey, title("one"))
	for range 2 {
		s.LoseReply()
		require.ErrorIs(t, s.Append(t.Context(), mainKey, batchOfThree), filestore.ErrLost)
	}
	other := open(t, dir, nil)
	appendAll(t, other, mainKey, user("other"))
	appendAll(t, s, mainKey, batchOfThree...)
	want := texts(append([]sessionstore.Entry{title("one")}, append(batchOfThree, user("other"))...)...)
	require.Equal(t, want, load(t, s, mainKey))
	appendAll(t, s, mainKey, batchOfThree...)
	require.Len(t, load(t, s, mainKey), 7, "after a success the same titles are new ones")
}

func TestRetryAfterTheTranscriptWasDeleted(t *testing.T) {
	s := open(t, t.TempDir(), nil)
	s.LoseReply()
	require.Error(t, s.Append(t.Context(), mainKey, batchOfThree))
	require.NoError(t, s.Delete(t.Context(), mainKey))
	appendAll(t, s, mainKey, batchOfThree...)
	require.Equal(t, texts(batchOfThree...), load(t, s, mainKey))
}

func TestRetryOfAFailedFsync(t *testing.T) {
	for _, key := range []sessionstore.Key{mainKey, subKey} {
		dir := t.TempDir()
		s := open(t, dir, &filestore.Options{Fsync: true})
		appendAll(t, s, key, user("a"))
		s.FailSync()
		require.ErrorIs(t, s.Append(t.Context(), key, batchOfThree), filestore.ErrInject)
		synced := s.Synced()
		appendAll(t, s, key, batchOfThree...)
		require.Contains(t, *synced, path.Base(key.SessionID+"/"+key.Subpath)+".jsonl", "the bytes are there, but not yet safe")
		require.Equal(t, texts(append([]sessionstore.Entry{user("a")}, batchOfThree...)...), load(t, s, key))
	}
}

func TestRetryWithMetadataAfterAFailedFsync(t *testing.T) {
	s := open(t, t.TempDir(), &filestore.Options{Fsync: true})
	appendAll(t, s, subKey, user("a"))
	batch := []sessionstore.Entry{title("t"), metadata("m")}
	s.LoseReply()
	require.Error(t, s.Append(t.Context(), subKey, batch))
	appendAll(t, s, subKey, batch...)
	require.Equal(t, texts(metadata("m"), user("a"), title("t")), load(t, s, subKey))
}

func TestTornLastLineIsNotGlued(t *testing.T) {
	dir := t.TempDir()
	var seen skips
	s := open(t, dir, seen.options())
	appendAll(t, s, mainKey, user("a"))
	add(t, `{"type":"user","uuid":"b","te`, mainFile(dir))
	require.Equal(t, texts(user("a")), load(t, s, mainKey))
	require.Len(t, seen, 1)
	require.True(t, seen[0].Torn)
	require.EqualValues(t, 2, seen[0].Line)

	seen = nil
	appendAll(t, s, mainKey, user("b"))
	require.Equal(t, texts(user("a"), user("b")), load(t, s, mainKey))
	require.Len(t, seen, 1)
	require.False(t, seen[0].Torn)
	require.Equal(t, filestore.Skip{
		Key: mainKey, Path: project + "/" + session + ".jsonl",
		Line: 2, Offset: int64(len(user("a")) + 1), Length: 29, Err: seen[0].Err,
	}, seen[0])
	require.ErrorIs(t, seen[0].Err, sessionstore.ErrInvalidEntry)
}

func TestWholeLastLineWithoutLineFeedCounts(t *testing.T) {
	dir := t.TempDir()
	write(t, string(user("a"))+"\n"+string(user("b")), mainFile(dir))
	s := open(t, dir, nil)
	require.Equal(t, texts(user("a"), user("b")), load(t, s, mainKey))
	appendAll(t, s, mainKey, user("b"))
	require.False(t, strings.HasSuffix(read(t, mainFile(dir)), "\n"), "nothing new, nothing written")
	appendAll(t, s, mainKey, user("b"), user("c"))
	appendAll(t, s, mainKey, user("b"), user("c"))
	require.Equal(t, string(joinLines([]sessionstore.Entry{user("a"), user("b"), user("c")})), read(t, mainFile(dir)))
}

func TestWhatOthersAppendedIsKnown(t *testing.T) {
	dir := t.TempDir()
	s, other := open(t, dir, nil), open(t, dir, nil)
	appendAll(t, s, mainKey, user("a"))
	appendAll(t, other, mainKey, user("b"))
	add(t, string(user("c"))+"\n", mainFile(dir)) // as the agent does
	appendAll(t, s, mainKey, user("a"), user("b"), user("c"), user("d"))
	appendAll(t, other, mainKey, user("a"), user("b"), user("c"), user("d"))
	require.Equal(t, texts(user("a"), user("b"), user("c"), user("d")), load(t, s, mainKey))
}

func TestReplacedFileIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	long := title(strings.Repeat("x", 1000))
	replace := map[string]func(t *testing.T, other *filestore.Store){
		"deleted": func(t *testing.T, other *filestore.Store) {
			require.NoError(t, other.Delete(t.Context(), mainKey))
		},
		"deleted and longer": func(t *testing.T, other *filestore.Store) {
			require.NoError(t, other.Delete(t.Context(), mainKey))
			appendAll(t, other, mainKey, user("x"), user("y"), user("z"))
		},
		"truncated": func(t *testing.T, _ *filestore.Store) { require.NoError(t, os.Truncate(mainFile(dir), 0)) },
		// The size comes back, and so do the last bytes.
		"overwritten": func(t *testing.T, _ *filestore.Store) {
			time.Sleep(20 * time.Millisecond) // beyond the step of file times
			write(t, string(joinLines([]sessionstore.Entry{user("x"), user("y"), long})), mainFile(dir))
		},
		"replaced": func(t *testing.T, _ *filestore.Store) {
			more := []sessionstore.Entry{user("x"), user("y"), long, user("z")}
			require.NoError(t, os.Rename(write(t, string(joinLines(more)), dir, "new"), mainFile(dir)))
		},
	}
	for name, change := range replace {
		t.Run(name, func(t *testing.T) {
			s, other := open(t, dir, nil), open(t, dir, nil)
			require.NoError(t, s.Delete(t.Context(), mainKey))
			appendAll(t, s, mainKey, user("a"), user("b"), long)
			change(t, other)
			appendAll(t, s, mainKey, user("a"), user("b"))
			got := load(t, s, mainKey)
			require.Equal(t, texts(user("a"), user("b")), got[len(got)-2:])
		})
	}
}

func TestRepeatsInForeignFilesAreDropped(t *testing.T) {
	dir := t.TempDir()
	copies := []sessionstore.Entry{user("a"), title("t"), user("b"), user("a"), title("t"), user("b"), user("c")}
	write(t, string(joinLines(copies)), mainFile(dir))
	s := open(t, dir, nil)
	require.Equal(t, texts(user("a"), title("t"), user("b"), title("t"), user("c")), load(t, s, mainKey))
}

func TestOnlyBadLinesIsNotUnknown(t *testing.T) {
	dir := t.TempDir()
	write(t, "null\n\x00\x00\x00\n", mainFile(dir))
	got, err := open(t, dir, nil).Load(t.Context(), mainKey)
	require.NoError(t, err)
	require.NotNil(t, got)
	require.Empty(t, got)
}
