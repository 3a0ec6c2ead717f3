package standin

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// frame is what has been written to a file and not been printed yet.
type frame struct {
	path    string
	entries []json.RawMessage
}

const fileMode, dirMode = 0o600, 0o700

// file returns the path of a transcript of the session.
func (a *Agent) file(subpath string) string {
	main := filepath.Join(a.projects, a.project, a.session)
	if subpath == "" {
		return main + ".jsonl"
	}
	return filepath.Join(main, filepath.FromSlash(subpath)) + ".jsonl"
}

// write appends lines to a transcript: first to the file, then to the frames.
func (a *Agent) write(path string, entries ...json.RawMessage) error {
	if err := os.MkdirAll(filepath.Dir(path), dirMode); err != nil {
		return err
	}
	var text bytes.Buffer
	for _, e := range entries {
		text.Write(append(e[:len(e):len(e)], '\n'))
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(text.Bytes())
	a.report(path, entries...)
	return errors.Join(err, f.Close())
}

// metadata is no line of the transcript but a file beside it.
func (a *Agent) metadata(path string, entry json.RawMessage) error {
	if err := os.MkdirAll(filepath.Dir(path), dirMode); err != nil {
		return err
	}
	text := "{" + strings.TrimPrefix(string(entry), `{"type":"agent_metadata",`)
	a.report(path, entry)
	return os.WriteFile(strings.TrimSuffix(path, ".jsonl")+".meta.json", []byte(text), fileMode)
}

func (a *Agent) report(path string, entries ...json.RawMessage) {
	for i := range a.pending {
		if a.pending[i].path == path {
			a.pending[i].entries = append(a.pending[i].entries, entries...)
			return
		}
	}
	a.pending = append(a.pending, frame{path, append([]json.RawMessage(nil), entries...)})
}

// pause is the time between two frames, and then prints them.
func (a *Agent) pause() error {
	time.Sleep(a.interval)
	return a.flush()
}

func (a *Agent) flush() error {
	pending := a.pending
	a.pending = nil
	for _, f := range pending {
		if !a.mirror {
			continue
		}
		line := []byte(`{"type":"transcript_mirror","filePath":` + quote(f.path) + `,"entries":[`)
		line = append(line, bytes.Join(toBytes(f.entries), []byte(","))...)
		if _, err := a.out.Write(append(line, "]}\n"...)); err != nil {
			return err
		}
	}
	return a.out.Flush()
}

func toBytes(entries []json.RawMessage) [][]byte {
	out := make([][]byte, len(entries))
	for i, e := range entries {
		out[i] = e
	}
	return out
}

func (a *Agent) copyFile(from, to string) error {
	lines, err := readLines(from)
	if err != nil {
		return err
	}
	old := filepath.Base(strings.TrimSuffix(from, ".jsonl"))
	for i, l := range lines {
		lines[i] = bytes.ReplaceAll(l, []byte(old), []byte(a.session))
	}
	a.parents[to] = a.parents[from]
	return a.write(to, lines...)
}

func readLines(path string) ([]json.RawMessage, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var lines []json.RawMessage
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		if len(line) > 0 {
			lines = append(lines, line)
		}
	}
	return lines, err
}

func quote(s string) string {
	text, _ := json.Marshal(s) // never fails
	return string(text)
}

func newUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0F|0x40, b[8]&0x3F|0x80
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
