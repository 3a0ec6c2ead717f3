package filestore_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/filestore"
)

func TestLayoutIsTheAgentsOwn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "projects")
	s := open(t, dir, nil)
	appendAll(t, s, mainKey, user("a"), title("x"))
	appendAll(t, s, mainKey, user("b"))
	appendAll(t, s, subKey, metadata("first"), user("c"), metadata("last"))

	sidecar := project + "/" + session + "/subagents/agent-1a2b.meta.json"
	lines := project + "/" + session + "/subagents/agent-1a2b.jsonl"
	require.Equal(t, []string{project + "/" + session + ".jsonl", lines, sidecar}, files(t, dir))
	require.Equal(t, string(user("a"))+"\n"+string(title("x"))+"\n"+string(user("b"))+"\n", read(t, dir, project, session+".jsonl"))
	require.Equal(t, string(user("c"))+"\n", read(t, dir, lines))
	require.Equal(t, `{"agentType":"last","spawnDepth":1}`, read(t, dir, sidecar))
	require.Equal(t, "{\"format\":1}\n", read(t, dir, filestore.FormatFile))

	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, _ error) error {
		info, err := d.Info()
		require.NoError(t, err)
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		require.Equal(t, want, info.Mode().Perm(), path)
		return nil
	}))
}

func TestMetadataOfASubpathIsASidecar(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	appendAll(t, s, subKey, metadata("x"))
	require.Equal(t, []string{project + "/" + session + "/subagents/agent-1a2b.meta.json"}, files(t, dir))
	require.Equal(t, texts(metadata("x")), load(t, s, subKey))
	subpaths, err := s.ListSubkeys(t.Context(), project, session)
	require.NoError(t, err)
	require.Equal(t, []string{"subagents/agent-1a2b"}, subpaths)

	appendAll(t, s, subKey, user("a"))
	appendAll(t, s, subKey, metadata("y"), user("a"))
	require.Equal(t, texts(metadata("y"), user("a")), load(t, s, subKey))

	appendAll(t, s, mainKey, metadata("m"), metadata("m"))
	require.Equal(t, texts(metadata("m"), metadata("m")), load(t, s, mainKey), "a line in a main transcript")
}

func TestSidecarKeepsItsBytes(t *testing.T) {
	tests := []struct{ entry, sidecar, loaded string }{
		{`{"type":"agent_metadata"}`, `{}`, `{"type":"agent_metadata"}`},
		{`{"a":1.0,"type":"agent_metadata","b":"\ud83d","a":2}`, `{"a":1.0,"b":"\ud83d","a":2}`, `{"type":"agent_metadata","a":1.0,"b":"\ud83d","a":2}`},
		{`{ "typ\u0065" : "agent_metadata" , "n" : { "type" : [ 1 ] } }`, `{"n" : { "type" : [ 1 ] }}`, `{"type":"agent_metadata","n" : { "type" : [ 1 ] }}`},
		{`{"type":"x","z":"}","type":"agent_metadata"}`, `{"type":"x","z":"}"}`, `{"type":"x","z":"}","type":"agent_metadata"}`},
		{`{"type":"agent_metadata","a":1,"type":"agent_metadata"}`, `{"type":"agent_metadata","a":1}`, `{"type":"agent_metadata","a":1,"type":"agent_metadata"}`},
		{`{"typ:e":1,"type:x":2,"typex:y":3,"type":"agent_metadata"}`, `{"typ:e":1,"type:x":2,"typex:y":3}`, `{"type":"agent_metadata","typ:e":1,"type:x":2,"typex:y":3}`},
	}
	for _, tc := range tests {
		dir := t.TempDir()
		s := open(t, dir, nil)
		appendAll(t, s, subKey, sessionstore.Entry(tc.entry))
		require.Equal(t, tc.sidecar, read(t, dir, project, session, "subagents", "agent-1a2b.meta.json"))
		require.Equal(t, []string{tc.loaded}, load(t, s, subKey))
		require.True(t, sessionstore.Entry(tc.loaded).Equal(sessionstore.Entry(tc.entry)), "what is loaded is what was appended")
	}
}

func TestForeignSidecar(t *testing.T) {
	dir := t.TempDir()
	var seen skips
	s := open(t, dir, seen.options())
	file := []string{dir, project, session, "subagents", "agent-1a2b.meta.json"}
	write(t, "{\n  \"type\": \"other\",\n  \"agentType\": \"x\"\n}\n", file...)
	require.Equal(t, []string{`{"type": "other","agentType": "x","type":"agent_metadata"}`}, load(t, s, subKey))
	require.Empty(t, seen)

	write(t, `{"agentType":"cut of`, file...)
	require.Equal(t, []string{}, load(t, s, subKey))
	require.Len(t, seen, 1)
	require.ErrorIs(t, seen[0].Err, sessionstore.ErrInvalidEntry)
	require.Equal(t, subKey, seen[0].Key)

	seen = nil
	write(t, "", file...)
	require.Nil(t, load(t, s, subKey))
	require.Len(t, seen, 1, "somebody has lost it")
	require.ErrorIs(t, seen[0].Err, sessionstore.ErrInvalidEntry)
}

func TestNamesThatAreNotSafeAreEscaped(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	ids := []string{"a", "a.jsonl", "a.meta.json", ".", "..", "../x", "a/b", `a\b`, "C:foo", "-x", "*", "%2F", "é", "e\u0301", "A", ".sessionstore", "x\ny"}
	for _, id := range ids {
		appendAll(t, s, sessionstore.Key{ProjectKey: id, SessionID: id}, user("main"))
		appendAll(t, s, sessionstore.Key{ProjectKey: id, SessionID: id, Subpath: strings.ReplaceAll(id, "/", "") + "x/y"}, user("sub"))
	}
	projects, err := s.ListProjects(t.Context())
	require.NoError(t, err)
	require.ElementsMatch(t, ids, projects)
	for _, id := range ids {
		list, err := s.ListSessions(t.Context(), id)
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.Equal(t, id, list[0].SessionID)
		subpaths, err := s.ListSubkeys(t.Context(), id, id)
		require.NoError(t, err)
		require.Equal(t, []string{strings.ReplaceAll(id, "/", "") + "x/y"}, subpaths)
	}
	for _, id := range ids[1:] {
		require.NoError(t, s.Delete(t.Context(), sessionstore.Key{ProjectKey: id, SessionID: id}))
	}
	require.Equal(t, []string{"a/a.jsonl", "a/a/ax/y.jsonl"}, files(t, dir), "the others leave nothing behind")
}

func TestNothingToWriteLeavesTheFileAlone(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	appendAll(t, s, mainKey)
	require.Empty(t, files(t, dir))
	_, err := os.Stat(filepath.Join(dir, filestore.PrivateDir))
	require.ErrorIs(t, err, fs.ErrNotExist, "nor does it write the format")

	appendAll(t, s, mainKey, user("a"))
	old := time.Now().Add(-time.Hour).Truncate(time.Second)
	name := filepath.Join(dir, project, session+".jsonl")
	require.NoError(t, os.Chtimes(name, old, old))
	appendAll(t, s, mainKey, user("a"), user("a"))
	load(t, s, mainKey)
	appendAll(t, s, subKey, user("b"), metadata("m"))
	list, err := s.ListSessions(t.Context(), project)
	require.NoError(t, err)
	require.Equal(t, []sessionstore.SessionInfo{{SessionID: session, Mtime: old.UnixMilli()}}, list)

	appendAll(t, s, mainKey, user("c"))
	list, err = s.ListSessions(t.Context(), project)
	require.NoError(t, err)
	require.Greater(t, list[0].Mtime, old.UnixMilli())
}

func TestSessionsAreListedNewestFirst(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	at := time.UnixMilli(1_700_000_000_123)
	for i, id := range []string{"b", "c", "a", "old", "new"} {
		name := write(t, "{}\n", dir, project, id+".jsonl")
		when := at.Add([]time.Duration{0, 0, 0, -time.Millisecond, time.Millisecond}[i])
		require.NoError(t, os.Chtimes(name, when, when))
	}
	write(t, "", dir, project, "empty.jsonl")
	write(t, "{}\n", dir, project, "subonly", "x.jsonl")
	list, err := s.ListSessions(t.Context(), project)
	require.NoError(t, err)
	ms := at.UnixMilli()
	require.Equal(t, []sessionstore.SessionInfo{{SessionID: "new", Mtime: ms + 1}, {SessionID: "a", Mtime: ms}, {SessionID: "b", Mtime: ms}, {SessionID: "c", Mtime: ms}, {SessionID: "old", Mtime: ms - 1}}, list)
}

func TestEmptyFileIsNothing(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	write(t, "", dir, project, session+".jsonl")
	write(t, "", dir, project, session, "a.jsonl")
	require.Nil(t, load(t, s, mainKey))
	require.Nil(t, load(t, s, sub("a")))
	subpaths, err := s.ListSubkeys(t.Context(), project, session)
	require.NoError(t, err)
	require.Empty(t, subpaths)
	projects, err := s.ListProjects(t.Context())
	require.NoError(t, err)
	require.Empty(t, projects)
	appendAll(t, s, mainKey, user("a"))
	require.Equal(t, texts(user("a")), load(t, s, mainKey))
}

func TestReadOnlyNeverWrites(t *testing.T) {
	dir := t.TempDir()
	_, err := filestore.Open(filepath.Join(dir, "missing"), &filestore.Options{ReadOnly: true})
	require.ErrorIs(t, err, fs.ErrNotExist)

	write(t, string(user("a"))+"\n", dir, project, session+".jsonl")
	s := open(t, dir, &filestore.Options{ReadOnly: true})
	require.Equal(t, texts(user("a")), load(t, s, mainKey))
	require.NoError(t, s.Append(t.Context(), mainKey, nil))
	require.ErrorIs(t, s.Append(t.Context(), mainKey, numbered(1)), fs.ErrPermission)
	require.ErrorIs(t, s.Delete(t.Context(), mainKey), fs.ErrPermission)
	_, err = s.Purge(t.Context(), time.Now())
	require.ErrorIs(t, err, fs.ErrPermission)
	all, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, all, 1, "no format file either")
	require.ErrorIs(t, sessionstore.Delete(t.Context(), s, mainKey), fs.ErrPermission, "no silent success")
}

func TestLaterFormatIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{"format":2}`: "format 2, this version reads formats 1 to 1",
		`{"format":0}`: "format 0",
		`{"for`:        "format.json",
		``:             "format.json",
	} {
		dir := t.TempDir()
		write(t, text, dir, filestore.FormatFile)
		for _, opts := range []*filestore.Options{nil, {ReadOnly: true}} {
			_, err := filestore.Open(dir, opts)
			require.ErrorIs(t, err, sessionstore.ErrCorrupt)
			require.ErrorContains(t, err, want)
		}
		require.Equal(t, text, read(t, dir, filestore.FormatFile))
	}
}

func TestFormatThatCameLaterIsRefusedBeforeWriting(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	write(t, `{"format":7}`, dir, filestore.FormatFile)
	require.ErrorIs(t, s.Append(t.Context(), mainKey, numbered(1)), sessionstore.ErrCorrupt)
	require.ErrorIs(t, s.Append(t.Context(), subKey, []sessionstore.Entry{metadata("x")}), sessionstore.ErrCorrupt)
	require.Empty(t, files(t, dir))
}

func TestDiskThatFoldsCase(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	appendAll(t, s, mainKey, user("a"))
	appendAll(t, s, sub("agents/A"), metadata("x"), user("b"))
	s.FoldCase() // as on a disk that does

	key := func(project, session, subpath string) sessionstore.Key {
		return sessionstore.Key{ProjectKey: project, SessionID: session, Subpath: subpath}
	}
	appendAll(t, s, mainKey, user("c"))
	appendAll(t, s, sub("agents/A"), user("d"))
	upper := strings.ToUpper(project)
	appendAll(t, s, key(project, "s", ""), user("a"))
	for _, k := range []sessionstore.Key{
		key(upper, session, ""), key(project, "S", ""), key(project, "S", "x"),
		sub("agents/a"), sub("Agents/A"), sub("AGENTS/new"),
	} {
		err := s.Append(t.Context(), k, numbered(1))
		require.ErrorIs(t, err, sessionstore.ErrInvalidKey, "%v", k)
		require.ErrorContains(t, err, "only in letter case")
		_, err = s.Load(t.Context(), k)
		require.ErrorIs(t, err, sessionstore.ErrInvalidKey, "%v", k)
		if k.ProjectKey == project { // the other one does not exist here
			require.ErrorIs(t, s.Delete(t.Context(), k), sessionstore.ErrInvalidKey, "%v", k)
		}
	}
	_, err := s.ListSessions(t.Context(), upper)
	require.ErrorIs(t, err, sessionstore.ErrInvalidKey)
	require.Equal(t, texts(metadata("x"), user("b"), user("d")), load(t, s, sub("agents/A")))
	require.Len(t, files(t, dir), 4)
}

func TestErrorsSayWhere(t *testing.T) {
	s := open(t, t.TempDir(), nil)
	err := s.Append(t.Context(), subKey, []sessionstore.Entry{[]byte("null")})
	require.ErrorIs(t, err, sessionstore.ErrInvalidEntry)
	require.ErrorContains(t, err, "filestore: append "+project+"/"+session+"#subagents/agent-1a2b: entry 1 of 1")
	var op *sessionstore.OpError
	require.ErrorAs(t, err, &op)
	require.Equal(t, subKey, op.Key)
}

func TestCancelledContext(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.Append(ctx, mainKey, numbered(1)), context.Canceled)
	require.Empty(t, files(t, dir))
	appendAll(t, s, mainKey, numbered(1000)...)
	_, err := s.Load(ctx, mainKey)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, s.Delete(ctx, mainKey), context.Canceled)

	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	n, last := 0, error(nil)
	for _, err := range s.Stream(ctx, mainKey) {
		if n++; n == 10 {
			cancel()
		}
		last = err
	}
	require.ErrorIs(t, last, context.Canceled)
	require.Equal(t, 11, n, "the next entry may be a large one")
}

// What is passed over gives no occasion to stop, so each read is one.
func TestCancelledAmongBadLines(t *testing.T) {
	dir := t.TempDir()
	write(t, "{}\n"+strings.Repeat("bad\n", 1<<20), dir, project, session+".jsonl")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	skipped := 0
	s := open(t, dir, &filestore.Options{OnSkip: func(filestore.Skip) {
		skipped++
		cancel()
	}})
	_, err := s.Load(ctx, mainKey)
	require.ErrorIs(t, err, context.Canceled)
	require.Less(t, skipped, 1<<19)
}

func TestUuidOfMetadataCounts(t *testing.T) {
	meta := func(id, agent string) sessionstore.Entry {
		return sessionstore.Entry(`{"type":"agent_metadata","uuid":"` + id + `","agentType":"` + agent + `"}`)
	}
	m := meta("u", "one")
	steps := func(batches ...[]sessionstore.Entry) [][]sessionstore.Entry { return batches }
	one := func(entries ...sessionstore.Entry) []sessionstore.Entry { return entries }
	for name, tc := range map[string]struct {
		batches [][]sessionstore.Entry
		want    []string
	}{
		"line first":               {steps(one(user("u")), one(m)), texts(user("u"))},
		"line first, one batch":    {steps(one(user("u"), m)), texts(user("u"))},
		"sidecar first":            {steps(one(m), one(user("u"))), texts(m)},
		"sidecar first, one batch": {steps(one(m, user("u"), user("v"))), texts(m, user("v"))},
		"beside other lines":       {steps(one(user("a"), m), one(user("u"), user("b"))), texts(m, user("a"), user("b"))},
		"the first stays":          {steps(one(m), one(meta("u", "two"))), texts(m)},
		"in one batch too":         {steps(one(m, meta("u", "two"))), texts(m)},
		"another one replaces":     {steps(one(m), one(meta("w", "two")), one(user("u"))), texts(meta("w", "two"), user("u"))},
		"the last of a batch":      {steps(one(m, meta("w", "two")), one(m, meta("w", "two"))), texts(meta("w", "two"))},
		"none is no identity":      {steps(one(meta("", "one")), one(meta("", "two"))), texts(meta("", "two"))},
		"without an identity":      {steps(one(m), one(metadata("x"))), texts(metadata("x"))},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir(), nil)
			other := open(t, t.TempDir(), nil)
			for _, batch := range tc.batches {
				appendAll(t, s, subKey, batch...)
				other.LoseReply()
				if other.Append(t.Context(), subKey, batch) != nil {
					appendAll(t, other, subKey, batch...)
				}
			}
			require.Equal(t, tc.want, load(t, s, subKey))
			require.Equal(t, tc.want, load(t, other, subKey), "with each batch repeated")
		})
	}
}

func TestLineThatRepeatsTheSidecarIsDropped(t *testing.T) {
	dir := t.TempDir()
	write(t, `{"uuid":"u"}`, dir, project, session, "subagents", "agent-1a2b.meta.json")
	write(t, string(joinLines([]sessionstore.Entry{user("a"), user("u"), user("b")})), dir, project, session, "subagents", "agent-1a2b.jsonl")
	s := open(t, dir, nil)
	require.Equal(t, texts([]byte(`{"type":"agent_metadata","uuid":"u"}`), user("a"), user("b")), load(t, s, subKey))
}

func TestMetadataAloneIsSyncedWhenRepeated(t *testing.T) {
	s := open(t, t.TempDir(), &filestore.Options{Fsync: true})
	batch := []sessionstore.Entry{[]byte(`{"type":"agent_metadata","uuid":"u"}`)}
	s.LoseReply()
	require.Error(t, s.Append(t.Context(), subKey, batch))
	synced := s.Synced()
	appendAll(t, s, subKey, batch...)
	require.Contains(t, *synced, "subagents", "the name is there, but perhaps not yet safe")
}

func TestClosedStoreFails(t *testing.T) {
	s := open(t, t.TempDir(), nil)
	require.NoError(t, s.Close())
	_, err := s.Load(t.Context(), mainKey)
	require.True(t, errors.Is(err, fs.ErrClosed), "%v", err)
	require.Error(t, s.Append(t.Context(), mainKey, numbered(1)))
}

func TestFsyncCoversNewNames(t *testing.T) {
	s := open(t, t.TempDir(), &filestore.Options{Fsync: true})
	synced := s.Synced()
	appendAll(t, s, mainKey, user("a"))
	// Temporary file, its directory and the root; lines, the project and the root.
	require.Len(t, *synced, 6)
	require.Equal(t, []string{session + ".jsonl", project}, (*synced)[3:5])
	*synced = nil
	appendAll(t, s, mainKey, user("b"))
	require.Equal(t, []string{session + ".jsonl"}, *synced)
	*synced = nil
	appendAll(t, s, subKey, user("b"), metadata("m"))
	require.Len(t, *synced, 6, "sidecar, lines, and four directories")
	require.Equal(t, []string{"agent-1a2b.jsonl", "subagents", session, project}, (*synced)[1:5])
}

func TestUuidsOfManyTranscriptsAreBounded(t *testing.T) {
	s := open(t, t.TempDir(), nil)
	const each, limit = 100, 450
	s.KeepIDs(limit)
	batch := numbered(each)
	for i := range 8 {
		appendAll(t, s, benchKey(i), batch...)
	}
	require.LessOrEqual(t, s.KnownIDs(), limit)
	require.GreaterOrEqual(t, s.KnownIDs(), 2*each)
	appendAll(t, s, benchKey(0), batch[:10]...) // forgotten: it reads the file again
	require.Len(t, load(t, s, benchKey(0)), each)

	appendAll(t, s, benchKey(9), numbered(2*limit)...)
	require.Equal(t, 2*limit, s.KnownIDs(), "the last one is remembered whatever its size")
}
