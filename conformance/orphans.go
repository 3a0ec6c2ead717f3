package conformance

import "github.com/sessionstore/sessionstore"

const orphansSentence = "ListOrphans returns, sorted, the ids of the sessions of a project that have subpaths and no main transcript."

func (c *env) orphans(project string) []string {
	c.Helper()
	got, err := sessionstore.ListOrphans(c.Context(), c.store, project)
	if err != nil {
		c.Fatalf("ListOrphans(%q) = %v, want no error", project, err)
	}
	return got
}

var orphansCases = []testCase{
	{
		name:     "ListOrphans/Sorted",
		contract: orphansSentence,
		needs:    Orphans,
		run: func(c *env) {
			c.wantStrings("ListOrphans of an unknown project", c.orphans(c.key.ProjectKey), nil)
			for _, id := range []string{"b", "*", "c", "a"} {
				c.append(sub(session(c.key, id), "subagents/agent-1"), user("1"))
				c.append(sub(session(c.key, id), "subagents/agent-2"), user("1"))
			}
			c.append(sub(in("other", "d", ""), "x"), user("1"))
			c.wantStrings("ListOrphans", c.orphans(c.key.ProjectKey), []string{"*", "a", "b", "c"})
		},
	},
	{
		name:     "ListOrphans/NoMainTranscript",
		contract: orphansSentence,
		needs:    Orphans,
		run: func(c *env) {
			c.append(session(c.key, "whole"), user("1"))
			c.append(sub(session(c.key, "whole"), "x"), user("1"))
			c.append(session(c.key, "plain"), user("1"))
			c.append(sub(session(c.key, "orphan"), "x"), user("1"))
			c.wantStrings("ListOrphans", c.orphans(c.key.ProjectKey), []string{"orphan"})
			c.append(session(c.key, "orphan"), user("1"))
			c.wantStrings("ListOrphans", c.orphans(c.key.ProjectKey), nil)
		},
	},
	{
		name:     "ListOrphans/Deleted",
		contract: orphansSentence,
		needs:    Orphans | Delete,
		run: func(c *env) {
			for _, id := range []string{"a", "b"} {
				c.append(sub(session(c.key, id), "x"), user("1"))
				c.append(sub(session(c.key, id), "y"), user("1"))
			}
			c.delete(session(c.key, "a"))
			c.delete(sub(session(c.key, "b"), "x"))
			c.wantStrings("ListOrphans", c.orphans(c.key.ProjectKey), []string{"b"})
			c.delete(sub(session(c.key, "b"), "y"))
			c.wantStrings("ListOrphans", c.orphans(c.key.ProjectKey), nil)
		},
	},
}
