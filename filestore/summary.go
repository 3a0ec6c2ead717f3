package filestore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path"
	"strconv"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/idset"
	"github.com/sessionstore/sessionstore/internal/jsonl"
)

// A summary is kept in the store's own directory, which no agent reads, and
// says which state of the transcript's file it stands for. One that does not
// fit the file is brought up to date from where it ended, so nothing is lost
// when it could not be written, or when others write to the transcript.
//
// It is written in place by the holder of the transcript's lock, and has a
// checksum for readers, who hold none. Renaming a new file over it would make
// ext4 write to disk at once, and an append ten times as slow.
const (
	summariesDir  = privateDir + "/summaries"
	summarySuffix = ".summary"

	// summaryFormat changes with the form of these files and with what the
	// fold does. Those of another format count as missing.
	summaryFormat = 2
)

func summaryName(p place) string { return summariesDir + "/" + p.session + summarySuffix }

// stamp tells one state of a file from another.
type stamp struct {
	file  uint64 // which file it is, where the system tells
	size  int64
	mtime int64 // in ns since 1970
	// ctime is when anything about the file was changed, where the system tells.
	// Nobody can set it, so it tells what takes the place of the file, with its
	// size and time and the number of its inode.
	ctime int64
}

func stampOf(info os.FileInfo) stamp {
	return stamp{fileNumber(info), info.Size(), info.ModTime().UnixNano(), changeTime(info)}
}

// kept is a summary as it is kept.
type kept struct {
	stamp
	lines int64  // where the last whole line ends
	birth int64  // when the file was made, 0 if nobody can tell
	begin end    // what is at its beginning
	end   end    // what is just before the end of the lines
	state []byte // of the fold up to there
	data  []byte // the summary of the whole file
}

// start is where a fold goes on. The zero value is the beginning.
type start struct {
	lines int64
	state sessionstore.SummaryState
}

// end stands for the last bytes of a file, or the first ones.
type end struct {
	n   int64
	sum [8]byte
}

func digest(text []byte) end {
	sum := sha256.Sum256(text)
	return end{int64(len(text)), [8]byte(sum[:])}
}

// summary is that of a file which ends with a whole line.
func (k *known) summary() kept {
	state, _ := k.sum.MarshalJSON() // never fails
	return kept{
		stamp: stampOf(k.info), lines: k.size, birth: k.birth, begin: digest(k.begin), end: digest(k.end),
		state: state, data: state,
	}
}

// sealLen is the length of the checksum and the space behind it.
const sealLen = 8 + 1

// text is one line of numbers, one for the state, and one for the data where
// that is not the same. The first number is the checksum of what follows.
func (k *kept) text() []byte {
	text := fmt.Appendf(make([]byte, 0, 128+len(k.state)+len(k.data)), "%08x %d %d %d %d %d %d %d %d %x %d %x\n",
		0, summaryFormat, k.file, k.size, k.mtime, k.ctime, k.lines, k.birth, k.begin.n, k.begin.sum, k.end.n, k.end.sum)
	text = append(append(text, k.state...), '\n')
	if !bytes.Equal(k.state, k.data) {
		text = append(append(text, k.data...), '\n')
	}
	copy(text, fmt.Appendf(nil, "%08x", crc32.ChecksumIEEE(text[sealLen:])))
	return text
}

func parseKept(text []byte) (k kept, ok bool) {
	head, body, _ := bytes.Cut(text, []byte("\n"))
	fields := bytes.Fields(head)
	if len(fields) != 12 || len(fields[0]) != sealLen-1 || string(fields[1]) != strconv.Itoa(summaryFormat) {
		return kept{}, false
	}
	sum, err := strconv.ParseUint(string(fields[0]), 16, 32)
	if err != nil || uint32(sum) != crc32.ChecksumIEEE(text[sealLen:]) {
		return kept{}, false
	}
	// Behind a checksum that is right everything can be read.
	k.file, _ = strconv.ParseUint(string(fields[2]), 10, 64)
	for i, to := range []*int64{&k.size, &k.mtime, &k.ctime, &k.lines, &k.birth} {
		*to, _ = strconv.ParseInt(string(fields[3+i]), 10, 64)
	}
	k.begin, k.end = parseEnd(fields[8:10]), parseEnd(fields[10:12])
	state, data, _ := bytes.Cut(body, []byte("\n"))
	k.state, k.data = state, bytes.TrimSuffix(data, []byte("\n"))
	if len(k.data) == 0 {
		k.data = k.state
	}
	return k, true
}

func parseEnd(fields [][]byte) (e end) {
	e.n, _ = strconv.ParseInt(string(fields[0]), 10, 64)
	hex.Decode(e.sum[:], fields[1][:min(len(fields[1]), 2*len(e.sum))])
	return e
}

// readKept reads a kept summary. What can't be read counts as missing.
func readKept(root *os.Root, name string) (kept, bool) {
	f, err := root.OpenFile(name, os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return kept{}, false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return kept{}, false
	}
	text := make([]byte, info.Size())
	if _, err := io.ReadFull(f, text); err != nil {
		return kept{}, false
	}
	return parseKept(text)
}

// startIn returns where to go on in a file: behind what the summary has taken
// in if the file has only grown, otherwise at its beginning.
func (k *kept) startIn(f *os.File, info os.FileInfo) start {
	now := stampOf(info)
	if now.file != k.file || now.size < k.size || now.size == k.size && now != k.stamp || birthTime(f) != k.birth {
		return start{}
	}
	from := start{lines: k.lines}
	begin, err := beginOf(f, k.begin.n)
	if err != nil || digest(begin) != k.begin {
		return start{}
	}
	text, err := endOf(f, k.lines, k.end.n)
	if err != nil || digest(text) != k.end || from.state.UnmarshalJSON(k.state) != nil {
		return start{}
	}
	return from
}

// startOf is startIn for the summary that is kept for a transcript.
func (s *Store) startOf(p place, f *os.File, info os.FileInfo) start {
	k, ok := readKept(s.root, summaryName(p))
	if !ok {
		return start{}
	}
	return k.startIn(f, info)
}

// foldFile makes the summary of an open file.
func foldFile(ctx context.Context, f *os.File, info os.FileInfo, from start) (kept, error) {
	k := kept{stamp: stampOf(info), lines: info.Size(), birth: birthTime(f)}
	fold := fold{ctx: ctx, file: f, from: from}
	whole, exact, err := fold.run(&k)
	if err == nil && !exact {
		fold.from = start{}
		whole, _, err = fold.run(&k)
	}
	if err != nil {
		return kept{}, err
	}
	begin, err := beginOf(f, min(k.lines, endLen))
	if err != nil {
		return kept{}, err
	}
	text, err := endOf(f, k.lines, endLen)
	if err != nil {
		return kept{}, err
	}
	k.begin, k.end = digest(begin), digest(text)
	k.state, _ = fold.state.MarshalJSON() // never fails
	k.data, _ = whole.MarshalJSON()
	return k, nil
}

// fold folds a file from some line on.
type fold struct {
	ctx   context.Context
	file  *os.File
	from  start
	state sessionstore.SummaryState // up to the last whole line
	seen  idset.Set
}

// run returns the state with a last line that has no line feed. What lies
// before the start is not read again, so a uuid may be one of there, and its
// entry a repeat that does not count. Mostly that makes no difference, because
// the entry changes nothing. If it does, the result is not exact.
func (fo *fold) run(k *kept) (whole sessionstore.SummaryState, exact bool, err error) {
	fo.state, fo.seen = fo.from.state, idset.Set{}
	k.lines = k.size
	lines := jsonl.NewLinesAt(reader{fo.ctx, fo.file}, fo.from.lines, k.size, sessionstore.MaxEntryLen)
	entries := jsonl.NewEntries(lines, func(s jsonl.Skip) {
		if s.Torn {
			k.lines = s.Offset
		}
	})
	// Offsets count from the beginning of the file.
	for whole = fo.state; ; {
		e, err := entries.Next()
		if err != nil {
			return whole, true, ignoreEOF(err)
		}
		if e.Torn {
			k.lines = e.Offset
		}
		if len(e.UUID) > 0 && !fo.seen.Add(idset.Of(e.UUID)) {
			continue
		}
		whole.Fold(e.Data)
		if whole != fo.state && len(e.UUID) > 0 && fo.from.lines > 0 {
			return whole, false, nil
		}
		if !e.Torn {
			fo.state = whole
		}
	}
}

func ignoreEOF(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

// makeSummary makes the summary of a transcript anew, or from the kept one, and
// keeps it. It returns nil if there is no transcript any more.
func (s *Store) makeSummary(ctx context.Context, key sessionstore.Key) (*kept, os.FileInfo, error) {
	p := placeOf(key)
	f, _, err := s.openToRead(p.lines)
	if err != nil || f == nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := committed(ctx, f)
	if err != nil || info.Size() == 0 {
		return nil, nil, err
	}
	// Now nobody is writing to the kept one.
	was, _ := readKept(s.root, summaryName(p))
	unlock(f)
	if was.stamp == stampOf(info) {
		return &was, info, nil
	}
	k, err := foldFile(ctx, f, info, was.startIn(f, info))
	if err != nil {
		return nil, nil, err
	}
	if !s.opts.ReadOnly {
		s.saveSummary(ctx, key, f, k)
	}
	return &k, info, nil
}

// saveSummary keeps a summary that was made while nothing was locked, unless
// the transcript has changed or gone meanwhile.
func (s *Store) saveSummary(ctx context.Context, key sessionstore.Key, f *os.File, k kept) {
	p := placeOf(key)
	leave, err := s.gates.acquire(ctx, "project "+p.project, false)
	if err != nil {
		return
	}
	defer leave()
	leave, err = s.gates.acquire(ctx, "transcript "+p.lines, true)
	if err != nil {
		return
	}
	defer leave()
	dir, err := s.lockProject(ctx, p.project, false, false)
	if err != nil || dir == nil {
		return
	}
	defer dir.Close()
	info, err := committed(ctx, f)
	if err != nil || stampOf(info) != k.stamp {
		return
	}
	if same, err := s.isAt(f, p.lines); err != nil || !same || s.ensureFormat() != nil {
		return
	}
	s.keepSummary(p, k)
}

// keepSummary writes a summary in its place. It may fail: whoever needs it next
// makes it again. For the same reason it is not synced.
func (s *Store) keepSummary(p place, k kept) {
	f, size := s.openSummary(summaryName(p))
	if f == nil {
		return
	}
	defer f.Close()
	text := k.text()
	if _, err := f.WriteAt(text, 0); err == nil && int64(len(text)) < size {
		f.Truncate(int64(len(text)))
	}
}

// openSummary opens the file of a summary for writing. It returns nil if it
// can't.
func (s *Store) openSummary(name string) (f *os.File, size int64) {
	const flags = os.O_RDWR | os.O_CREATE | openNonblock
	f, err := s.root.OpenFile(name, flags, fileMode)
	if isMissing(err) && s.makeDirs(path.Dir(name)) == nil {
		f, err = s.root.OpenFile(name, flags, fileMode)
	}
	if err == nil {
		if size, ok := isSummary(f); ok {
			return f, size
		}
		f.Close()
	}
	// A link would lead to a file that is no summary.
	if s.root.Remove(name) != nil {
		return nil, 0
	}
	if f, err = s.root.OpenFile(name, flags|os.O_EXCL, fileMode); err != nil {
		return nil, 0
	}
	return f, 0
}

// isSummary reports whether an open file is new or begins as a summary does.
func isSummary(f *os.File) (size int64, ok bool) {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0, false
	}
	if info.Size() == 0 {
		return 0, true
	}
	var seal [sealLen]byte
	if _, err := f.ReadAt(seal[:], 0); err != nil || seal[sealLen-1] != ' ' {
		return 0, false
	}
	_, err = hex.Decode(make([]byte, 4), seal[:sealLen-1])
	return info.Size(), err == nil
}

// dropSummary deletes the summary of a session.
func (s *Store) dropSummary(key sessionstore.Key) error {
	name := summaryName(placeOf(key))
	s.summaries.forget(key)
	if err := s.root.RemoveAll(name); err != nil {
		return err
	}
	s.removeEmpty(path.Dir(name))
	return nil
}
