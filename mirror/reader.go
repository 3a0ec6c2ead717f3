package mirror

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
)

const (
	readerBuffer  = 64 << 10
	maxEmptyReads = 100
)

// Reader is what remains of an agent's output without its frames. See
// [Mirror.Reader]. It is for one goroutine.
type Reader struct {
	m   *Mirror
	src io.Reader

	buf  []byte
	in   []byte // the part of buf that is not looked at yet
	err  error  // of the source
	rest []byte // ordinary output that Read has not given yet

	passing    bool   // inside an ordinary line
	collecting bool   // inside a frame
	line       []byte // what has come of a frame, or of a line of unknown type
	lookAgain  int    // how long line must be to be looked at again

	queued  [][]byte // output that goes before anything else
	ended   bool     // the last flush is done
	midLine bool     // the last byte of output was not the end of a line
}

// Reader returns the agent's output without its frames, which go to the mirror.
// All other bytes are passed through unchanged and as soon as it is known that
// they are no part of a frame, whole line or not, whatever the length of the
// line. What is pending is appended before a message of type result is passed
// on, and at the end of the stream. Read it to the end: frames follow the last
// result.
//
// A frame is recognised by its first member "type", wherever it stands in the
// line. What follows a frame on the same line is passed on as a line.
// The reader keeps no goroutine. It closes neither its source nor the mirror.
func (m *Mirror) Reader(agentStdout io.Reader) *Reader {
	return &Reader{m: m, src: agentStdout, buf: make([]byte, readerBuffer)}
}

// Read reads ordinary output. Behind the last of it comes io.EOF or the error
// of the source, when all frames are stored or given up.
func (r *Reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(r.rest) == 0 {
		var err error
		if r.rest, err = r.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// WriteTo writes all ordinary output to w. See [io.WriterTo].
func (r *Reader) WriteTo(w io.Writer) (total int64, err error) {
	for {
		if len(r.rest) == 0 {
			if r.rest, err = r.next(); err == io.EOF {
				return total, nil
			} else if err != nil {
				return total, err
			}
		}
		n, err := w.Write(r.rest)
		total += int64(n)
		r.rest = r.rest[n:]
		if err == nil && len(r.rest) > 0 {
			err = io.ErrShortWrite
		}
		if err != nil {
			return total, err
		}
	}
}

// next returns the next piece of ordinary output, valid until the next call.
func (r *Reader) next() ([]byte, error) {
	for {
		if piece := r.step(); len(piece) > 0 {
			r.midLine = piece[len(piece)-1] != '\n'
			return piece, nil
		}
		if len(r.in) > 0 || len(r.queued) > 0 {
			continue
		}
		if r.err == nil {
			r.fill()
		} else if r.ended {
			return nil, r.err
		} else {
			r.finish()
		}
	}
}

// step goes on with what has been read, and may return output.
func (r *Reader) step() []byte {
	switch {
	case len(r.queued) > 0:
		piece := r.queued[0]
		r.queued = r.queued[1:]
		return piece
	case len(r.in) == 0:
		return nil
	case r.passing:
		return r.pass(0)
	case r.collecting:
		r.collect()
		return nil
	}
	return r.begin()
}

func (r *Reader) fill() {
	for range maxEmptyReads {
		n, err := r.src.Read(r.buf)
		r.in, r.err = r.buf[:n], err
		if n > 0 || err != nil {
			return
		}
	}
	r.err = io.ErrNoProgress
}

// begin looks at the start of a line, or at what follows a start that did not
// tell its type.
func (r *Reader) begin() []byte {
	part, whole := firstLine(r.in)
	if len(r.line) == 0 {
		switch kind := kindNow(part, whole); kind {
		case ordinary:
			return r.pass(len(part))
		case resultLine:
			r.beforeResult()
			r.passing = true
			return nil
		case frameLine:
			r.collecting = true
			return nil
		}
	}
	r.line = append(r.line, part...)
	r.in = r.in[len(part):]
	if !whole && len(r.line) < r.lookAgain {
		return nil
	}
	kind := kindNow(r.line, whole)
	if kind == undecided {
		// Scanning again at every read would take forever for a long line.
		if r.lookAgain = 0; len(r.line) > 4096 {
			r.lookAgain = 2 * len(r.line)
		}
		return nil
	}
	r.lookAgain = 0
	if kind == frameLine {
		r.collecting = true
		return nil
	}
	if kind == resultLine {
		r.beforeResult()
	}
	r.queued = append(r.queued, r.line)
	r.line, r.passing = nil, true
	return nil
}

// firstLine returns the first line without its end, or what has come of it.
func firstLine(data []byte) (part []byte, whole bool) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return data[:i], true
	}
	return data, false
}

func kindNow(part []byte, whole bool) lineKind {
	kind := classify(part)
	if kind == undecided && whole {
		return ordinary
	}
	return kind
}

// pass returns the rest of an ordinary line, whose first n bytes hold no line
// end, and the ordinary lines behind it.
func (r *Reader) pass(n int) []byte {
	r.passing = true
	for n < len(r.in) {
		if r.passing {
			i := bytes.IndexByte(r.in[n:], '\n')
			if i < 0 {
				n = len(r.in)
				break
			}
			n += i + 1
			r.passing = false
			continue
		}
		part, whole := firstLine(r.in[n:])
		if kindNow(part, whole) != ordinary {
			break
		}
		r.passing = true
		n += len(part)
	}
	piece := r.in[:n]
	r.in = r.in[n:]
	return piece
}

// collect takes what has come of a frame.
func (r *Reader) collect() {
	part, whole := firstLine(r.in)
	r.line = append(r.line, part...)
	r.in = r.in[len(part):]
	if whole {
		r.in = r.in[1:]
		r.deliver("\n")
	}
}

// deliver gives a frame to the mirror, which keeps the line. End is what ended
// the line.
func (r *Reader) deliver(end string) {
	line := r.line
	r.line, r.collecting = nil, false
	for {
		line = r.m.frameText(line)
		if len(line) == 0 {
			return
		}
		switch kindNow(line, true) {
		case frameLine:
			continue
		case resultLine:
			r.beforeResult()
		}
		r.queued = append(r.queued, append(line, end...))
		return
	}
}

// beforeResult makes the mirror append what is pending. A failure has been
// reported by then.
func (r *Reader) beforeResult() {
	_ = r.m.Flush(context.Background())
	r.queued = append(r.queued, r.m.takeInjections()...)
}

// finish handles the end of the stream.
func (r *Reader) finish() {
	r.ended = true
	if r.collecting {
		r.deliver("")
	}
	if len(r.line) > 0 { // a line that never told its type
		r.queued = append(r.queued, r.line)
		r.midLine, r.line = true, nil
	}
	_ = r.m.Flush(context.Background())
	if errs := r.m.takeInjections(); len(errs) > 0 {
		if r.midLine {
			r.queued = append(r.queued, []byte("\n"))
		}
		r.queued = append(r.queued, errs...)
	}
}

// frameText takes a frame as a line, which nobody changes any more. It returns
// what follows the frame.
func (m *Mirror) frameText(line []byte) (rest []byte) {
	f := parseFrame(line)
	key, foreign := m.key(f.path)
	if f.broken {
		m.count(func(s *Stats) { s.Broken++ })
	}
	if foreign != nil {
		if f.broken {
			foreign.Err = fmt.Errorf("%w: %w", ErrBrokenFrame, foreign.Err)
		}
		foreign.Entries = f.entries
		m.reportForeign(foreign)
		return f.rest
	}
	if err := m.add(key, f.entries); err != nil {
		m.report(&Error{Key: key, Entries: f.entries, Err: err})
	}
	if f.broken {
		m.report(&Error{Key: key, Err: ErrBrokenFrame})
	}
	return f.rest
}

// injection is a message about entries that are not stored, as the agent's own
// hosts write it.
type injection struct {
	Type      string  `json:"type"`
	Subtype   string  `json:"subtype"`
	Error     string  `json:"error"`
	Key       jsonKey `json:"key"`
	UUID      string  `json:"uuid"`
	SessionID string  `json:"session_id"`
}

// maxInjections limits the messages that wait for a reader.
const maxInjections = 1000

// inject is called with mu held.
func (m *Mirror) inject(e *Error) {
	if len(m.injections) == maxInjections {
		return
	}
	text, err := json.Marshal(injection{
		Type: "system", Subtype: "mirror_error", Error: e.Err.Error(),
		Key: jsonKey(e.Key), UUID: newUUID(), SessionID: e.Key.SessionID,
	})
	if err == nil {
		m.injections = append(m.injections, append(text, '\n'))
	}
}

func (m *Mirror) takeInjections() [][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := m.injections
	m.injections = nil
	return list
}

func newUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
