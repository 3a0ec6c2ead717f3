// Package jsonl reads files of JSON lines, one object a line, as agents write
// them: lines of any length, and now and then a line that a crash has cut, a
// block of NUL bytes, or text that is no object.
//
// [Lines] splits a stream into lines. [Entries] goes on from there: it gives
// the good lines and reports the others, so that one bad line never costs the
// lines behind it. Errors of the reader are always errors and never the end of
// the file.
package jsonl

import (
	"bytes"
	"io"
)

// bufferLen is the length of a reader's buffer. A line that does not fit gets
// memory of its own, which the reader does not keep.
const bufferLen = 128 << 10

// maxEmptyReads is how often a reader may give nothing without an error.
const maxEmptyReads = 100

// Line is one line of a file.
type Line struct {
	// Data is the line without its line feed. It is valid until the next call,
	// or for good if Owned is set. It is nil for a line beyond the limit.
	Data []byte
	// Owned says that nobody else holds the memory of Data.
	Owned bool
	// Number counts from 1.
	Number int64
	// Offset is where the line starts, in bytes.
	Offset int64
	// Length is that of the whole line without its line feed.
	Length int64
	// Torn says that the file ends without a line feed behind this line.
	Torn bool
	// TooLong says that the line is longer than the limit.
	TooLong bool
}

// Lines splits a stream at line feeds and at nothing else.
type Lines struct {
	r      io.Reader
	at     io.ReaderAt // not nil: the stream can be read twice
	pos    int64       // of the next byte that is read from the stream
	end    int64       // of the stream; only with at
	maxLen int64

	buf    []byte
	unread []byte // part of buf
	err    error  // of the last read
	number int64
}

// NewLines reads from r. Lines of more than maxLen bytes are passed over
// without being held in memory.
func NewLines(r io.Reader, maxLen int) *Lines {
	return &Lines{r: r, maxLen: int64(maxLen), buf: make([]byte, bufferLen)}
}

// NewLinesAt reads the bytes from offset from up to offset to. If they are not
// all there, that is [io.ErrUnexpectedEOF]. It needs half the memory that
// NewLines needs for a long line, because it looks for the end first.
func NewLinesAt(r io.ReaderAt, from, to int64, maxLen int) *Lines {
	// One byte more than the whole range leaves room to see its end.
	n := min(bufferLen, max(to-from, 0)+1)
	return &Lines{at: r, pos: from, end: to, maxLen: int64(maxLen), buf: make([]byte, n)}
}

// Next returns the next line, and [io.EOF] behind the last one. Any other
// error is one of the reader; lines that were whole before it have been given.
func (l *Lines) Next() (Line, error) {
	searched := 0
	for {
		if i := bytes.IndexByte(l.unread[searched:], '\n'); i >= 0 {
			return l.take(searched + i), nil
		}
		searched = len(l.unread)
		switch {
		case l.err == io.EOF && searched > 0:
			line := l.line(l.unread, int64(searched), l.pos-int64(searched))
			line.Torn = true
			l.unread = nil
			return line, nil
		case l.err != nil:
			return Line{}, l.err
		case searched == len(l.buf):
			return l.long()
		}
		l.unread = l.buf[:copy(l.buf, l.unread)]
		l.fill()
	}
}

// take returns the unread bytes up to the line feed at index i.
func (l *Lines) take(i int) Line {
	line := l.line(l.unread[:i:i], int64(i), l.pos-int64(len(l.unread)))
	l.unread = l.unread[i+1:]
	return line
}

func (l *Lines) line(data []byte, length, offset int64) Line {
	l.number++
	line := Line{Data: data, Number: l.number, Offset: offset, Length: length}
	if length > l.maxLen {
		line.Data, line.TooLong = nil, true
	}
	return line
}

// fill reads once, behind the unread bytes, which start the buffer.
func (l *Lines) fill() {
	have := len(l.unread)
	for range maxEmptyReads {
		n, err := l.read(l.buf[have:])
		l.pos += int64(n)
		l.unread, l.err = l.buf[:have+n], err
		if n > 0 || err != nil {
			return
		}
	}
	l.err = io.ErrNoProgress
}

func (l *Lines) read(p []byte) (int, error) {
	if l.at == nil {
		return l.r.Read(p)
	}
	if l.pos >= l.end {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), l.end-l.pos)]
	n, err := l.at.ReadAt(p, l.pos)
	if err == io.EOF {
		if err = nil; n < len(p) {
			err = io.ErrUnexpectedEOF
		}
	}
	return n, err
}

// long reads a line that starts with the whole buffer and goes on behind it.
func (l *Lines) long() (Line, error) {
	offset := l.pos - int64(len(l.unread))
	var data []byte
	length, newline := int64(0), -1
	for {
		part := l.unread
		if newline = bytes.IndexByte(part, '\n'); newline >= 0 {
			part = part[:newline]
		}
		length += int64(len(part))
		if length > l.maxLen {
			data = nil
		} else if l.at == nil {
			data = append(data, part...)
		}
		if newline >= 0 || l.err != nil {
			break
		}
		l.unread = nil
		l.fill()
	}
	if newline < 0 && l.err != io.EOF {
		return Line{}, l.err
	}
	l.unread = l.unread[max(newline+1, 0):]
	if newline < 0 {
		l.unread = nil
	}
	if l.at != nil && length <= l.maxLen {
		data = make([]byte, length)
		if err := l.readAgain(data, offset); err != nil {
			return Line{}, err
		}
	}
	line := l.line(data[:len(data):len(data)], length, offset)
	line.Owned, line.Torn = true, newline < 0
	return line, nil
}

func (l *Lines) readAgain(data []byte, offset int64) error {
	n, err := l.at.ReadAt(data, offset)
	if n == len(data) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	l.err = err
	return err
}
