package standin

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/internal/recorded"
)

// turn answers a prompt.
func (a *Agent) turn(prompt string) error {
	main := a.file("")
	has := func(word string) bool { return strings.Contains(prompt, word) }
	switch {
	case has("exit"):
		return exitError(7)
	case has("play"):
		return a.play()
	}
	if err := a.say(main, "user", prompt); err != nil {
		return err
	}
	if err := a.pause(); err != nil {
		return err
	}
	for _, step := range []struct {
		word string
		do   func() error
	}{{"tool", a.tool}, {"subagent", a.subagent}, {"hang", a.hang}} {
		if has(step.word) {
			if err := step.do(); err != nil {
				return err
			}
		}
	}
	answer := fmt.Sprintf("Answer to %q. Prompts before it: %d.", prompt, a.prompts)
	a.prompts++
	if err := a.say(main, "assistant", []any{map[string]any{"type": "text", "text": answer}}); err != nil {
		return err
	}
	return a.result(answer, prompt)
}

// result ends a turn. Some more lines are written behind it.
func (a *Agent) result(answer, prompt string) error {
	if err := a.pause(); err != nil {
		return err
	}
	err := a.print(map[string]any{
		"type": "result", "subtype": "success", "is_error": false, "result": answer,
		"session_id": a.session, "num_turns": 1, "uuid": newUUID(),
	})
	if err != nil {
		return err
	}
	last := `{"type":"last-prompt","lastPrompt":` + quote(prompt) + `,"sessionId":"` + a.session + `"}`
	if err := a.write(a.file(""), json.RawMessage(last)); err != nil {
		return err
	}
	return a.flush()
}

// say writes a message to a transcript and, if it is the main one, prints it.
func (a *Agent) say(path, role string, content any) error {
	uuid, parent := newUUID(), "null"
	if p := a.parents[path]; p != "" {
		parent = strconv.Quote(p)
	}
	a.parents[path] = uuid
	message := map[string]any{"role": role, "content": content}
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	sidechain := path != a.file("")
	entry := fmt.Sprintf(`{"parentUuid":%s,"isSidechain":%v,"type":%q,"message":%s,"uuid":%q,"timestamp":%q,"cwd":%s,"sessionId":%q,"version":"stand-in"}`,
		parent, sidechain, role, text, uuid, time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), quote(a.Dir), a.session)
	if err := a.write(path, json.RawMessage(entry)); err != nil || sidechain {
		return err
	}
	if _, isPrompt := content.(string); isPrompt {
		return nil // the host knows what it has said
	}
	return a.print(map[string]any{
		"type": role, "message": message, "parent_tool_use_id": nil, "session_id": a.session, "uuid": uuid,
	})
}

// tool asks for permission and waits for the answer.
func (a *Agent) tool() error {
	a.questions++
	id, use := fmt.Sprintf("question-%d", a.questions), "toolu_"+strconv.Itoa(a.questions)
	arguments := map[string]any{"command": "date", "n": json.Number("12345678901234567890")}
	err := a.say(a.file(""), "assistant", []any{map[string]any{"type": "tool_use", "id": use, "name": "Bash", "input": arguments}})
	if err != nil {
		return err
	}
	err = a.print(map[string]any{"type": "control_request", "request_id": id, "request": map[string]any{
		"subtype": "can_use_tool", "tool_name": "Bash", "input": arguments, "tool_use_id": use,
	}})
	if err != nil {
		return err
	}
	behavior := ""
	for behavior == "" {
		in, err := a.read()
		if err != nil {
			return err
		}
		if in.Type == "control_response" && in.Response.RequestID == id {
			behavior = in.Response.Response.Behavior
			if behavior == "" {
				behavior = "deny"
			}
		}
	}
	return a.say(a.file(""), "user", []any{map[string]any{
		"type": "tool_result", "tool_use_id": use, "content": behavior, "is_error": behavior != "allow",
	}})
}

// subagent writes a transcript of its own. Its metadata comes twice.
func (a *Agent) subagent() error {
	id := strings.ReplaceAll(newUUID(), "-", "")[:17]
	path := a.file("subagents/agent-" + id)
	meta := func(finished bool) error {
		return a.metadata(path, json.RawMessage(fmt.Sprintf(
			`{"type":"agent_metadata","agentType":"counter","description":"Count things","toolUseId":"toolu_s","spawnDepth":1,"finished":%v}`, finished)))
	}
	steps := []func() error{
		func() error { return meta(false) },
		func() error { return a.say(path, "user", "count") },
		a.pause,
		func() error {
			return a.say(path, "assistant", []any{map[string]any{"type": "text", "text": "1 2 3"}})
		},
		func() error { return meta(true) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// hang keeps the turn open until the input ends, as a tool does that never
// returns.
func (a *Agent) hang() error {
	for {
		if _, err := a.read(); err != nil {
			return err
		}
	}
}

// play plays the recording from where the files on the disk end.
func (a *Agent) play() error {
	limit, err := strconv.Atoi(a.Getenv("STANDIN_BATCHES"))
	if err != nil {
		limit = 1 << 30
	}
	a.session = recorded.SessionID
	done := map[string]int{}
	for b, err := range recorded.Batches() {
		if err != nil {
			return err
		}
		if limit--; limit < 0 {
			return a.hang()
		}
		path := a.file(b.Key.Subpath)
		if _, known := done[path]; !known {
			lines, err := readLines(path)
			if err != nil {
				return err
			}
			done[path] = len(lines)
		}
		if lines := linesOf(b); done[path] >= lines && lines > 0 { // known, its metadata too
			done[path] -= lines
			continue
		}
		if err := a.playBatch(path, b, done); err != nil {
			return err
		}
		if err := a.pause(); err != nil {
			return err
		}
	}
	return a.print(map[string]any{
		"type": "result", "subtype": "success", "is_error": false, "result": filepath.Base(a.file("")), "session_id": a.session,
	})
}

// linesOf counts the entries of a batch that are lines of a file.
func linesOf(b recorded.Batch) (lines int) {
	for _, e := range b.Entries {
		if b.Key.Subpath == "" || e.Type() != sessionstore.MetadataType {
			lines++
		}
	}
	return lines
}

// playBatch writes what the files don't have.
func (a *Agent) playBatch(path string, b recorded.Batch, done map[string]int) error {
	for _, e := range b.Entries {
		var err error
		switch {
		case b.Key.Subpath != "" && e.Type() == sessionstore.MetadataType:
			err = a.metadata(path, json.RawMessage(e))
		case done[path] > 0:
			done[path]--
		default:
			err = a.write(path, json.RawMessage(e))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
