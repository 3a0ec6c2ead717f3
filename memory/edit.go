package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// maxTries is how often an edit starts again because the file has changed
	// since it was read. Of those who meet, one gets through each time.
	maxTries     = 200
	longestPause = 50 * time.Millisecond

	// snippetLines are shown before and behind an edit.
	snippetLines = 2
	// maxOccurrences are listed when there are too many.
	maxOccurrences = 200
)

// edit is a change to the bytes of a file. It returns the new bytes, and the
// first and the last of their lines that it has touched.
type edit func(old []byte) (data []byte, first, last int, err error)

// change reads a file, edits it and writes it back if it is still the same, as
// often as it takes. It returns what was written.
func (t *Tool) change(ctx context.Context, path string, missing error, e edit) (data []byte, first, last int, err error) {
	for try := 1; ; try++ {
		data, first, last, err = t.changeOnce(ctx, path, missing, e)
		if !errors.Is(err, ErrConflict) || try == maxTries {
			return data, first, last, err
		}
		if err := pause(ctx, try); err != nil {
			return nil, 0, 0, err
		}
	}
}

func (t *Tool) changeOnce(ctx context.Context, path string, missing error, e edit) (data []byte, first, last int, err error) {
	if path == Root {
		return nil, 0, 0, missing
	}
	f, err := t.store.Read(ctx, path, t.opts.MaxFileBytes)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, 0, 0, missing
	case errors.Is(err, ErrTooLarge):
		return nil, 0, 0, t.tooLarge(path)
	case err != nil:
		return nil, 0, 0, NothingDone(err)
	}
	data, first, last, err = e(f.Data)
	if err == nil {
		data, err = t.write(ctx, path, data, f.Version)
	}
	return data, first, last, err
}

// pause keeps those who met from meeting again.
func pause(ctx context.Context, try int) error {
	wait := min(time.Millisecond<<min(try, 10), longestPause)
	timer := time.NewTimer(rand.N(wait))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// write stores a file, redacted, and returns what it has stored.
func (t *Tool) write(ctx context.Context, path string, data []byte, ifVersion string) ([]byte, error) {
	data, err := t.redact(ctx, path, data)
	if err != nil {
		return nil, err
	}
	if limit := t.opts.MaxFileBytes; limit > 0 && int64(len(data)) > limit {
		return nil, modelErrorf("Error: The file %s would have %d bytes. At most %d are allowed; nothing was changed.", path, len(data), limit)
	}
	err = t.store.Write(ctx, path, data, ifVersion, t.limits)
	if errors.Is(err, ErrLimit) {
		return nil, modelErrorf("Error: The memory is full, so nothing was changed.%s Delete or shorten files to make room.", t.limitText())
	}
	return data, err
}

func (t *Tool) limitText() string {
	var parts []string
	if t.limits.Files > 0 {
		parts = append(parts, fmt.Sprintf("%d files", t.limits.Files))
	}
	if t.limits.Bytes > 0 {
		parts = append(parts, fmt.Sprintf("%d bytes", t.limits.Bytes))
	}
	return " It holds at most " + strings.Join(parts, " and ") + "."
}

func (t *Tool) strReplace(ctx context.Context, in fields) (string, error) {
	path, err := in.path("path")
	if err != nil {
		return "", err
	}
	before, err := in.text("old_str")
	if err != nil {
		return "", err
	}
	if before == "" {
		return "", modelErrorf("Error: The field `old_str` must not be empty.")
	}
	after := ""
	if in.has("new_str") {
		if after, err = in.text("new_str"); err != nil {
			return "", err
		}
	}
	missing := modelErrorf("Error: The path %s does not exist. Please provide a valid path.", path)
	data, first, last, err := t.change(ctx, path, missing, func(old []byte) ([]byte, int, int, error) {
		return replaceOnce(old, before, after, path)
	})
	if err != nil {
		return "", err
	}
	t.changed(ctx, Change{Command: "str_replace", Path: path, Bytes: len(data)})
	return "The memory file has been edited." + t.snippet(data, first, last), nil
}

// replaceOnce replaces the only occurrence of a text.
func replaceOnce(old []byte, before, after, path string) (data []byte, first, last int, err error) {
	at := bytes.Index(old, []byte(before))
	if at < 0 {
		return nil, 0, 0, modelErrorf("No replacement was performed, old_str `%s` did not appear verbatim in %s.", before, path)
	}
	end := at + len(before)
	if bytes.Contains(old[end:], []byte(before)) {
		return nil, 0, 0, modelErrorf("No replacement was performed. Multiple occurrences of old_str `%s` in lines: %s. Please ensure it is unique", before, occurrences(old, before))
	}
	data = slices.Concat(old[:at], []byte(after), old[end:])
	return data, lineAt(data, at), lineAt(data, at+len(after)), nil
}

// occurrences lists the lines in which a text begins, each once.
func occurrences(text []byte, what string) string {
	var lines []string
	line, from := 1, 0
	for {
		i := bytes.Index(text[from:], []byte(what))
		if i < 0 {
			return strings.Join(lines, ", ")
		}
		line += bytes.Count(text[from:from+i], []byte("\n"))
		if number := strconv.Itoa(line); len(lines) == 0 || lines[len(lines)-1] != number {
			if len(lines) == maxOccurrences {
				return strings.Join(lines, ", ") + ", …"
			}
			lines = append(lines, number)
		}
		line += strings.Count(what, "\n")
		from += i + len(what)
	}
}

// snippet shows the lines around an edit.
func (t *Tool) snippet(data []byte, first, last int) string {
	n := countLines(data)
	if n == 0 {
		return ""
	}
	first, last = max(1, min(first, n)-snippetLines), min(n, last+snippetLines)
	b := &strings.Builder{}
	b.WriteString("\n")
	if written, cut := numbered(b, data, first, last, t.opts.MaxViewChars); written < last || cut {
		fmt.Fprintf(b, "\n[Cut here: at most %d characters are shown.]", t.opts.MaxViewChars)
	}
	return b.String()
}

func (t *Tool) insert(ctx context.Context, in fields) (string, error) {
	path, err := in.path("path")
	if err != nil {
		return "", err
	}
	line, err := in.integer("insert_line")
	if err != nil {
		return "", err
	}
	text, err := in.text("insert_text")
	if err != nil {
		return "", err
	}
	missing := modelErrorf("Error: The path %s does not exist", path)
	data, _, _, err := t.change(ctx, path, missing, func(old []byte) ([]byte, int, int, error) {
		data, err := insertAt(old, line, text)
		return data, 0, 0, err
	})
	if err != nil {
		return "", err
	}
	t.changed(ctx, Change{Command: "insert", Path: path, Bytes: len(data)})
	return fmt.Sprintf("The file %s has been edited.", path), nil
}

// insertAt puts text behind a line, as lines of its own: it gets a line feed
// before it where that line has none, and one at its end where it has none and
// something follows or the line before it has one.
func insertAt(old []byte, line int, text string) ([]byte, error) {
	if n := countLines(old); line < 0 || line > n {
		return nil, modelErrorf("Error: Invalid `insert_line` parameter: %d. It should be within the range of lines of the file: [0, %d]", line, n)
	}
	at := lineStart(old, line)
	before, after := old[:at], old[at:]
	open := len(before) > 0 && before[len(before)-1] != '\n'
	if open {
		text = "\n" + text
	} else if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return slices.Concat(before, []byte(text), after), nil
}
