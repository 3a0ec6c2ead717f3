package session

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/inmemory"
)

func sprintf(format string, args ...any) string { return fmt.Sprintf(format, args...) }

// forked forks a session of the given entries with the uuids 1, 2, 3, ... and
// returns the lines of the new one.
func forked(t *testing.T, opts *ForkOptions, entries ...string) []string {
	t.Helper()
	s := newStore(t, testID, entries...)
	n := 0
	m := scripted(t, "2026-01-02T03:04:05Z")
	m.newUUID = func() uuid { n++; return parseUUID(t, sessionN(n)) }
	id, err := m.fork(t.Context(), s, mainKey(testID), opts)
	require.NoError(t, err)
	var lines []string
	for _, e := range load(t, s, mainKey(id)) {
		lines = append(lines, strings.NewReplacer("bbbbbbbb-0000-4000-8000-00000000000", "#", id, "NEW").Replace(string(e)))
	}
	return lines
}

func TestForkChangesNothingButIdentifiers(t *testing.T) {
	got := forked(t, nil,
		` { "type" : "user" , "uuid":"u1", "parentUuid":null, "sessionId":"old","n":[1.0,1e400,-0.0],"teamName":"t", "isSidechain":false,"text":"\u0000\ud83d u1","timestamp":"T1" } `,
		`{"slug":"s","agentName":"a","uuid":"a2","type":"assistant","uuid":"a3","parentUuid":"u1","parent\u0055uid":"u1","sessionId":"old","timestamp":5,"sourceToolAssistantUUID":"u1"}`,
		`{"type":"system","uuid":"b4","parentUuid":"a3","logicalParentUuid":"u1","timestamp":"T","compactMetadata":{ "a3":"a3", "headUuid" : "a3","x":{"uuids":["u1","ghost",["a3"],{"y":"u1"}]},"trigger":"u1"}}`,
		`{"uuid":"x5","type":"attachment"}`)
	require.Equal(t, []string{
		` { "type" : "user" , "uuid":"#1", "parentUuid":null, "sessionId":"#5","n":[1.0,1e400,-0.0], "isSidechain":false,"text":"\u0000\ud83d u1","timestamp":"T1","forkedFrom":{"sessionId":"#1","messageUuid":"u1"} } `,
		`{"uuid":"#2","type":"assistant","uuid":"#2","parentUuid":"#1","parent\u0055uid":"#1","sessionId":"#5","timestamp":5,"isSidechain":false,"requestSessionId":"old","forkedFrom":{"sessionId":"#1","messageUuid":"a3"}}`,
		`{"type":"system","uuid":"#3","parentUuid":"#2","logicalParentUuid":"#1","timestamp":"T","compactMetadata":{ "a3":"a3", "headUuid" : "#2","x":{"uuids":["#1","ghost",["#2"],{"y":"u1"}]},"trigger":"u1"},"sessionId":"#5","isSidechain":false,"forkedFrom":{"sessionId":"#1","messageUuid":"b4"}}`,
		`{"uuid":"#4","type":"attachment","parentUuid":null,"sessionId":"#5","isSidechain":false,"timestamp":"2026-01-02T03:04:05.000Z","forkedFrom":{"sessionId":"#1","messageUuid":"x5"}}`,
		`{"type":"custom-title","sessionId":"#5","customTitle":"Forked session (fork)","uuid":"#6","timestamp":"2026-01-02T03:04:05.000Z"}`,
	}, got)
	got = forked(t, nil, entry("user", "u1", "", `,"message":{"content":"half \ud83d"}`))
	require.Contains(t, got[1], `"customTitle":"half \ud83d (fork)"`)
}

func TestForkOfAnEntryThatIsOnlyRemovedMembers(t *testing.T) {
	got := rewrite(sessionstore.Entry(`{"slug":1,"agentName":{}}`), []change{{name: "slug", remove: true}, {name: "agentName", remove: true}})
	require.Equal(t, `{}`, string(got))
	got = rewrite(sessionstore.Entry(`{}`), []change{{name: "a", value: []byte("1"), add: true}, {name: "b", value: []byte("2"), add: true}, {name: "c", value: []byte("2")}})
	require.Equal(t, `{"a":1,"b":2}`, string(got))
	got = rewrite(sessionstore.Entry(`{"x":1 , "slug":2}`), []change{{name: "slug", remove: true}, {name: "x", value: []byte("7"), add: true}})
	require.Equal(t, `{"x":7}`, string(got))
}

func TestForkTakesWhatItShould(t *testing.T) {
	got := forked(t, &ForkOptions{Title: " T "},
		`{"type":"mode","mode":"normal"}`,
		user("u1", ""),
		entry("progress", "p2", "u1", ``), entry("progress", "p3", "p2", ``),
		assistant("a4", "p3"),
		entry("user", "s5", "a4", `,"isSidechain":true`),
		assistant("a6", "s5"),
		`{"type":"user","uuid":7,"parentUuid":"a6"}`, `{"type":"user","uuid":""}`, `{"type":"summary","uuid":"x"}`,
		`{"type":"content-replacement","sessionId":"`+testID+`","replacements":[{"a":1.0}, 2]}`,
		`{"type":"content-replacement","sessionId":"other","replacements":[3]}`,
		`{"type":"content-replacement","sessionId":"`+testID+`","replacements":[4]}`,
		`{"type":"tools-used","tools":["A"]}`, `{"type":"tools-used","tools":["A", "B"]}`, `{"type":"atis-latch","atis":""}`)
	require.Len(t, got, 7)
	require.Contains(t, got[1], `"parentUuid":"#1"`, "progress is skipped over")
	require.Contains(t, got[2], `"parentUuid":null`, "the sidechain stays behind")
	require.Equal(t, `{"type":"content-replacement","sessionId":"#4","replacements":[{"a":1.0},2,4],"uuid":"#5","timestamp":"2026-01-02T03:04:05.000Z"}`, got[3])
	require.Equal(t, `{"type":"atis-latch","sessionId":"#4","atis":""}`, got[4])
	require.Equal(t, `{"type":"tools-used","sessionId":"#4","tools":["A", "B"]}`, got[5])
	require.Equal(t, `{"type":"custom-title","sessionId":"#4","customTitle":"T","uuid":"#6","timestamp":"2026-01-02T03:04:05.000Z"}`, got[6])
}

func TestForkUpTo(t *testing.T) {
	entries := []string{user("u1", "a4"), assistant("a2", "u1"), entry("progress", "p3", "a2", ``), assistant("a4", "p3"), entry("user", "s5", "", `,"isSidechain":true`)}
	got := forked(t, &ForkOptions{UpTo: "a2"}, entries...)
	require.Len(t, got, 3)
	require.Contains(t, got[0], `"parentUuid":null`, "its parent did not come along")
	require.Contains(t, got[1], `"parentUuid":"#1"`)
	require.Len(t, forked(t, &ForkOptions{UpTo: "p3"}, entries...), 3)
	s := newStore(t, testID, entries...)
	for _, upTo := range []string{"ghost", "s5"} {
		_, err := Fork(t.Context(), s, mainKey(testID), &ForkOptions{UpTo: upTo})
		require.ErrorContains(t, err, `message "`+upTo+`" is not in the session`)
	}
	_, err := Fork(t.Context(), newStore(t, testID, `{"type":"mode"}`, entry("progress", "p", "", "")), mainKey(testID), nil)
	require.ErrorContains(t, err, "the session has no messages to fork")
}

func TestForkOfACompactedSessionShowsTheSameConversation(t *testing.T) {
	for _, name := range []string{"compact-manual", "compact-auto", "tools-multiturn", "subagents"} {
		store := inmemory.New()
		var key sessionstore.Key
		for _, b := range decodeLines[batch](t, testdata(name, "appends.jsonl")) {
			require.NoError(t, store.Append(t.Context(), b.Key, b.Entries))
			key = b.Key.Main()
		}
		before, err := Messages(t.Context(), store, key, &MessagesOptions{IncludeSystem: true})
		require.NoError(t, err)
		id, err := Fork(t.Context(), store, key, nil)
		require.NoError(t, err)
		key.SessionID = id
		after, err := Messages(t.Context(), store, key, &MessagesOptions{IncludeSystem: true})
		require.NoError(t, err)
		require.Len(t, after.Messages, len(before.Messages), name)
		for i, m := range after.Messages {
			require.Equal(t, before.Messages[i].UUID, forkedFrom(t, m.Entry))
			require.Equal(t, before.Messages[i].Message, m.Message)
		}
	}
}

func longSession(n int) []string {
	var entries []string
	parent := ""
	for i := range n {
		id := fmt.Sprintf("e%d", i)
		entries = append(entries, user(id, parent))
		parent = id
	}
	return entries
}

func TestForkThatFailsLeavesNothingBehind(t *testing.T) {
	for succeed := range 3 {
		for _, lands := range []bool{false, true} {
			s := &failing{Store: newStore(t, testID, longSession(1200)...), appends: succeed, err: errBroken, lands: lands}
			ctx, cancel := context.WithCancel(t.Context())
			s.cancel = cancel
			id, err := Fork(ctx, s, mainKey(testID), nil)
			cancel()
			require.ErrorIs(t, err, errBroken)
			require.Empty(t, id)
			require.Len(t, s.deleted, 1)
			list, err := s.ListSessions(t.Context(), testProject)
			require.NoError(t, err)
			require.Len(t, list, 1)
		}
	}
	// When that fails too, the error says what is left.
	s := &failing{Store: newStore(t, testID, longSession(1200)...), appends: 1, err: errBroken, deletes: errors.New("no delete today")}
	_, err := Fork(t.Context(), s, mainKey(testID), nil)
	require.ErrorIs(t, err, errBroken)
	require.ErrorContains(t, err, "may be left incomplete: no delete today")
}

// vanishing streams a transcript that is too long to keep, and fails or ends
// early the second time.
type vanishing struct {
	*inmemory.Store
	padding string
	reads   int
	err     error
}

func (s *vanishing) Stream(ctx context.Context, key sessionstore.Key) iter.Seq2[sessionstore.Entry, error] {
	s.reads++
	read, n := s.reads, 0
	return func(yield func(sessionstore.Entry, error) bool) {
		for e, err := range s.Store.Stream(ctx, key) {
			if n++; read == 2 && n == 700 {
				if s.err != nil {
					yield(nil, s.err)
				}
				return
			}
			padded := append(e[:len(e)-1:len(e)-1], `,"padding":"`+s.padding+`"}`...)
			if !yield(padded, err) {
				return
			}
		}
	}
}

func TestSourceThatFailsOnTheSecondReading(t *testing.T) {
	for _, cause := range []error{errBroken, nil} {
		want := cause
		if want == nil {
			want = errChanged
		}
		s := &vanishing{Store: newStore(t, testID, longSession(1200)...), padding: strings.Repeat("x", keepBytes/1000), err: cause}
		_, err := Fork(t.Context(), s, mainKey(testID), nil)
		require.ErrorIs(t, err, want)
		list, err := s.ListSessions(t.Context(), testProject)
		require.NoError(t, err)
		require.Len(t, list, 1, "what had been written is gone")

		s.reads = 0
		c, err := Messages(t.Context(), s, mainKey(testID), nil)
		require.ErrorIs(t, err, want)
		require.Empty(t, c)
	}
}

func TestForkOnAStoreThatCannotDeleteWritesOnlyWhenAllIsRead(t *testing.T) {
	src := &vanishing{Store: newStore(t, testID, longSession(1200)...), padding: strings.Repeat("x", keepBytes/1000), err: errBroken}
	s := struct {
		sessionstore.SessionStore
		sessionstore.Streamer
		sessionstore.SessionLister
	}{src, src, src}
	_, err := Fork(t.Context(), s, mainKey(testID), nil)
	require.ErrorIs(t, err, errBroken)
	list, err := src.ListSessions(t.Context(), testProject)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, 2, src.reads)

	s2 := bareStore{&failing{Store: src.Store, appends: 1, err: errBroken}}
	_, err = Fork(t.Context(), s2, mainKey(testID), nil)
	require.ErrorContains(t, err, "may be left incomplete: unsupported operation")
}

func TestForkOfRepeatedMetadataKeepsEach(t *testing.T) {
	got := forked(t, nil, user("u1", ""),
		`{"type":"system","uuid":"b2","parentUuid":"u1","compactMetadata":{"n":1,"headUuid":"u1"},"compactMetadata":7,"compactMetadata":{"n":2,"uuids":["b2"]}}`,
		`{"type":"system","uuid":"b3","parentUuid":"b2","compactMetadata":{"headUuid":"u1"},"compactMetadata":null}`)
	require.Contains(t, got[1], `"compactMetadata":{"n":1,"headUuid":"#1"},"compactMetadata":7,"compactMetadata":{"n":2,"uuids":["#2"]}`)
	require.Contains(t, got[2], `"compactMetadata":{"headUuid":"#1"},"compactMetadata":null`)
}

func TestForkUpToALoneSurrogate(t *testing.T) {
	entries := []string{user("u1", ""), user(`x\ud83d`, "u1"), user(`x\ufffd`, `x\ud83d`)}
	got := forked(t, &ForkOptions{UpTo: sessionstore.Entry(entries[1]).UUID()}, entries...)
	require.Len(t, got, 3)
	require.Len(t, forked(t, &ForkOptions{UpTo: "x\uFFFD"}, entries...), 4)
}

func TestForkLeavesLogicalParentsThatNameNothing(t *testing.T) {
	for _, v := range []string{"null", "5", `""`, `{"a":1}`} {
		got := forked(t, nil, entry("user", "u1", "", `,"logicalParentUuid":`+v))
		require.Contains(t, got[0], `"logicalParentUuid":`+v+`,`)
	}
}

func TestForkShowsTeamMessagesAndEndsAtSidechains(t *testing.T) {
	s := newStore(t, testID, user("u1", ""), entry("assistant", "t2", "u1", `,"teamName":"t"`), user("u3", "t2"),
		entry("user", "s4", "u3", `,"isSidechain":true`), user("u5", "s4"))
	require.Equal(t, []string{"u1", "u3", "u5"}, uuids(messages(t, s, nil)))
	id, err := Fork(t.Context(), s, mainKey(testID), &ForkOptions{UpTo: "u3"})
	require.NoError(t, err)
	c, err := Messages(t.Context(), s, mainKey(id), nil)
	require.NoError(t, err)
	require.Equal(t, 3, c.Total)
	id, err = Fork(t.Context(), s, mainKey(testID), nil)
	require.NoError(t, err)
	c, err = Messages(t.Context(), s, mainKey(id), nil)
	require.NoError(t, err)
	require.Equal(t, 1, c.Total)
	require.Empty(t, c.Gaps)
}
