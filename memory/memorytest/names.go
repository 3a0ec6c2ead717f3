package memorytest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sessionstore/sessionstore/memory"
)

// badPaths break the rule of memory.CheckPath, each in another way.
var badPaths = []string{
	"", "/", "memories", "memories/f", "/memories_backup/f", "/memories-evil/x", "/memoriesX", "/Memories/x", "/etc/passwd",
	"/memories/", "/memories//", "/memories//f", "/memories/d//f", "/memories/d/", "/memories/.", "/memories/..", "/memories/./f",
	"/memories/../escape.md", "/memories/d/../../escape.md", "/memories/d/..", "//memories/f",
	"/memories\\..\\x", "/memories/a\\b", "/memories/a\x00", "/memories/a\nb", "/memories/a\x7f", "/memories/a\u0085b", "/memories/\xff",
	"/memories/%2e%2e/x", "/memories/%2E%2E%2Fx", "/memories/..%5cx", "/memories/%252e%252e/x", "/memories/%25252e./x", "/memories/%2e/x",
	"/memories/a%2fb", "/memories/a%2F", "/memories/%00", "/memories/a%0ab", "/memories/%c0%ae%c0%ae/x", "/memories/%%32e%2e/x",
	"/memories/" + strings.Repeat("a", 241), "/memories/" + strings.Repeat("é", 41), "/memories" + strings.Repeat("/abcdefg", 65),
}

// names are all different, and some look alike or mean something to a backend.
var names = []string{
	"a.md", "A.md", "a.md ", " a.md", "a.md.", "a.MD", "é", "e\u0301", "a b", "a+b", "a%20b", "..;", "...", ".hidden", "~", "-", "!", "!21", "%",
	"a:b", "a|b", "a*", "a?", "[a]", "{a}", "{}", "a'b", `a"b`, "a`b", "<a>", "$a", "&", "#", "a=b", "a,b", "CON", "nul.txt", "node_modules",
	"part-1", "x.jsonl", "x.meta.json", "．．", "日本語", "👋", "memories", "!intent", "!used", ".trash", "LOCK", "index.html",
}

var pathCases = []testCase{
	{"Paths/Refused", "Every method refuses a path for which CheckPath has an error, with that error.", 0, func(e *env) {
		e.create(dir+"d/f", "text")
		for _, p := range badPaths {
			_, listErr := e.s.List(e.ctx, p)
			_, readErr := e.s.Read(e.ctx, p, 0)
			for call, err := range map[string]error{
				"List": listErr, "Read": readErr, "Write": e.write(p, "x", ""), "Write over": e.write(p, "x", "v"), "Delete": e.s.Delete(e.ctx, p),
				"Rename from": e.s.Rename(e.ctx, p, dir+"new"), "Rename to": e.s.Rename(e.ctx, dir+"d", p),
			} {
				e.wantError(fmt.Sprintf("%s(%q)", call, p), err, memory.ErrInvalidPath)
			}
		}
		e.wantError("Write to the root", e.write(memory.Root, "x", ""), memory.ErrInvalidPath)
		e.wantList(memory.Root, dir+"d/f")
	}},
	{"Paths/Names", "Two that differ in letter case, in Unicode normal form or in a final dot or space are two files.", 0, func(e *env) {
		var made []string
		for _, name := range names {
			for _, p := range []string{dir + name, dir + "in/" + name + "/" + name} {
				err := e.write(p, p, "")
				if err != nil && e.h.FoldsNames && errors.Is(err, memory.ErrExists) {
					continue
				}
				if err != nil {
					e.Fatalf("Write(%q) = %v, want nil", p, err)
				}
				made = append(made, p)
			}
		}
		if got := len(e.list(memory.Root)); got != len(made) {
			e.Fatalf("List has %d files, want %d", got, len(made))
		}
		for _, p := range made {
			e.want(p, p)
			e.wantList(p, p)
		}
		for i, p := range made {
			e.rename(p, fmt.Sprint(dir, "moved/", i))
		}
		for i, p := range made {
			e.want(fmt.Sprint(dir, "moved/", i), p)
			e.wantMissing(p)
		}
	}},
	{"Paths/Longest", "Every path that CheckPath accepts can be used.", 0, func(e *env) {
		for _, p := range []string{
			dir + strings.Repeat("a", 240), dir + strings.Repeat("é", 40), dir + strings.Repeat("a/", 255) + "a",
			dir + strings.Repeat("b", 240) + "/" + strings.Repeat("c", 240),
		} {
			if err := memory.CheckPath(p); err != nil {
				e.Fatalf("CheckPath(%q) = %v, want nil", p, err)
			}
			e.create(p, "text")
			e.want(p, "text")
			e.wantList(p, p)
			e.delete(p)
		}
	}},
}

var scopeCases = []testCase{
	{"Scopes/Empty", "A store is made for one scope, and an empty scope is an error.", 0, func(e *env) {
		for _, scope := range []string{"", "\x00", "a\x00b", "\xff", strings.Repeat("a", 241)} {
			if s, err := e.h.Open(e.TB, scope); err == nil {
				e.Fatalf("Open(%q) = %v, nil, want an error", scope, s)
			}
		}
	}},
	{"Scopes/Apart", "Stores of different scopes share nothing.", 0, func(e *env) {
		all := map[string]*env{}
		for _, scope := range []string{
			"a", "A", "a/b", "a-b", "a:b", "a/memories", "a/memories/b", "..", ".", "*", "a*", "{a}", "a}", "%", "a%2Fb", "a!2Fb", "é", "e\u0301", " a", "a ", "a.",
			"memories", "!intent", "part-1", strings.Repeat("é", 40),
		} {
			s, err := e.h.Open(e.TB, scope)
			if err != nil && e.h.FoldsNames && errors.Is(err, memory.ErrExists) {
				continue
			}
			if err != nil {
				e.Fatalf("Open(%q) = %v, want a store", scope, err)
			}
			all[scope] = e.with(s)
			all[scope].wantList(memory.Root)
			all[scope].create(dir+"file", scope)
			all[scope].create(dir+"b/file", scope)
		}
		all["a"].delete(dir + "b")
		for scope, o := range all {
			o.want(dir+"file", scope)
			if scope != "a" {
				o.wantList(memory.Root, dir+"b/file", dir+"file")
			}
		}
	}},
	{"Scopes/Same", "A store keeps the files of one scope.", 0, func(e *env) {
		if e.h.OwnMemory {
			e.Skip("stores of this kind have files of their own")
		}
		e.open("scope").create(dir+"file", "text")
		e.want(dir+"file", "text")
	}},
}

var contextCases = []testCase{
	{"Context/Done", "Every method fails with the error of its context, having changed nothing, if the context is done before it begins.", 0, func(e *env) {
		e.create(dir+"file", "text")
		version := e.read(dir + "file").Version
		ctx, cancel := context.WithCancel(e.ctx)
		cancel()
		_, listErr := e.s.List(ctx, memory.Root)
		_, readErr := e.s.Read(ctx, dir+"file", 0)
		calls := map[string]error{
			"List": listErr, "Read": readErr,
			"Write":  e.s.Write(ctx, dir+"new", nil, "", memory.Limits{}),
			"Edit":   e.s.Write(ctx, dir+"file", nil, version, memory.Limits{}),
			"Delete": e.s.Delete(ctx, dir+"file"),
			"Rename": e.s.Rename(ctx, dir+"file", dir+"new"),
		}
		if x, ok := e.s.(memory.Expirer); ok {
			_, calls["Expire"] = x.Expire(ctx, future)
		}
		for call, err := range calls {
			e.wantError(call+" with a cancelled context", err, context.Canceled)
		}
		e.want(dir+"file", "text")
		e.wantList(memory.Root, dir+"file")
	}},
}
