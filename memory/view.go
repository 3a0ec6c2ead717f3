package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// maxLines is how many lines a file may have to be viewed.
	maxLines = 999_999
	// maxImageBytes is what the API takes as one image, before base64.
	maxImageBytes = 5 << 20 / 4 * 3
	// noteChars are kept free for the note at the end of a view that is cut.
	noteChars = 300
	// listedLevels are how deep a view of a directory looks.
	listedLevels = 2
)

func (t *Tool) view(ctx context.Context, in fields) ([]Block, error) {
	p, err := in.path("path")
	if err != nil {
		return nil, err
	}
	lines, err := in.lineRange("view_range")
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		blocks, err := t.viewOnce(ctx, p, lines)
		if !errors.Is(err, errFileNow) {
			return blocks, err
		}
		if try == maxTries {
			return nil, NothingDone(ErrConflict)
		}
		if err := pause(ctx, try); err != nil {
			return nil, NothingDone(err)
		}
	}
}

// errFileNow: a file has been made in the place of a directory, or of nothing,
// while a view looked.
var errFileNow = errors.New("a file has just been made there")

func (t *Tool) viewOnce(ctx context.Context, p string, lines *lineRange) ([]Block, error) {
	if p == Root {
		return t.viewDirectory(ctx, p)
	}
	f, err := t.store.Read(ctx, p, t.opts.MaxFileBytes)
	switch {
	case errors.Is(err, ErrNotFound):
		return t.viewDirectory(ctx, p)
	case errors.Is(err, ErrTooLarge):
		return nil, t.tooLarge(p)
	case err != nil:
		return nil, NothingDone(err)
	}
	return t.viewFile(p, f.Data, lines)
}

func (t *Tool) tooLarge(path string) error {
	return modelErrorf("Error: The file %s is larger than the limit of %d bytes.", path, t.opts.MaxFileBytes)
}

func (t *Tool) viewFile(p string, data []byte, lines *lineRange) ([]Block, error) {
	if media := imageType(p, data); media != "" {
		if len(data) > maxImageBytes {
			return nil, modelErrorf("Error: The image %s has %d bytes, more than the %d that can be shown.", p, len(data), maxImageBytes)
		}
		return []Block{{MediaType: media, Data: data}}, nil
	}
	n := countLines(data)
	if n > maxLines {
		return nil, modelErrorf("File %s exceeds maximum line limit of 999,999 lines.", p)
	}
	first, last := 1, n
	if lines != nil {
		if err := lines.check(n); err != nil {
			return nil, err
		}
		first = lines.start
		if lines.end != -1 {
			last = min(lines.end, n)
		}
	}
	return []Block{{Text: t.fileText(p, data, first, last)}}, nil
}

// check compares a view_range with the number of lines. An end behind the last
// line means the last line.
func (r lineRange) check(n int) error {
	switch {
	case r.start < 1 || r.start > max(n, 1):
		return modelErrorf("Error: Invalid `view_range` parameter: [%d, %d]. Its first element should be within the range of lines of the file: [1, %d]", r.start, r.end, max(n, 1))
	case r.end != -1 && r.end < r.start:
		return modelErrorf("Error: Invalid `view_range` parameter: [%d, %d]. Its second element should be -1, or not less than the first.", r.start, r.end)
	}
	return nil
}

func (t *Tool) fileText(p string, data []byte, first, last int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Here's the content of %s with line numbers:\n", p)
	head := b.String()
	written, cut := numbered(&b, data, first, last, t.room(head, 0))
	if written == last && !cut {
		return b.String()
	}
	// It does not fit: once more, with room for the note.
	b.Reset()
	b.WriteString(head)
	written, cut = numbered(&b, data, first, last, t.room(head, noteChars))
	b.WriteString("\n\n[Cut here: a view shows at most ")
	fmt.Fprintf(&b, "%d characters, and the file has %d lines.", t.opts.MaxViewChars, countLines(data))
	if cut {
		fmt.Fprintf(&b, " Line %d is longer than that.", written)
	}
	if written < last {
		fmt.Fprintf(&b, " Use view_range [%d, %d] to go on.", written+1, last)
	}
	b.WriteString("]")
	return b.String()
}

// room is how many characters are left behind head, 0 if there is no limit.
func (t *Tool) room(head string, reserve int) int {
	if t.opts.MaxViewChars == 0 {
		return 0
	}
	return max(1, t.opts.MaxViewChars-utf8.RuneCountInString(head)-reserve)
}

// imageType returns the media type of a file that has the name and the contents
// of an image. Text under such a name is shown as text: a broken image would
// make the API refuse the whole conversation.
func imageType(p string, data []byte) string {
	switch strings.ToLower(path.Ext(p)) {
	case ".jpg", ".jpeg", ".png":
		if media := http.DetectContentType(data); media == "image/png" || media == "image/jpeg" {
			return media
		}
	}
	return ""
}

func (t *Tool) viewDirectory(ctx context.Context, dir string) ([]Block, error) {
	files, err := t.store.List(ctx, dir)
	if err != nil {
		return nil, NothingDone(err)
	}
	if len(files) > 0 && files[0].Path == dir {
		return nil, errFileNow
	}
	if len(files) == 0 && dir != Root {
		return nil, modelErrorf("The path %s does not exist. Please provide a valid path.", dir)
	}
	head := fmt.Sprintf("Here're the files and directories up to 2 levels deep in %s, excluding hidden items and node_modules:", dir)
	rows := listing(dir, files)
	text := head + "\n" + strings.Join(rows, "\n")
	if limit := t.opts.MaxViewChars; limit == 0 || utf8.RuneCountInString(text) <= limit {
		return []Block{{Text: text}}, nil
	}
	var b strings.Builder
	b.WriteString(head)
	left, shown := t.room(head, noteChars), 0
	for _, row := range rows {
		if left -= utf8.RuneCountInString(row) + 1; left < 0 {
			break
		}
		b.WriteString("\n" + row)
		shown++
	}
	fmt.Fprintf(&b, "\n\n[Cut here: a view shows at most %d characters, and %d of %d files and directories fit. The other %d can be viewed by path: view a subdirectory, or a file by its name.]",
		t.opts.MaxViewChars, shown, len(rows), len(rows)-shown)
	return []Block{{Text: b.String()}}, nil
}

// listing makes the rows of a directory: itself, then what is in it, each
// directory before its contents. A directory has the size of all its files,
// also of those that are not shown.
func listing(dir string, files []FileInfo) []string {
	sizes := map[string]int64{dir: 0}
	for _, f := range files {
		sizes[dir] += f.Size
		rest := strings.Split(strings.TrimPrefix(f.Path, dir+"/"), "/")
		for i := range min(len(rest), listedLevels) {
			if strings.HasPrefix(rest[i], ".") || rest[i] == "node_modules" {
				break
			}
			sizes[dir+"/"+strings.Join(rest[:i+1], "/")] += f.Size
		}
	}
	paths := make([]string, 0, len(sizes))
	for p := range sizes {
		paths = append(paths, p)
	}
	slices.SortFunc(paths, comparePaths)
	rows := make([]string, len(paths))
	for i, p := range paths {
		rows[i] = sizeText(sizes[p]) + "\t" + p
	}
	return rows
}

// comparePaths sorts by segments, so that nothing comes between a directory and
// its contents.
func comparePaths(a, b string) int {
	return bytes.Compare([]byte(strings.ReplaceAll(a, "/", "\x00")), []byte(strings.ReplaceAll(b, "/", "\x00")))
}

func sizeText(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%dB", n)
	}
	size, unit := float64(n)/1024, "K"
	for _, next := range []string{"M", "G", "T"} {
		if size < 1023.95 { // which would be printed as 1024.0
			break
		}
		size, unit = size/1024, next
	}
	return fmt.Sprintf("%.1f%s", size, unit)
}
