package conformance

const metadataSentence = "Everything else is opaque: an agent_metadata entry is kept like any other, unless the layout of the store can hold only the last one of a subpath transcript."

func metadata(n string) entry {
	return entry(`{"type":"agent_metadata","agentType":"explore","toolUseId":"` + n + `"}`)
}

var metadataCases = []testCase{
	{
		name:     "Metadata/Subpath",
		contract: metadataSentence,
		run: func(c *env) {
			k := c.sub("subagents/agent-1")
			c.append(k, metadata("1"), user("1"))
			c.append(k, user("2"), metadata("2"))
			c.append(k, user("3"))
			if c.h.LastMetadataOnly {
				c.wantLoad(k, metadata("2"), user("1"), user("2"), user("3"))
			} else {
				c.wantLoad(k, metadata("1"), user("1"), user("2"), metadata("2"), user("3"))
			}
		},
	},
	{
		name:     "Metadata/Alone",
		contract: metadataSentence,
		run: func(c *env) {
			k := c.sub("subagents/agent-1")
			c.append(k, metadata("1"))
			c.wantLoad(k, metadata("1"))
			if c.has(Subkeys) {
				c.wantStrings("ListSubkeys", c.subkeys(k), []string{k.Subpath})
			}
			if c.has(Delete) {
				c.delete(k)
				c.wantUnknown(k)
			}
		},
	},
	{
		name:     "Metadata/Main",
		contract: metadataSentence,
		run: func(c *env) {
			// In a main transcript it is an ordinary entry everywhere.
			batch := []entry{user("1"), metadata("1"), user("2"), metadata("2"), metadata("1")}
			c.append(c.key, batch...)
			c.wantLoad(c.key, batch...)
		},
	},
}
