package filestore_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/filestore"
)

// The environment of a writer process: what it does and where.
const (
	writerEnv = "FILESTORE_TEST_WRITER"
	dirEnv    = "FILESTORE_TEST_DIR"
	nameEnv   = "FILESTORE_TEST_NAME"
)

const (
	procWriters  = 4
	procBatches  = 60
	procBatchLen = 5
)

// runWriter is the main function of a writer process.
func runWriter(mode string) int {
	s, err := filestore.Open(os.Getenv(dirEnv), nil)
	if err == nil {
		defer s.Close()
		name := os.Getenv(nameEnv)
		switch mode {
		case "many":
			err = writeFromMany(s, name)
		case "endless":
			err = writeEndlessly(s, name)
		default:
			err = errors.New("unknown mode " + mode)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// writeFromMany appends from several goroutines to one key.
func writeFromMany(s *filestore.Store, name string) error {
	errs := make([]error, procWriters)
	var wg sync.WaitGroup
	for w := range procWriters {
		wg.Go(func() {
			for b := range procBatches {
				writer := fmt.Sprintf("%s.%d", name, w)
				if err := s.Append(context.Background(), mainKey, procBatch(writer, b, 20)); err != nil {
					errs[w] = err
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// procBatch holds entries with and without uuid that say where they belong.
func procBatch(writer string, n, textLen int) []sessionstore.Entry {
	batch := make([]sessionstore.Entry, procBatchLen)
	for i := range batch {
		id := ""
		if i%2 == 0 {
			id = fmt.Sprintf(`,"uuid":"%s/%d/%d"`, writer, n, i)
		}
		batch[i] = sessionstore.Entry(fmt.Sprintf(`{"type":"user","pos":"%s/%d/%d"%s,"text":"%s"}`,
			writer, n, i, id, strings.Repeat("x", textLen)))
	}
	return batch
}

// position takes a procBatch entry apart.
func position(t testing.TB, e sessionstore.Entry) (writer string, batch, i int) {
	_, rest, ok := strings.Cut(string(e[:min(len(e), 200)]), `"pos":"`)
	require.True(t, ok, "%.100s", e)
	pos, _, _ := strings.Cut(rest, `"`)
	part := strings.Split(pos, "/")
	require.Len(t, part, 3)
	batch, err := strconv.Atoi(part[1])
	require.NoError(t, err)
	i, err = strconv.Atoi(part[2])
	require.NoError(t, err)
	return part[0], batch, i
}

func startWriter(t testing.TB, mode, dir, name string, stdout io.Writer) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), writerEnv+"="+mode, dirEnv+"="+dir, nameEnv+"="+name)
	cmd.Stderr = os.Stderr
	cmd.Stdout = stdout
	require.NoError(t, cmd.Start())
	return cmd
}

func needLocks(t testing.TB) {
	if runtime.GOOS == "windows" {
		t.Skip("no locks between processes here")
	}
}

func TestProcessesShareAKey(t *testing.T) {
	needLocks(t)
	dir := t.TempDir()
	one := startWriter(t, "many", dir, "p1", nil)
	two := startWriter(t, "many", dir, "p2", nil)
	reader := open(t, dir, &filestore.Options{OnSkip: func(sk filestore.Skip) { t.Errorf("skipped: %+v", sk) }})
	done := make(chan error, 1)
	go func() { done <- errors.Join(one.Wait(), two.Wait()) }()
	for running := true; running; {
		select {
		case err := <-done:
			require.NoError(t, err)
			running = false
		case <-time.After(5 * time.Millisecond):
		}
		entries, err := reader.Load(t.Context(), mainKey)
		require.NoError(t, err)
		requireWholeBatches(t, entries)
	}
	entries, err := reader.Load(t.Context(), mainKey)
	require.NoError(t, err)
	require.Len(t, entries, 2*procWriters*procBatches*procBatchLen)
}

// requireWholeBatches: batches lie together, and each writer's own in order.
func requireWholeBatches(t testing.TB, entries []sessionstore.Entry) {
	require.Zero(t, len(entries)%procBatchLen, "a reader has seen half a batch")
	next := map[string]int{}
	for n := 0; n < len(entries); n += procBatchLen {
		writer, batch, _ := position(t, entries[n])
		require.Equal(t, next[writer], batch, "batches of %s", writer)
		next[writer]++
		for i := range procBatchLen {
			w, b, pos := position(t, entries[n+i])
			require.Equal(t, []any{writer, batch, i}, []any{w, b, pos})
		}
	}
}

// writeEndlessly appends large batches, reports each one on stdout and goes on
// until it is killed.
func writeEndlessly(s *filestore.Store, name string) error {
	start, err := strconv.Atoi(name)
	for n := start; err == nil; n++ {
		if err = s.Append(context.Background(), mainKey, procBatch("w", n, 60_000)); err == nil {
			_, err = fmt.Printf("%d\n", n)
		}
	}
	return err
}

func TestKilledWriterLosesNothingAcknowledged(t *testing.T) {
	needLocks(t)
	dir := t.TempDir()
	var seen skips
	s := open(t, dir, seen.options())
	acknowledged := 0 // the number of the next batch to be acknowledged
	torn := 0
	rounds := 15
	if testing.Short() || raceDetector {
		rounds = 5
	}
	for range rounds {
		acknowledged = writeUntilKilled(t, dir, acknowledged)
		seen = nil
		entries, err := s.Load(t.Context(), mainKey)
		require.NoError(t, err)
		for _, sk := range seen {
			require.ErrorIs(t, sk.Err, sessionstore.ErrInvalidEntry)
			torn++
		}
		requireAcknowledged(t, entries, acknowledged)
	}
	t.Logf("%d batches, %d torn lines", acknowledged, torn)

	// Whatever the kills have left, one torn line for certain:
	require.NoError(t, os.Truncate(mainFile(dir), int64(len(read(t, mainFile(dir)))-7)))
	seen = nil
	appendAll(t, s, mainKey, user("last"))
	entries, err := s.Load(t.Context(), mainKey)
	require.NoError(t, err)
	require.Equal(t, string(user("last")), string(entries[len(entries)-1]))
	require.NotEmpty(t, seen)
}

func writeUntilKilled(t *testing.T, dir string, from int) int {
	out, in, err := os.Pipe()
	require.NoError(t, err)
	cmd := startWriter(t, "endless", dir, strconv.Itoa(from), in)
	in.Close()
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan(), "the writer gets going")
	next := from + 1
	timer := time.AfterFunc(time.Duration(rand.IntN(100_000))*time.Microsecond, func() { cmd.Process.Kill() })
	defer timer.Stop()
	for lines.Scan() {
		n, err := strconv.Atoi(lines.Text())
		require.NoError(t, err)
		next = n + 1
	}
	cmd.Wait()
	require.NoError(t, out.Close())
	return next
}

// requireAcknowledged: every batch below n is there once and in order. The
// batch with the number of the next one may be there in part, from a writer
// that was killed before it could tell, and then whole from its successor; its
// entries without uuid can then be there twice.
func requireAcknowledged(t testing.TB, entries []sessionstore.Entry, n int) {
	count := map[[2]int]int{}
	last := -1
	for _, e := range entries {
		_, batch, i := position(t, e)
		require.GreaterOrEqual(t, batch, last, "order")
		last = batch
		count[[2]int{batch, i}]++
	}
	for batch := range n {
		for i := range procBatchLen {
			got := count[[2]int{batch, i}]
			if i%2 == 0 {
				require.Equal(t, 1, got, "batch %d entry %d", batch, i)
			} else {
				require.Positive(t, got, "batch %d entry %d", batch, i)
			}
		}
	}
	require.LessOrEqual(t, last, n)
}

func TestFullDiskTakesNothingHalf(t *testing.T) {
	dir := smallDisk(t, "1m")
	s := open(t, dir, nil)
	var want []string
	var failed error
	for n := 0; failed == nil; n++ {
		batch := procBatch("w", n, 9_000)
		if failed = s.Append(t.Context(), mainKey, batch); failed == nil {
			want = append(want, texts(batch...)...)
		}
	}
	require.ErrorContains(t, failed, "no space left")
	require.NotEmpty(t, want)
	require.Equal(t, want, load(t, s, mainKey))
	text := read(t, mainFile(dir))
	require.True(t, strings.HasSuffix(text, "\n"), "no torn line stays")

	// A new transcript that does not fit is not there at all.
	other := sessionstore.Key{ProjectKey: project, SessionID: "other"}
	require.Error(t, s.Append(t.Context(), other, procBatch("w", 0, 100_000)))
	require.Nil(t, load(t, s, other))
	require.NoError(t, s.Delete(t.Context(), mainKey), "deleting needs no room")
	require.Empty(t, files(t, dir))
}

func TestFullDiskKeepsTheOldMetadata(t *testing.T) {
	dir := smallDisk(t, "256k")
	s := open(t, dir, nil)
	appendAll(t, s, subKey, metadata("old"), user("a"))
	big := sessionstore.Entry(`{"type":"agent_metadata","text":"` + strings.Repeat("x", 200_000) + `"}`)
	err := s.Append(t.Context(), subKey, append(procBatch("w", 0, 50_000), big))
	require.ErrorContains(t, err, "no space left")
	require.Equal(t, texts(metadata("old"), user("a")), load(t, s, subKey))
	require.Len(t, files(t, dir), 2)
}

func TestReadOnlyDiskCanBeRead(t *testing.T) {
	dir := smallDisk(t, "1m")
	s := open(t, dir, nil)
	appendAll(t, s, mainKey, user("a"))
	appendAll(t, s, subKey, user("b"), metadata("m"))
	require.NoError(t, s.Close())
	if out, err := exec.Command("mount", "-o", "remount,ro", dir).CombinedOutput(); err != nil {
		t.Skipf("cannot remount: %s", out)
	}
	for _, opts := range []*filestore.Options{{ReadOnly: true}, nil} {
		s := open(t, dir, opts)
		require.Equal(t, texts(user("a")), load(t, s, mainKey))
		require.Equal(t, texts(metadata("m"), user("b")), load(t, s, subKey))
		require.Error(t, s.Append(t.Context(), mainKey, numbered(1)))
		require.NoError(t, s.Close()) // before the disk goes
	}
}

// smallDisk mounts a file system of limited size.
func smallDisk(t *testing.T, size string) string {
	dir := t.TempDir()
	mount, err := exec.LookPath("mount")
	if err != nil {
		t.Skip("no mount command; run as root on Linux to test a full disk")
	}
	var out bytes.Buffer
	cmd := exec.Command(mount, "-t", "tmpfs", "-o", "size="+size, "tmpfs", dir)
	cmd.Stderr = &out
	if err := cmd.Run(); err != nil {
		t.Skipf("cannot mount a tmpfs (%v: %s); run as root on Linux to test a full disk", err, bytes.TrimSpace(out.Bytes()))
	}
	t.Cleanup(func() { exec.Command("umount", dir).Run() })
	return dir
}

func TestDeleteRacingAppendLeavesNoOrphan(t *testing.T) {
	needLocks(t)
	rounds := 300
	if testing.Short() {
		rounds = 50
	}
	dir := t.TempDir()
	a, b := open(t, dir, nil), open(t, dir, nil) // two handles share no memory
	for n := range rounds {
		batch := []sessionstore.Entry{user("a"), title("t")}
		key := mainKey
		if n%2 == 1 {
			key, batch = subKey, append(batch, metadata("m"))
		}
		appendAll(t, a, mainKey, user("start"))
		var wg sync.WaitGroup
		var appended, deleted error
		wg.Go(func() { appended = a.Append(context.Background(), key, batch) })
		wg.Go(func() { deleted = b.Delete(context.Background(), mainKey) })
		wg.Wait()
		require.NoError(t, appended)
		require.NoError(t, deleted)
		// Either the append came first and is gone, or it came last and is whole.
		got := load(t, a, key)
		if got != nil && key == mainKey {
			require.Equal(t, texts(batch...), got)
		} else if got != nil {
			require.Equal(t, texts(metadata("m"), user("a"), title("t")), got)
		} else {
			require.Empty(t, files(t, dir))
			require.NoDirExists(t, filepath.Join(dir, project))
		}
		require.NoError(t, a.Delete(t.Context(), mainKey))
		require.Empty(t, files(t, dir))
	}
}

func TestDeleteGetsThroughBusyWriters(t *testing.T) {
	s := open(t, t.TempDir(), nil)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				key := mainKey
				key.SessionID = strconv.Itoa(w)
				s.Append(ctx, key, procBatch("w", n, 10))
			}
		})
	}
	deadline, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for range 20 {
		require.NoError(t, s.Delete(deadline, mainKey))
	}
	stop()
	wg.Wait()
}

func TestConcurrentFirstAppendsMakeOneSession(t *testing.T) {
	dir := t.TempDir()
	a, b := open(t, dir, nil), open(t, dir, nil)
	var wg sync.WaitGroup
	errs := make([]error, 50)
	for i := range errs {
		s := a
		if i%2 == 1 && runtime.GOOS != "windows" {
			s = b
		}
		wg.Go(func() {
			errs[i] = s.Append(context.Background(), mainKey, []sessionstore.Entry{user(strconv.Itoa(i)), title("t")})
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	require.Len(t, load(t, a, mainKey), 100)
	list, err := a.ListSessions(t.Context(), project)
	require.NoError(t, err)
	require.Len(t, list, 1)
}

func TestWaitForALockEndsWithTheContext(t *testing.T) {
	needLocks(t)
	dir := t.TempDir()
	s, other := open(t, dir, nil), open(t, dir, nil)
	appendAll(t, s, mainKey, user("a"))
	release := s.HoldLock(t, mainFileName)
	brief := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	require.ErrorIs(t, other.Append(brief(), mainKey, numbered(1)), context.DeadlineExceeded)
	_, err := other.Load(brief(), mainKey)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	release()
	release = s.HoldLock(t, project)
	require.ErrorIs(t, other.Append(brief(), mainKey, numbered(1)), context.DeadlineExceeded)
	require.ErrorIs(t, other.Delete(brief(), mainKey), context.DeadlineExceeded)
	require.Equal(t, texts(user("a")), load(t, other, mainKey), "readers do not wait for a deleter")
	release()
	appendAll(t, other, mainKey, user("b"))
	require.Equal(t, texts(user("a"), user("b")), load(t, s, mainKey))
}

const mainFileName = project + "/" + session + ".jsonl"

// What was locked may be deleted and made again while a writer waits for it.
func TestLockOfAFileThatIsGoneDoesNotCount(t *testing.T) {
	needLocks(t)
	for _, name := range []string{project, mainFileName} {
		dir := t.TempDir()
		s, other := open(t, dir, nil), open(t, dir, nil)
		appendAll(t, s, mainKey, user("a"))
		releaseOld := s.HoldLock(t, name)
		done := make(chan error, 1)
		go func() { done <- other.Append(context.Background(), mainKey, []sessionstore.Entry{user("b")}) }()
		time.Sleep(20 * time.Millisecond) // now it waits
		require.NoError(t, os.Rename(filepath.Join(dir, name), filepath.Join(dir, "old")))
		appendAll(t, s, mainKey, user("c"))
		releaseNew := s.HoldLock(t, name)
		releaseOld()
		select {
		case err := <-done:
			t.Fatalf("%s: the append has not waited: %v", name, err)
		case <-time.After(50 * time.Millisecond):
		}
		releaseNew()
		require.NoError(t, <-done)
		require.Equal(t, texts(user("c"), user("b")), load(t, s, mainKey))
	}
}
