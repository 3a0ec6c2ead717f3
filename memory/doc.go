// Package memory runs the memory tool of an agent model: the tool
// {"type": "memory_20250818", "name": "memory"}, with which a model keeps notes
// in files under /memories on storage of its host.
//
//	store, err := memdir.Open("/var/lib/agent", "user-4711", nil)
//	tool, err := memory.New(store, nil)
//	…
//	result := tool.Run(ctx, input) // the input of a tool_use block, as JSON
//
// What the model does wrong is text for the model. [Tool.Run] returns that text
// and never panics; a failure of the storage is told to the host
// ([Options.OnError], [Result.Err]), and to the model without details.
//
// # Stores
//
// A [Store] holds the files of one scope: one tenant, user or project. Every
// constructor of a store demands the scope, and two scopes never see each
// other's files. The stores of this module:
//
//   - memmap: in the memory of the process
//   - memdir: a local directory
//   - mempg: PostgreSQL
//   - memredis: Redis, Sentinel and Cluster
//   - mems3: S3 and compatible stores
//
// All keep the same rules. Package memorytest holds the test for each of them,
// for stores written elsewhere too.
//
// # Concurrent changes
//
// Any number of tools, hosts and agents may work on one scope. An edit reads a
// file and writes it back only if it is still what was read, else it starts
// again, so no edit is lost and none is applied in half. A crash leaves the old
// file or the new one.
package memory
