package mirror

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/jsonl"
)

// A directory of spilled batches has one directory for each key, named by a
// hash, and in it one file for each batch, numbered in their order:
//
//	<hash of the key>/000000000001.jsonl
//
// The first line of a file says what it is, the others are the entries. Files
// are put in place whole, by renaming.

const (
	spillVersion = 1
	tempPrefix   = ".tmp-"
	fileMode     = 0o600
	dirMode      = 0o700
	maxRewrites  = 100
)

// fsync is off in tests that write thousands of files.
var fsync = true

// spillHeader is the first line of a file.
type spillHeader struct {
	Version  int      `json:"sessionstoreSpill"`
	Key      jsonKey  `json:"key"`
	Time     string   `json:"time"`
	Attempts int      `json:"attempts"`
	Error    string   `json:"error"`
	After    []string `json:"after,omitempty"` // identities of what comes before it in the transcript
	Entries  int      `json:"entries"`
}

// jsonKey is a key as the agent's own hosts write it.
type jsonKey struct {
	ProjectKey string `json:"projectKey"`
	SessionID  string `json:"sessionId"`
	Subpath    string `json:"subpath,omitempty"`
}

func keyDir(spill string, key sessionstore.Key) string {
	sum := sha256.Sum256([]byte(key.ProjectKey + "\x00" + key.SessionID + "\x00" + key.Subpath))
	return filepath.Join(spill, hex.EncodeToString(sum[:16]))
}

func spillName(dir string, number int) string {
	return filepath.Join(dir, fmt.Sprintf("%012d%s", number, linesSuffix))
}

// spillNumber is the inverse of spillName, or 0.
func spillNumber(name string) int {
	base := filepath.Base(name)
	digits, _ := strings.CutSuffix(base, linesSuffix)
	n, err := strconv.Atoi(digits)
	if err != nil || n <= 0 || base != filepath.Base(spillName("", n)) {
		return 0
	}
	return n
}

// spillFiles lists the files of one key in their order. No directory is no
// files. Other files, and links, are passed over.
func spillFiles(dir string) ([]string, error) {
	for again := false; ; again = true {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		var names []string
		for _, e := range entries {
			if e.Type().IsRegular() && spillNumber(e.Name()) > 0 {
				names = append(names, filepath.Join(dir, e.Name()))
			}
		}
		slices.Sort(names)
		// A list made while files are added may lack one and hold the next.
		if again || len(gaps(names)) == 0 {
			return names, nil
		}
	}
}

// gaps returns what is missing between files. They are removed in their order
// when they are delivered, so these were removed otherwise.
func gaps(files []string) (names []string) {
	for i := 1; i < len(files); i++ {
		last := spillNumber(files[i])
		for n := spillNumber(files[i-1]) + 1; n < last && len(names) < maxSeen; n++ {
			names = append(names, spillName(filepath.Dir(files[i]), n))
		}
	}
	return names
}

// keptFile is a file that a mirror has written.
type keptFile struct {
	name    string
	entries int        // 0 if not known
	tail    []identity // with what the transcript ends when it is delivered
}

// writeSpill writes one batch. All its entries are valid.
func writeSpill(spill string, q *queue, e *Error) (string, error) {
	dir := keyDir(spill, q.key)
	if q.nextNum == 0 {
		files, err := spillFiles(dir)
		if err != nil {
			return "", err
		}
		q.nextNum = 1
		if len(files) > 0 {
			q.nextNum = spillNumber(files[len(files)-1]) + 1
		}
	}
	text, err := spillText(q, e)
	if err != nil {
		return "", err
	}
	name := spillName(dir, q.nextNum)
	err = writeFile(dir, name, text)
	// A Replay has just removed the directory, or the new file before it was
	// locked.
	for n := 0; n < maxRewrites && errors.Is(err, fs.ErrNotExist); n++ {
		err = writeFile(dir, name, text)
	}
	if err != nil {
		return "", err
	}
	q.nextNum++
	return name, nil
}

func spillText(q *queue, e *Error) ([]byte, error) {
	h := spillHeader{
		Version: spillVersion, Key: jsonKey(q.key), Time: time.Now().UTC().Format(time.RFC3339Nano),
		Attempts: e.Attempts, Error: e.Err.Error(), Entries: len(e.Entries),
	}
	for _, id := range q.anchor {
		h.After = append(h.After, id.String())
	}
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	text = append(text, '\n')
	for _, entry := range e.Entries {
		text = append(append(text, entry.Line()...), '\n')
	}
	return text, nil
}

// writeFile puts a file in place so that it is there whole or not at all, also
// after a power failure.
func writeFile(dir, name string, text []byte) error {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return err
	}
	var random [8]byte
	rand.Read(random[:]) // never fails
	temp := filepath.Join(dir, tempPrefix+hex.EncodeToString(random[:]))
	if err := writeAs(temp, name, text); err != nil {
		return errors.Join(err, ignoreMissing(os.Remove(temp)))
	}
	// The file is in place. It may be delivered already, and its directory gone.
	return ignoreMissing(errors.Join(syncDir(dir), syncDir(filepath.Dir(dir))))
}

// writeAs writes a file and renames it. It is locked meanwhile, for others to
// see that it has not been left behind.
func writeAs(temp, name string, text []byte) error {
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	_, _ = lockFile(f) // some file systems have no locks
	_, err = f.Write(text)
	if err == nil && fsync {
		err = f.Sync()
	}
	if !renameOpen {
		err = errors.Join(err, f.Close())
	} else {
		defer f.Close()
	}
	if err != nil {
		return err
	}
	return os.Rename(temp, name)
}

// renameOpen: Windows does not rename files that are open.
const renameOpen = runtime.GOOS != "windows"

// removeTemps removes files that killed processes have not finished.
func removeTemps(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), tempPrefix) || !e.Type().IsRegular() {
			continue
		}
		name := filepath.Join(dir, e.Name())
		if f, err := openLocked(name); err == nil { // else it is being written
			_ = os.Remove(name)
			f.Close()
		}
	}
}

// clearKey removes what a killed process was writing for a key that has no
// files.
func clearKey(dir string) {
	lock, err := lockKey(dir)
	if err != nil {
		return // there is none, or somebody delivers from it
	}
	defer lock.release()
	removeTemps(dir)
	_ = os.Remove(dir) // fails if another mirror is writing to it
}

// syncDir makes new names last. Not every system can.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if fsync {
		_ = f.Sync()
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// spillFile is a file being read.
type spillFile struct {
	header spillHeader
	anchor []identity
	f      *os.File
	lines  *jsonl.Lines
	left   int
}

func openSpill(name string) (*spillFile, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	s := &spillFile{f: f, lines: jsonl.NewLines(bufio.NewReader(f), sessionstore.MaxEntryLen)}
	if err := s.readHeader(); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

func (s *spillFile) readHeader() error {
	line, err := s.lines.Next()
	if err != nil {
		return corrupt(err)
	}
	if err := json.Unmarshal(line.Data, &s.header); err != nil {
		return corrupt(err)
	}
	if s.header.Version != spillVersion {
		return fmt.Errorf("%w: version %d, this program knows %d", sessionstore.ErrCorrupt, s.header.Version, spillVersion)
	}
	for _, text := range s.header.After {
		id, err := parseIdentity(text)
		if err != nil {
			return corrupt(err)
		}
		s.anchor = append(s.anchor, id)
	}
	s.left = s.header.Entries
	return nil
}

// anchorBehind returns the anchor of what follows the batch in a file.
func anchorBehind(name string) ([]identity, error) {
	f, err := openSpill(name)
	if err != nil {
		return nil, err
	}
	defer f.f.Close()
	batch, err := f.all()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return anchorOf(f.anchor, batch), nil
}

// isWhole reports whether the file can be read to its end and holds what was
// written to it.
func (k keptFile) isWhole(key sessionstore.Key) bool {
	if info, err := os.Lstat(k.name); err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := openSpill(k.name)
	if err != nil {
		return false
	}
	defer f.f.Close()
	for err == nil {
		_, err = f.next()
	}
	return err == io.EOF && f.header.Entries == k.entries && f.header.Key == jsonKey(key)
}

func corrupt(err error) error { return fmt.Errorf("%w: %w", sessionstore.ErrCorrupt, err) }

// next returns the next entry, which is valid until the call after, and io.EOF
// behind the last one.
func (s *spillFile) next() (sessionstore.Entry, error) {
	line, err := s.lines.Next()
	if err == io.EOF && s.left == 0 {
		return nil, io.EOF
	}
	if err != nil {
		return nil, corrupt(fmt.Errorf("%d entries are missing: %w", s.left, err))
	}
	s.left--
	e := sessionstore.Entry(line.Data)
	if line.Torn || s.left < 0 || e.Validate() != nil {
		return nil, corrupt(fmt.Errorf("line %d is no entry of the batch", line.Number))
	}
	return e, nil
}

func (s *spillFile) all() ([]sessionstore.Entry, error) {
	var list []sessionstore.Entry
	for {
		e, err := s.next()
		if err == io.EOF {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		list = append(list, bytes.Clone(e))
	}
}

func (id identity) String() string {
	kind := "value:"
	if id.unique {
		kind = "uuid:"
	}
	return kind + hex.EncodeToString(id.id[:])
}

func parseIdentity(text string) (id identity, err error) {
	kind, digits, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(digits)
	if err != nil || len(raw) != len(id.id) || kind != "uuid" && kind != "value" {
		return id, fmt.Errorf("%q is no identity", text)
	}
	id.unique = kind == "uuid"
	copy(id.id[:], raw)
	return id, nil
}
