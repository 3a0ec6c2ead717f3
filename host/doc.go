// Package host runs an agent process whose session lives in a store: on this
// host now, and on another one later.
//
//	a, err := host.Start(ctx, store, host.Options{Session: resume.Options{SessionID: id}})
//	if err != nil { … }
//	defer a.Close(ctx)
//	a.Prompt("go on")
//	for m, err := range a.Messages() { … }
//
// [Start] materialises the session with package resume, starts the agent with
// the arguments and the environment that it needs, and mirrors what it writes
// with package mirror. [Agent.Close] ends all that in the order in which nothing
// is lost: the agent's input, its output to the last frame, the process, the
// mirror, and at last the private directory.
//
// # Where the agent writes
//
// An agent that resumes a session, or that has a ProjectKey of its own or
// resume.Options.Fresh, runs in a private config directory, which Close removes.
// A new session with the default ProjectKey does not: the agent writes it into
// its own config directory, usually ~/.claude/projects of the user who runs the
// host, and there it stays. Set Fresh to avoid that.
//
// A host that is killed leaves private directories behind. [Recover] brings what
// they hold into the store, in its place; call it when the host starts:
//
//	_, err := host.Recover(ctx, store, tempDir, &host.RecoverOptions{Spill: spillDir})
//
// The mirror stores what the agent's frames name, and an agent can name another
// project's path. [RecoverOptions].Accept checks what is recovered, spilled
// batches too; a store that refuses other keys checks what a live agent sends.
//
// # Why a package
//
// It is a package and not an example, because that order, and what has to
// happen when one of the steps fails, is the same for every host and easy to
// get wrong. A host that starts its agent otherwise uses packages resume and
// mirror directly; this package uses nothing else of them.
//
// # How the agent is started
//
//	claude --output-format stream-json --input-format stream-json --verbose \
//	  --permission-prompt-tool=stdio --session-mirror [--resume=ID] [Options.Args]
//
// CLAUDE_CODE_ENTRYPOINT names the caller; it is "sdk-go" unless the environment
// says otherwise. The agent runs in a process group of its own where the system
// has them: Ctrl-C in a terminal reaches the host, which then ends the agent as
// it sees fit. When the host dies, the agent's input ends and it ends itself.
//
// # Questions
//
// The agent asks before it uses a tool. [Options].OnPermission answers. Without
// it every question is denied, and so are questions of kinds that this package
// does not know: an agent must not wait for ever.
package host
