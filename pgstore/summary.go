package pgstore

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sessionstore/sessionstore"
)

// The summary of a session is the fold of its main transcript
// ([sessionstore.SummaryState]). The server keeps it, one column per member,
// each holding the JSON text of its value. What an entry contributes does not
// depend on the entries before it, only whether it counts does; so the client
// folds each entry alone, sends its contributions as events, and the server
// takes those of the entries that it really adds, under the lock of the
// transcript.

// Rules say which contribution to a member counts.
const (
	first   = iota // the first one
	last           // the last one
	command        // the first one that is not empty and not behind the first prompt
	tag            // the last one, and it may remove the member
)

// The members, in the order of the JSON form. firstPromptLocked is not among
// them: it says that there is a firstPrompt.
var summaryMembers = []struct {
	name, column string
	rule         int
}{
	{"isSidechain", "is_sidechain", first},
	{"createdAt", "created_at", first},
	{"cwd", "cwd", first},
	{"firstPrompt", "first_prompt", first},
	{"commandFallback", "command_fallback", command},
	{"customTitle", "custom_title", last},
	{"aiTitle", "ai_title", last},
	{"lastPrompt", "last_prompt", last},
	{"summaryHint", "summary_hint", last},
	{"gitBranch", "git_branch", last},
	{"tag", "tag", tag},
}

const (
	isSidechainField = 0
	firstPromptField = 3
	tagField         = 10
	fields           = 11
)

// contributions are what a batch contributes to the summary.
type contributions struct {
	// all has one element per member: what counts if every entry is added; nil
	// is nothing, and the empty text a tag that is removed.
	all []*string
	// Member field[n] gets value[n] from each of the entries from[n] to to[n],
	// which count from 1. The server needs this if entries turn out to be
	// repeats.
	from, to, field []int32
	value           []string

	prompt int           // the entry that all has the first prompt from
	latest [fields]int32 // where the latest value of each member stands, counted from 1
}

// newContributions does not leave slices nil: they would be NULL on the server.
func newContributions() contributions {
	return contributions{all: make([]*string, fields), from: []int32{}, to: []int32{}, field: []int32{}, value: []string{}}
}

// untagged is a state whose tag no entry can give, to tell an entry that
// removes the tag from one that says nothing about it.
var untagged = func() (s sessionstore.SummaryState) {
	if err := s.UnmarshalJSON([]byte(`{"tag":` + noTag + `}`)); err != nil {
		panic(err)
	}
	return s
}()

// noTag is an empty tag: in an entry it removes the tag.
const noTag = `""`

// add takes in what the entry at an index, which counts from 1, contributes.
func (c *contributions) add(index int, entry *sessionstore.Checked) {
	state := untagged
	state.FoldChecked(entry)
	next := 0 // both are in the same order
	for name, value := range state.Members() {
		for field := next; field < fields; field++ {
			if summaryMembers[field].name == name {
				c.put(index, field, value)
				next = field + 1
				break
			}
		}
	}
	if next <= tagField {
		c.put(index, tagField, "") // removed
	}
}

// put takes in the value of a member after an entry has been folded alone.
func (c *contributions) put(index, field int, value string) {
	rule := summaryMembers[field].rule
	switch {
	case rule == tag && value == noTag, rule != tag && value == "":
		return
	case field == isSidechainField && index > 1:
		return // only the very first entry decides
	}
	at := int(c.latest[field]) - 1
	switch {
	case at >= 0 && c.value[at] == value && int(c.to[at]) == index-1:
		c.to[at]++ // most entries repeat what the one before says
	default:
		at = len(c.value)
		c.from, c.to = append(c.from, int32(index)), append(c.to, int32(index))
		c.field, c.value = append(c.field, int32(field)), append(c.value, value)
		c.latest[field] = int32(at + 1)
	}
	if c.counts(index, field, rule) {
		c.all[field] = &c.value[at]
		if field == firstPromptField {
			c.prompt = index
		}
	}
}

// counts applies the rule of a member to another contribution.
func (c *contributions) counts(index, field, rule int) bool {
	switch was := c.all[field]; rule {
	case first:
		return was == nil
	case command:
		// In the entry of the prompt a command stands before it.
		return (was == nil || *was == noCommand) && (c.prompt == 0 || index <= c.prompt)
	}
	return true
}

// noCommand is an empty command, which any other replaces.
const noCommand = `""`

// summaryColumns lists the columns.
func summaryColumns(prefix string) string {
	return eachMember(func(_ int, column string, _ int) string { return prefix + column })
}

// summaryCreate are the values of a new row, from an array v.
var summaryCreate = eachMember(func(field int, _ string, rule int) string {
	if rule == tag {
		return fmt.Sprintf("nullif(v[%d], '')", field+1)
	}
	return fmt.Sprintf("v[%d]", field+1)
})

// summaryFold makes an array like contributions.all out of the relation
// counting (i, field, value).
var summaryFold = fmt.Sprintf(`ARRAY(
    SELECT (
      SELECT value FROM counting
      WHERE field = f AND NOT (f IN (%[1]s) AND i > coalesce((SELECT min(i) FROM counting WHERE field = %[2]d), i))
      ORDER BY f IN (%[1]s) AND value = '%[3]s', CASE WHEN f IN (%[4]s) THEN -i ELSE i END LIMIT 1
    )
    FROM generate_series(0, %[5]d) AS f ORDER BY f
  )`, fieldsWith(command), firstPromptField, noCommand, fieldsWith(last, tag), fields-1)

// fieldsWith lists the members under some rules.
func fieldsWith(rules ...int) string {
	var list []string
	for field, m := range summaryMembers {
		if slices.Contains(rules, m.rule) {
			list = append(list, strconv.Itoa(field))
		}
	}
	return strings.Join(list, ", ")
}

// summaryMerge are the new values, from the rows old and delta.
var summaryMerge = eachMember(func(field int, column string, rule int) string {
	was, is := "old."+column, fmt.Sprintf("delta.v[%d]", field+1)
	merged := ""
	switch rule {
	case first:
		merged = fmt.Sprintf("coalesce(%s, %s)", was, is)
	case last:
		merged = fmt.Sprintf("coalesce(%s, %s)", is, was)
	case command:
		merged = fmt.Sprintf(`CASE WHEN old.first_prompt IS NULL AND coalesce(%[1]s, '%[3]s') = '%[3]s' THEN coalesce(%[2]s, %[1]s) ELSE %[1]s END`, was, is, noCommand)
	case tag:
		merged = fmt.Sprintf("nullif(coalesce(%s, %s), '')", is, was)
	}
	return merged + " AS " + column
})

func eachMember(f func(field int, column string, rule int) string) string {
	parts := make([]string, len(summaryMembers))
	for i, m := range summaryMembers {
		parts[i] = f(i, m.column, m.rule)
	}
	return strings.Join(parts, ", ")
}

// summaryJSON makes the JSON form out of the values of the columns; nil is
// NULL.
func summaryJSON(values [][]byte) json.RawMessage {
	size := 2 + len(`,"firstPromptLocked":true`)
	for i, v := range values {
		size += len(v) + len(summaryMembers[i].name) + 4
	}
	out := append(make([]byte, 0, size), '{')
	for i, v := range values {
		if v == nil {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, '"'), summaryMembers[i].name...), '"', ':')
		out = append(out, v...)
		if i == firstPromptField {
			out = append(out, `,"firstPromptLocked":true`...)
		}
	}
	return append(out, '}')
}
