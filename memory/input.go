package memory

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// fields are the members of a command. Names count exactly; what a command does
// not know it ignores.
type fields map[string]json.RawMessage

func parseInput(input json.RawMessage) (fields, error) {
	if !utf8.Valid(input) {
		return nil, modelErrorf("Error: The input is not valid UTF-8.")
	}
	var f fields
	if err := json.Unmarshal(input, &f); err != nil || f == nil {
		return nil, modelErrorf("Error: The input must be one JSON object with a field `command`.")
	}
	if name := twice(input); name != "" {
		return nil, modelErrorf("Error: The field `%s` is there twice.", name)
	}
	return f, nil
}

// twice returns a name that an object has more than once, of which
// encoding/json would take the last. The input is a valid object.
func twice(input []byte) string {
	d := json.NewDecoder(bytes.NewReader(input))
	seen := map[string]bool{}
	_, _ = d.Token()
	for d.More() {
		token, err := d.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return ""
		}
		if seen[name] {
			return name
		}
		seen[name] = true
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return ""
		}
	}
	return ""
}

// has says whether there is such a field that is not null.
func (f fields) has(name string) bool {
	raw, ok := f[name]
	return ok && !bytes.Equal(bytes.TrimSpace(raw), []byte("null"))
}

// text returns a string, byte for byte what the JSON stands for.
func (f fields) text(name string) (string, error) {
	if !f.has(name) {
		return "", modelErrorf("Error: The field `%s` is missing.", name)
	}
	raw := f[name]
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", modelErrorf("Error: The field `%s` must be a string.", name)
	}
	if loneSurrogate(raw) {
		return "", modelErrorf("Error: The field `%s` holds half of a surrogate pair, such as \\ud83d without the other half.", name)
	}
	return s, nil
}

func (f fields) path(name string) (string, error) {
	path, err := f.text(name)
	if err != nil {
		return "", err
	}
	if err := CheckPath(path); err != nil {
		return "", pathError(name, err)
	}
	return path, nil
}

// pathError tells the model what is wrong with a path.
func pathError(name string, err error) error {
	return modelErrorf("Error: The `%s` is not allowed: %v", name, err)
}

func (f fields) integer(name string) (int, error) {
	if !f.has(name) {
		return 0, modelErrorf("Error: The field `%s` is missing.", name)
	}
	n, err := strconv.Atoi(string(bytes.TrimSpace(f[name])))
	if err != nil {
		return 0, modelErrorf("Error: The field `%s` must be an integer.", name)
	}
	return n, nil
}

// lineRange is a view_range: from the line start to the line end, which is -1
// for the last one.
type lineRange struct{ start, end int }

func (f fields) lineRange(name string) (*lineRange, error) {
	if !f.has(name) {
		return nil, nil
	}
	wrong := modelErrorf("Error: Invalid `%s` parameter: %s. It should be two integers, [start_line, end_line], with -1 as end_line for the end of the file.", name, quotePath(string(f[name])))
	var raw []json.RawMessage
	if err := json.Unmarshal(f[name], &raw); err != nil || len(raw) != 2 {
		return nil, wrong
	}
	start, err1 := strconv.Atoi(string(raw[0]))
	end, err2 := strconv.Atoi(string(raw[1]))
	if err1 != nil || err2 != nil {
		return nil, wrong
	}
	return &lineRange{start, end}, nil
}

// loneSurrogate finds what encoding/json would replace: an escape of half a
// character. The raw string is valid JSON.
func loneSurrogate(raw []byte) bool {
	for i := 0; i+1 < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++
		if raw[i] != 'u' {
			continue
		}
		unit := hex4(raw[i+1:])
		i += 4
		switch {
		case unit >= 0xDC00 && unit <= 0xDFFF:
			return true
		case unit >= 0xD800 && unit <= 0xDBFF:
			if !bytes.HasPrefix(raw[i+1:], []byte(`\u`)) {
				return true
			}
			if low := hex4(raw[i+3:]); low < 0xDC00 || low > 0xDFFF {
				return true
			}
			i += 6
		}
	}
	return false
}

func hex4(b []byte) uint64 {
	n, _ := strconv.ParseUint(string(b[:4]), 16, 16)
	return n
}
