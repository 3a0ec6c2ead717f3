package conformance

import (
	"slices"
)

const (
	projectsSentence = "ListProjects returns, sorted, the project keys that hold anything."
	subkeysSentence  = "ListSubkeys returns, sorted, the subpaths of one session, never its main transcript."
)

var projectsCases = []testCase{
	{
		name:     "ListProjects/Sorted",
		contract: projectsSentence,
		needs:    Projects,
		run: func(c *env) {
			want := []string{"-home-a", "B", "a", "a-b", "a/b", "aa", "b", "é"}
			for _, i := range []int{3, 0, 7, 1, 5, 2, 6, 4} {
				c.append(in(want[i], "s", ""), user("1"))
			}
			c.wantStrings("ListProjects()", c.projects(), want)
		},
	},
	{
		name:     "ListProjects/Once",
		contract: projectsSentence,
		needs:    Projects,
		run: func(c *env) {
			for _, k := range []key{in("p", "s", ""), in("p", "s", "a"), in("p", "s2", ""), in("p", "s3", "a")} {
				c.append(k, user("1"))
				c.append(k, user("2"))
			}
			c.wantStrings("ListProjects()", c.projects(), []string{"p"})
		},
	},
	{
		name:     "ListProjects/OnlySubpaths",
		contract: projectsSentence,
		needs:    Projects,
		run: func(c *env) {
			c.append(in("p", "s", "subagents/agent-1"), user("1"))
			c.wantStrings("ListProjects()", c.projects(), []string{"p"})
		},
	},
	{
		name:     "ListProjects/Empty",
		contract: projectsSentence,
		needs:    Projects,
		run:      func(c *env) { c.wantStrings("ListProjects()", c.projects(), nil) },
	},
	{
		name:     "ListProjects/Deleted",
		contract: projectsSentence,
		needs:    Projects | Delete,
		run: func(c *env) {
			c.append(in("p", "s", ""), user("1"))
			c.append(in("p", "t", ""), user("1"))
			c.append(in("q", "s", "a"), user("1"))
			c.append(in("r", "s", ""), user("1"))
			c.delete(in("p", "s", ""))
			c.wantStrings("ListProjects()", c.projects(), []string{"p", "q", "r"})
			c.delete(in("p", "t", ""))
			c.delete(in("q", "s", "a"))
			c.wantStrings("ListProjects()", c.projects(), []string{"r"})
		},
	},
}

var subkeysCases = []testCase{
	{
		name:     "ListSubkeys/Sorted",
		contract: subkeysSentence,
		needs:    Subkeys,
		run: func(c *env) {
			want := []string{"a", "a-b", "a/b", "a/b/c", "a0", "journal", "subagents/agent-1", "subagents/agent-10", "subagents/agent-2", "é"}
			for _, i := range []int{6, 2, 9, 0, 4, 8, 1, 7, 5, 3} {
				c.append(c.sub(want[i]), user("1"))
				c.append(c.sub(want[i]), user("2"))
			}
			c.wantStrings("ListSubkeys", c.subkeys(c.key), want)
		},
	},
	{
		name:     "ListSubkeys/NeverMain",
		contract: subkeysSentence,
		needs:    Subkeys,
		run: func(c *env) {
			c.append(c.key, user("1"))
			c.wantStrings("ListSubkeys", c.subkeys(c.key), nil)
			c.append(c.sub("a"), user("1"))
			c.wantStrings("ListSubkeys", c.subkeys(c.key), []string{"a"})
		},
	},
	{
		name:     "ListSubkeys/None",
		contract: "Without any, or without such a session, the list is empty.",
		needs:    Subkeys,
		run: func(c *env) {
			c.wantStrings("ListSubkeys of an unknown session", c.subkeys(c.key), nil)
			c.append(session(c.key, "other"), user("1"))
			c.append(sub(session(c.key, "other"), "a"), user("1"))
			c.wantStrings("ListSubkeys of an unknown session", c.subkeys(c.key), nil)
		},
	},
	{
		name:     "ListSubkeys/OneSession",
		contract: subkeysSentence,
		needs:    Subkeys,
		run: func(c *env) {
			c.append(c.sub("mine"), user("1"))
			c.append(sub(session(c.key, c.key.SessionID+"2"), "other"), user("1"))
			c.append(in("other", c.key.SessionID, "third"), user("1"))
			c.wantStrings("ListSubkeys", c.subkeys(c.key), []string{"mine"})
		},
	},
	{
		name:     "ListSubkeys/WithoutMain",
		contract: subkeysSentence,
		needs:    Subkeys,
		run: func(c *env) {
			c.append(c.sub("b"), user("1"))
			c.append(c.sub("a"), user("1"))
			c.wantStrings("ListSubkeys", c.subkeys(c.key), []string{"a", "b"})
		},
	},
	{
		name:     "ListSubkeys/Deleted",
		contract: subkeysSentence,
		needs:    Subkeys | Delete,
		run: func(c *env) {
			for _, path := range []string{"a", "a/b", "c"} {
				c.append(c.sub(path), user("1"))
			}
			c.delete(c.sub("a"))
			if got := c.subkeys(c.key); slices.Contains(got, "a") {
				c.Errorf("ListSubkeys after Delete of %q = %q", "a", got)
			}
		},
	},
}
