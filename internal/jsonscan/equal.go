package jsonscan

import (
	"bytes"
	"math/big"
	"sort"
	"strings"
)

// Equal reports whether two valid JSON texts have the same value. Members may
// come in any order, and numbers and strings may be spelled differently: 1e2
// equals 100, "a" equals "\u0061". Nothing is rounded. What entries must not
// lose counts: -0 differs from 0, and a repeated key differs from a single one.
func Equal(a, b []byte) bool {
	return bytes.Equal(a, b) || bytes.Equal(canonical(a), canonical(b))
}

// Canonical returns a spelling of a valid JSON text that two texts share exactly
// when Equal finds them equal.
func Canonical(data []byte) []byte { return canonical(data) }

// canonical returns a spelling of a valid text that is the same for all texts
// of equal value.
func canonical(data []byte) []byte {
	out, _ := appendCanonical(make([]byte, 0, len(data)), data, SkipSpace(data, 0))
	return out
}

func appendCanonical(out, data []byte, i int) ([]byte, int) {
	switch c := data[i]; {
	case c == '{':
		return appendObject(out, data, i)
	case c == '[':
		return appendArray(out, data, i)
	case c == '"':
		end, _ := skipString(data, i+1)
		return appendString(out, data[i:end]), end
	case c == '-' || '0' <= c && c <= '9':
		end, _ := skipNumber(data, i)
		return append(out, canonicalNumber(string(data[i:end]))...), end
	default:
		end := i
		for end < len(data) && 'a' <= data[end] && data[end] <= 'z' {
			end++
		}
		return append(out, data[i:end]...), end
	}
}

func appendArray(out, data []byte, i int) ([]byte, int) {
	out = append(out, '[')
	i = SkipSpace(data, i+1)
	for data[i] != ']' {
		if out, i = appendCanonical(out, data, i); data[SkipSpace(data, i)] == ',' {
			i = SkipSpace(data, i) + 1
		}
		out = append(out, ',')
		i = SkipSpace(data, i)
	}
	return append(out, ']'), i + 1
}

func appendObject(out, data []byte, i int) ([]byte, int) {
	type member struct{ key, value []byte }
	var members []member
	i = SkipSpace(data, i+1)
	for data[i] != '}' {
		end, _ := skipString(data, i+1)
		m := member{key: appendString(nil, data[i:end])}
		i = SkipSpace(data, SkipSpace(data, end)+1) // behind the colon
		m.value, i = appendCanonical(nil, data, i)
		members = append(members, m)
		i = SkipSpace(data, i)
		if data[i] == ',' {
			i = SkipSpace(data, i+1)
		}
	}
	// Stable: values of a repeated key keep their order, which has a meaning.
	sort.SliceStable(members, func(a, b int) bool { return bytes.Compare(members[a].key, members[b].key) < 0 })
	out = append(out, '{')
	for _, m := range members {
		out = append(append(out, m.key...), ':')
		out = append(append(out, m.value...), ',')
	}
	return append(out, '}'), i + 1
}

// appendString spells a string with the one escape that keeps it delimited.
func appendString(out, literal []byte) []byte {
	out = append(out, '"')
	for _, c := range Unquote(literal) {
		if c == '"' || c == '\\' {
			out = append(out, '\\')
		}
		out = append(out, c)
	}
	return append(out, '"')
}

// canonicalNumber spells a number as its sign, its significant digits without
// outer zeros, and a power of ten, which may be of any size.
func canonicalNumber(s string) string {
	sign := ""
	if rest, neg := strings.CutPrefix(s, "-"); neg {
		sign, s = "-", rest
	}
	mantissa, exponent := s, "0"
	if e := strings.IndexAny(s, "eE"); e >= 0 {
		mantissa, exponent = s[:e], s[e+1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	trimmed := strings.TrimRight(digits, "0")
	if trimmed == "" {
		return sign + "0"
	}
	power, _ := new(big.Int).SetString(strings.TrimPrefix(exponent, "+"), 10)
	power.Add(power, big.NewInt(int64(len(digits)-len(trimmed)-len(fraction))))
	return sign + trimmed + "e" + power.String()
}
