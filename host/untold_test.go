package host_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/host"
	"github.com/sessionstore/sessionstore/inmemory"
	"github.com/sessionstore/sessionstore/mirror"
	"github.com/sessionstore/sessionstore/resume"
)

const (
	scripted = "11111111-2222-4333-8444-555555555555"

	// write writes a line, and tell reports it as agents do.
	scriptStart = `P="$CLAUDE_CONFIG_DIR/projects/` + tenant + `"; mkdir -p "$P"; F="$P/` + scripted + `.jsonl"
write() { printf '%s\n' "$1" >> "$F"; }
tell() { printf '{"type":"transcript_mirror","filePath":"%s","entries":[%s]}\n' "$F" "$1"; }
`
	lineA = `{"type":"user","uuid":"a"}`
	lineB = `{"type":"user","uuid":"b"}`
)

func scriptedOptions(t *testing.T, m machine, script string) host.Options {
	t.Helper()
	opts := shell(t, m, scriptStart+script)
	opts.Session.Fresh = true
	opts.Mirror.Attempts = 1
	return opts
}

func stored(t *testing.T, s sessionstore.SessionStore) (list []string) {
	t.Helper()
	return lines(t, s, sessionstore.Key{ProjectKey: tenant, SessionID: scripted})
}

// It writes first and tells then. What it has not told is only in its file.
func TestCloseBringsInWhatTheAgentHasNotTold(t *testing.T) {
	for name, end := range map[string]string{
		"killed": "kill -9 $$", "ended well": "exit 0", "ended badly": "exit 3",
		"killed in a frame":            `printf '%s' '{"type":"tra'; kill -9 $$`,
		"killed before it told at all": `printf '{'; kill -9 $$`,
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			store := inmemory.New()
			a := start(t, store, scriptedOptions(t, m, "write '"+lineA+"'; tell '"+lineA+"'; write '"+lineB+"'; "+end))
			_ = a.Close(t.Context())
			require.Equal(t, []string{lineA, lineB}, stored(t, store))
			m.requireNothingLeft()
		})
	}
}

// counting counts how often a transcript is read.
type counting struct {
	*inmemory.Store
	loads int
}

func (c *counting) Load(ctx context.Context, key sessionstore.Key) ([]sessionstore.Entry, error) {
	c.loads++
	return c.Store.Load(ctx, key)
}

func TestCloseAsksTheStoreOnlyIfSomethingWasNotTold(t *testing.T) {
	store := &counting{Store: inmemory.New()}
	opts := scriptedOptions(t, newMachine(t), "write '"+lineA+"'; tell '"+lineA+"'")
	a := start(t, struct{ sessionstore.SessionStore }{store}, opts)
	require.NoError(t, a.Close(t.Context()))
	require.Zero(t, store.loads)
	require.Equal(t, []string{lineA}, stored(t, store))
}

func TestTheDirectoryIsKeptWhenWhatWasNotToldCanNotBeStored(t *testing.T) {
	for name, change := range map[string]func(s *brokenStore, o *host.Options){
		"outage":  func(s *brokenStore, o *host.Options) {},
		"spilled": func(s *brokenStore, o *host.Options) { o.Mirror.Spill = t.TempDir() },
	} {
		t.Run(name, func(t *testing.T) {
			store := &brokenStore{Store: inmemory.New(), broken: true}
			told := ""
			if name == "spilled" {
				told = "tell '" + lineA + "'; "
			}
			m := newMachine(t)
			opts := scriptedOptions(t, m, "write '"+lineA+"'; "+told+"write '"+lineB+"'; kill -9 $$")
			change(store, &opts)
			a := start(t, store, opts)
			kept := (*resume.KeptError)(nil)
			require.ErrorAs(t, a.Close(t.Context()), &kept)
			store.broken = false
			_, err := host.Recover(t.Context(), store, m.temp, &host.RecoverOptions{Spill: opts.Mirror.Spill})
			require.NoError(t, err)
			require.Equal(t, []string{lineA, lineB}, stored(t, store))
		})
	}
}

// A link leads to another tenant's transcripts.
func TestCloseFollowsNoLinkInsteadOfProjects(t *testing.T) {
	other := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(other, tenant), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(other, tenant, scripted+".jsonl"), []byte(lineA+"\n"), 0o600))
	for name, script := range map[string]string{
		"projects": `rm -r "$CLAUDE_CONFIG_DIR/projects"; ln -s ` + other + ` "$CLAUDE_CONFIG_DIR/projects"; kill -9 $$`,
		"project":  `rm -r "$P"; ln -s ` + other + `/` + tenant + ` "$P"; kill -9 $$`,
	} {
		t.Run(name, func(t *testing.T) {
			store := inmemory.New()
			a := start(t, store, scriptedOptions(t, newMachine(t), script))
			_ = a.Close(t.Context())
			require.Empty(t, stored(t, store))
			require.FileExists(t, filepath.Join(other, tenant, scripted+".jsonl"))
		})
	}
}

// hanging is a store whose calls end only with their context.
type hanging struct{ *inmemory.Store }

func (h hanging) Append(ctx context.Context, _ sessionstore.Key, _ []sessionstore.Entry) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestCloseEndsWithItsContextWhileTheStoreHangs(t *testing.T) {
	result := `echo '{"type":"result"}'; `
	many := strings.Repeat("write '"+lineA+"'; tell '"+lineA+"'; ", 9)
	for name, script := range map[string]string{
		"a flush waits": "write '" + lineA + "'; tell '" + lineA + "'; " + result,
		"memory waits":  many,
	} {
		t.Run(name, func(t *testing.T) {
			opts := scriptedOptions(t, newMachine(t), script+"cat > /dev/null")
			opts.Mirror.CallTimeout, opts.Mirror.MaxPending = time.Hour, 2*len(lineA)
			a := start(t, hanging{inmemory.New()}, opts)
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			kept, loss := (*resume.KeptError)(nil), (*mirror.LossError)(nil)
			err := a.Close(ctx) // would take an hour
			require.ErrorAs(t, err, &loss)
			require.ErrorAs(t, err, &kept)
		})
	}
}

func TestRecoverLeavesNoTokensWhereTheRecordIsOfNoUse(t *testing.T) {
	for name, change := range map[string]func(record string) error{
		"missing": os.Remove,
		"corrupt": func(record string) error { return os.WriteFile(record, []byte("{"), 0o600) },
		"version": func(record string) error { return os.WriteFile(record, []byte(`{"version":99}`), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			dir, key := leave(t, m, tenant)
			require.NoError(t, change(filepath.Join(dir, resume.RecordFile)))
			token := filepath.Join(dir, ".credentials.json")
			require.NoError(t, os.WriteFile(token, []byte("secret"), 0o600))
			_, err := host.Recover(t.Context(), inmemory.New(), m.temp, nil)
			require.ErrorContains(t, err, resume.RecordFile)
			require.NoFileExists(t, token)
			require.FileExists(t, filepath.Join(dir, "projects", tenant, key.SessionID+".jsonl"))
		})
	}
}

func TestRecoverRemovesWhatAHostThatWasKilledInStartHasLeft(t *testing.T) {
	m := newMachine(t)
	dir := filepath.Join(m.temp, resume.DirPrefix+"1")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "projects", "x"), 0o700))
	require.NoError(t, os.Chmod(dir, 0o700))
	temp := filepath.Join(dir, resume.RecordFile+".tmp")
	require.NoError(t, os.WriteFile(temp, nil, 0o600))

	line := filepath.Join(dir, "projects", "x", "s.jsonl")
	require.NoError(t, os.WriteFile(line, []byte(lineA+"\n"), 0o600))
	_, err := host.Recover(t.Context(), inmemory.New(), m.temp, nil)
	require.Error(t, err)
	require.FileExists(t, line, "no host leaves this, and it is not known whose it is")

	require.NoError(t, os.Remove(line))
	require.NoError(t, os.WriteFile(temp, nil, 0o600))
	report, err := host.Recover(t.Context(), inmemory.New(), m.temp, nil)
	require.NoError(t, err)
	require.Equal(t, 1, report.Removed)
	m.requireNothingLeft()
}

func TestRecoverKeepsTranscriptsThatItDoesNotRead(t *testing.T) {
	for _, where := range []string{".hidden/s.jsonl", tenant + "/" + scripted + strings.Repeat("/d", 16) + "/s.jsonl"} {
		m := newMachine(t)
		dir, _ := leave(t, m, tenant)
		name := filepath.Join(dir, "projects", filepath.FromSlash(where))
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, []byte(lineA+"\n"), 0o600))
		_, err := host.Recover(t.Context(), inmemory.New(), m.temp, nil)
		require.ErrorContains(t, err, "is kept")
		require.FileExists(t, name)
	}
}

// gone removes the directory as another Recover does, while it is read.
type gone struct {
	*inmemory.Store
	dir string
}

func (g gone) Append(context.Context, sessionstore.Key, []sessionstore.Entry) error {
	return os.RemoveAll(g.dir)
}

func TestRecoverBearsThatADirectoryVanishes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("directories in use are not removed")
	}
	m := newMachine(t)
	dir, _ := leave(t, m, tenant)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "projects", tenant, "z.jsonl"), []byte("damaged\n"), 0o600))
	_, err := host.Recover(t.Context(), gone{inmemory.New(), dir}, m.temp, nil)
	require.NoError(t, err)
	require.NoDirExists(t, dir)
}

func TestMalformedQuestionsAreAnswered(t *testing.T) {
	for ask, want := range map[string]string{
		`"request_id":"7"`:               `"request_id":"7","subtype":"error"`,
		`"request_id":"7","request":[1]`: `"request_id":"7","subtype":"error"`,
		`"request_id":7,"request":{"subtype":"can_use_tool","tool_name":"x","input":{}}`: `"request_id":7,`,
		`"request_id":"7","request":{"subtype":"can_use_tool","tool_name":5}`:            `"subtype":"error"`,
		`"request_id":"7","request":{"subtype":"can_use_tool","tool_name":"x"}`:          `"updatedInput":{}`,
	} {
		opts := shell(t, newMachine(t), `echo '{"type":"control_request",`+ask+`}'; read -r l; printf '%s\n' "$l"; cat > /dev/null`)
		opts.OnPermission = func(context.Context, host.Permission) host.Decision { return host.Decision{Allow: true} }
		a := start(t, inmemory.New(), opts)
		time.AfterFunc(10*time.Second, a.Kill) // instead of waiting for ever
		got := ""
		for m, err := range a.Messages() {
			require.NoError(t, err)
			got = string(m.Raw)
			break
		}
		require.Contains(t, got, `"control_response"`, ask)
		require.Contains(t, got, want, ask)
		require.NoError(t, a.Close(t.Context()))
	}
}
