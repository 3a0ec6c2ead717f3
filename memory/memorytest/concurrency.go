package memorytest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/sessionstore/sessionstore/memory"
)

func numbered(i int) string { return fmt.Sprintf("%smany/%05d", dir, i) }

// parallel calls f for 0 to n-1, by a few goroutines. f may end the case.
func (e *env) parallel(n int, f func(i int)) {
	e.Helper()
	const workers = 8
	var wg sync.WaitGroup
	for w := range min(workers, n) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := w; i < n; i += workers {
				f(i)
			}
		}()
	}
	wg.Wait()
	if e.Failed() {
		e.FailNow()
	}
}

func (e *env) sameSet(what string, got, want []string) {
	e.Helper()
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		e.Fatalf("%s = %q, want %q", what, got, want)
	}
}

// handles are two stores on the same files, of two hosts if the harness can.
func (e *env) handles() [2]*env {
	if e.h.Reopen != nil {
		return [2]*env{e, e.reopen()}
	}
	return [2]*env{e, e}
}

// run runs a command of the tool.
func (e *env) run(t *memory.Tool, command string, input map[string]any) memory.Result {
	input["command"] = command
	raw, err := json.Marshal(input)
	if err != nil {
		e.Errorf("%v", err)
	}
	return t.Run(e.ctx, raw)
}

func (e *env) tool() *memory.Tool {
	e.Helper()
	t, err := memory.New(e.s, nil)
	if err != nil {
		e.Fatalf("memory.New = %v, want nil", err)
	}
	return t
}

const replaces = "Any other ifVersion replaces the file that Read has returned with that version. If that is not what is there now, nothing is written."

var concurrencyCases = []testCase{
	{"Concurrent/TwoAgents", replaces, 0, func(e *env) {
		edits := e.heavy(1_000, 50)
		e.create(dir+"log", "start\n")
		var wg sync.WaitGroup
		for agent, h := range e.handles() {
			tool := h.tool()
			wg.Go(func() {
				for i := range edits {
					r := h.run(tool, "insert", map[string]any{"path": dir + "log", "insert_line": 1, "insert_text": fmt.Sprintf("%d-%d", agent, i)})
					if r.IsError {
						e.Errorf("edit %d of agent %d: %s (%v)", i, agent, r.Text(), r.Err)
						return
					}
				}
			})
		}
		wg.Wait()
		e.checkLog(edits, 2)
	}},
	{"Concurrent/ManyAgents", replaces, 0, func(e *env) {
		e.create(dir+"log", "start\n")
		tool := e.tool()
		n := e.heavy(100, 30)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				r := e.run(tool, "insert", map[string]any{"path": dir + "log", "insert_line": 1, "insert_text": fmt.Sprintf("%d-0", i)})
				if r.IsError {
					e.Errorf("edit by agent %d: %s (%v)", i, r.Text(), r.Err)
				}
			})
		}
		wg.Wait()
		e.checkLog(1, n)
	}},
	{"Concurrent/Create", "An empty ifVersion creates it. Anything at the path is ErrExists.", 0, func(e *env) {
		hosts := e.handles()
		for round := range e.heavy(20, 5) {
			path := fmt.Sprintf("%sfile-%d", dir, round)
			const writers = 6
			var errs [writers]error
			e.parallel(writers, func(i int) { errs[i] = hosts[i%2].write(path, fmt.Sprint(i), "") })
			won := -1
			for i, err := range errs {
				if err == nil && won < 0 {
					won = i
				} else if !errors.Is(err, memory.ErrExists) {
					e.Fatalf("%d writers create one file: writer %d gets %v, want ErrExists for all but one", writers, i, err)
				}
			}
			if won < 0 {
				e.Fatalf("%d writers create one file and all get ErrExists", writers)
			}
			e.want(path, fmt.Sprint(won))
		}
	}},
	{"Concurrent/FileOrDirectory", "A path is never a file and a directory at once.", 0, func(e *env) {
		hosts := e.handles()
		for round := range e.heavy(20, 5) {
			path := fmt.Sprintf("%sx-%d", dir, round)
			var errs [2]error
			e.parallel(2, func(i int) { errs[i] = hosts[i].write(path+strings.Repeat("/below", i), "text", "") })
			if errs[0] == nil && errs[1] == nil {
				e.Fatalf("%q and a file below it were both created", path)
			}
			if list := e.list(path); len(list) > 1 {
				e.Fatalf("List(%q) = %v: a file and a directory at once", path, list)
			}
		}
	}},
	{"Concurrent/Rename", "Rename moves a directory with all in it; what is written meanwhile is in one place or the other.", 0, func(e *env) {
		hosts := e.handles()
		for round := range e.heavy(10, 3) {
			from, to := fmt.Sprintf("%sfrom-%d", dir, round), fmt.Sprintf("%sto-%d", dir, round)
			for i := range 4 {
				e.create(fmt.Sprintf("%s/%d", from, i), "old")
			}
			version := e.read(from + "/2").Version
			var errs [2]error
			e.parallel(2, func(i int) {
				if i == 0 {
					errs[0] = hosts[0].s.Rename(e.ctx, from, to)
				} else {
					errs[1] = hosts[1].write(from+"/2", "edited", version)
				}
			})
			if errs[0] != nil {
				e.Fatalf("Rename beside an edit = %v, want nil", errs[0])
			}
			e.wantList(from)
			e.wantList(to, to+"/0", to+"/1", to+"/2", to+"/3")
			want := "old"
			if errs[1] == nil {
				want = "edited"
			}
			e.want(to+"/2", want)
		}
	}},
}

// checkLog looks for the line of every edit, once.
func (e *env) checkLog(edits, agents int) {
	e.Helper()
	text := string(e.read(dir + "log").Data)
	var want []string
	for agent := range agents {
		for i := range edits {
			want = append(want, fmt.Sprintf("%d-%d", agent, i))
		}
	}
	got := strings.Split(strings.TrimSuffix(strings.TrimPrefix(text, "start\n"), "\n"), "\n")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		e.Fatalf("%d agents make %d edits each, and the file has %d lines of them, want %d, each once", agents, edits, len(got), len(want))
	}
}
