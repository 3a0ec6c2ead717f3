package session

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/inmemory"
)

// BenchmarkList compares a list of all sessions with what the store does for it.
func BenchmarkList(b *testing.B) {
	const n = 10_000
	s := inmemory.New()
	for i := range n {
		appendTo(b, s, mainKey(sessionN(i)), entry("user", "u", "", `,"cwd":"/srv/agents/project","gitBranch":"main","timestamp":"2026-01-02T03:04:05.678Z","message":{"content":"Fix the build of the web server"}`),
			`{"type":"ai-title","aiTitle":"Fix the build"}`)
	}
	b.Run("op", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			list, err := List(b.Context(), s, testProject, nil)
			if err != nil || len(list) != n {
				b.Fatal(len(list), err)
			}
		}
	})
	b.Run("page", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			list, err := List(b.Context(), s, testProject, &ListOptions{Limit: 20})
			if err != nil || len(list) != 20 {
				b.Fatal(len(list), err)
			}
		}
	})
	b.Run("floor", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := s.ListSessions(b.Context(), testProject); err != nil {
				b.Fatal(err)
			}
			if _, err := s.ListSessionSummaries(b.Context(), testProject); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkMessages compares reading a conversation with loading its transcript.
func BenchmarkMessages(b *testing.B) {
	const n = 5000
	s := inmemory.New()
	var batch []sessionstore.Entry
	size, parent := 0, ""
	for i := range n {
		id := fmt.Sprintf("00000000-0000-4000-8000-%012d", i)
		kind := []string{"user", "assistant"}[i%2]
		e := entry(kind, id, parent, `,"cwd":"/srv/agents/project","sessionId":"`+testID+`","timestamp":"2026-01-02T03:04:05.678Z","message":{"role":"`+kind+
			`","id":"msg_`+id+`","content":[{"type":"text","text":"`+strings.Repeat("lorem ipsum dolor ", 80)+`"}]}`)
		batch = append(batch, sessionstore.Entry(e))
		size += len(e)
		parent = id
	}
	if err := s.Append(b.Context(), mainKey(testID), batch); err != nil {
		b.Fatal(err)
	}
	b.Run("op", func(b *testing.B) {
		b.SetBytes(int64(size))
		b.ReportAllocs()
		for b.Loop() {
			c, err := Messages(b.Context(), s, mainKey(testID), nil)
			if err != nil || c.Total != n {
				b.Fatal(c.Total, err)
			}
		}
	})
	b.Run("floor", func(b *testing.B) {
		b.SetBytes(int64(size))
		b.ReportAllocs()
		for b.Loop() {
			if list, err := s.Load(b.Context(), mainKey(testID)); err != nil || len(list) != n {
				b.Fatal(len(list), err)
			}
		}
	})
}
