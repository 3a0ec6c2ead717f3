package resume

import (
	"strings"

	"github.com/sessionstore/sessionstore/internal/jsonscan"
)

// span is a part of a text, by offsets.
type span struct{ from, to int }

// cutMembers returns the object without the members that drop names, and with
// every other byte as it is. Depth is 1 for the members of the object itself.
func cutMembers(object []byte, drop func(depth int, key []byte) bool) ([]byte, error) {
	if err := jsonscan.Object(object, nil); err != nil {
		return nil, err
	}
	c := cutter{data: object, drop: drop}
	c.value(jsonscan.SkipSpace(object, 0), 0)
	out := make([]byte, 0, len(object))
	at := 0
	for _, s := range c.cuts {
		out = append(out, object[at:s.from]...)
		at = s.to
	}
	return append(out, object[at:]...), nil
}

// cutter walks over JSON that is known to be valid.
type cutter struct {
	data []byte
	drop func(depth int, key []byte) bool
	cuts []span // in the order of the text
}

// value returns the offset behind the value at i.
func (c *cutter) value(i, depth int) int {
	switch c.data[i] {
	case '"':
		return c.str(i)
	case '{':
		return c.object(i, depth+1)
	case '[':
		i = jsonscan.SkipSpace(c.data, i+1)
		for c.data[i] != ']' {
			i = c.next(c.value(i, depth+1))
		}
		return i + 1
	}
	for i < len(c.data) && strings.IndexByte(",]} \t\r\n", c.data[i]) < 0 {
		i++
	}
	return i
}

// next returns the offset of what follows a member or an element.
func (c *cutter) next(i int) int {
	if i = jsonscan.SkipSpace(c.data, i); c.data[i] == ',' {
		i = jsonscan.SkipSpace(c.data, i+1)
	}
	return i
}

func (c *cutter) str(i int) int {
	for i++; c.data[i] != '"'; i++ {
		if c.data[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// object cuts dropped members together with the comma behind them. Behind the
// last member there is none, so it takes along what comes after the last one
// that stays.
func (c *cutter) object(i, depth int) int {
	kept := -1    // the end of the last member that stays
	dropped := -1 // the start of the dropped members since then
	last := -1    // the end of the last of those
	i = jsonscan.SkipSpace(c.data, i+1)
	for c.data[i] != '}' {
		start := i
		keyEnd := c.str(i)
		value := jsonscan.SkipSpace(c.data, jsonscan.SkipSpace(c.data, keyEnd)+1)
		cuts := len(c.cuts)
		end := c.value(value, depth)
		if c.drop(depth, c.data[start:keyEnd]) {
			c.cuts = c.cuts[:cuts]
			if dropped < 0 {
				dropped = start
			}
			last = end
		} else {
			if dropped >= 0 {
				c.insert(cuts, span{dropped, start})
			}
			dropped, kept = -1, end
		}
		i = c.next(end)
	}
	if dropped >= 0 {
		from := dropped
		if kept >= 0 {
			from = kept
		}
		c.cuts = append(c.cuts, span{from, last})
	}
	return i + 1
}

func (c *cutter) insert(at int, s span) {
	c.cuts = append(c.cuts, span{})
	copy(c.cuts[at+1:], c.cuts[at:])
	c.cuts[at] = s
}

// withoutRefreshTokens edits credentials. Those of MCP servers race too, and
// are spelled in other ways.
func withoutRefreshTokens(text []byte) ([]byte, error) {
	return cutMembers(text, func(_ int, key []byte) bool {
		name := strings.ReplaceAll(string(jsonscan.Unquote(key)), "_", "")
		return strings.EqualFold(name, "refreshToken")
	})
}

// withoutPlugins edits settings.
func withoutPlugins(text []byte) ([]byte, error) {
	return cutMembers(text, func(depth int, key []byte) bool {
		return depth == 1 && (jsonscan.KeyIs(key, "enabledPlugins") ||
			jsonscan.KeyIs(key, "extraKnownMarketplaces") || jsonscan.KeyIs(key, "pluginConfigs"))
	})
}

// sidecarOf returns an agent_metadata entry without the member that makes it
// one: the last one counts where a key is repeated.
func sidecarOf(entry []byte) ([]byte, error) {
	types := 0
	err := jsonscan.Object(entry, func(key, _ []byte) {
		if jsonscan.KeyIs(key, "type") {
			types++
		}
	})
	if err != nil {
		return nil, err
	}
	return cutMembers(entry, func(depth int, key []byte) bool {
		if depth != 1 || !jsonscan.KeyIs(key, "type") {
			return false
		}
		types--
		return types == 0
	})
}
