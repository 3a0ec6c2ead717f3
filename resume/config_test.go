package resume_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sessionstore/sessionstore"
	"github.com/sessionstore/sessionstore/resume"
)

// config materialises and returns the files beside "projects".
func config(t *testing.T, h home, opts resume.Options, on resume.Machine) map[string]string {
	t.Helper()
	s, err := resume.MaterializeOn(t.Context(), onlyMain{filled(t)}, opts, on)
	require.NoError(t, err)
	requireModes(t, s.ConfigDir)
	files := tree(t, s.ConfigDir)
	delete(files, "projects/proj/"+id+".jsonl")
	require.NoError(t, s.Close())
	return files
}

const (
	settings      = "{\n  \"apiKeyHelper\": \"/bin/x\",\n  \"enabledPlugins\": {\"a@b\": true},\n  \"n\": 1.0,\n  \"extraKnownMarketplaces\": {\"b\": {\"source\": 1}}\n}\n"
	settingsAfter = "{\n  \"apiKeyHelper\": \"/bin/x\",\n  \"n\": 1.0\n}\n"
)

func TestTheDefaultConfigDirectoryIsCopied(t *testing.T) {
	h := newHome(t)
	h.write(".claude.json", `{"oauthAccount":{"n":12345678901234567890}}`)
	h.write(".claude/.credentials.json", `{"claudeAiOauth":{"accessToken":"a","refreshToken":"r","expiresAt":1}}`)
	h.write(".claude/settings.json", settings)
	h.write(".claude/cowork_settings.json", settings)
	h.write(".claude/history.jsonl", "private")
	require.Equal(t, map[string]string{
		".claude.json":         `{"oauthAccount":{"n":12345678901234567890}}`,
		".credentials.json":    `{"claudeAiOauth":{"accessToken":"a","expiresAt":1}}`,
		"settings.json":        settingsAfter,
		"cowork_settings.json": settingsAfter,
	}, config(t, h, h.options(), resume.ThisMachine))
}

func TestSettingsWithoutCredentials(t *testing.T) {
	h := newHome(t)
	h.write(".claude/settings.json", `{"apiKeyHelper":"/bin/x"}`)
	require.Equal(t, map[string]string{"settings.json": `{"apiKeyHelper":"/bin/x"}`}, config(t, h, h.options(), resume.ThisMachine))
}

func TestAnotherConfigDirectory(t *testing.T) {
	h := newHome(t)
	h.write(".claude.json", "the wrong one")
	h.write(".claude/settings.json", `{"wrong":1}`)
	h.write("other/.claude.json", "the right one")
	h.write("other/settings.json", `{}`)
	want := map[string]string{".claude.json": "the right one", "settings.json": "{}"}
	byOption := h.options()
	byOption.ConfigDir = filepath.Join(h.dir, "other")
	require.Equal(t, want, config(t, h, byOption, resume.ThisMachine))
	byEnv := h.options()
	byEnv.Env = append(byEnv.Env, "CLAUDE_CONFIG_DIR="+filepath.Join(h.dir, "other"))
	require.Equal(t, want, config(t, h, byEnv, resume.ThisMachine))
}

// An agent without a private directory does not see that option.
func TestTheConfigDirOfAnAgentInItsOwnDirectory(t *testing.T) {
	h := newHome(t)
	opts := h.options()
	opts.ProjectKey, opts.SessionID, opts.ConfigDir = "", "", filepath.Join(h.dir, "other")
	s, err := resume.Materialize(t.Context(), filled(t), opts)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(h.dir, ".claude"), s.ConfigDir)
	opts.Env = append(opts.Env, "CLAUDE_CONFIG_DIR="+filepath.Join(h.dir, "named"))
	s, err = resume.Materialize(t.Context(), filled(t), opts)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(h.dir, "named"), s.ConfigDir)
}

func TestFilesThatAreNoJSONAreLeftOutAndReported(t *testing.T) {
	h := newHome(t)
	h.write(".claude/.credentials.json", `{"refreshToken":"r"`)
	h.write(".claude/settings.json", `// comment`)
	require.NoError(t, os.MkdirAll(filepath.Join(h.dir, ".claude", "cowork_settings.json"), 0o700))
	opts := h.options()
	var skipped []string
	opts.OnSkip = func(s resume.Skip) {
		require.Error(t, s.Err)
		require.Contains(t, s.String(), s.File)
		skipped = append(skipped, s.File)
	}
	require.Empty(t, config(t, h, opts, resume.ThisMachine))
	require.Equal(t, []string{".credentials.json", "settings.json", "cowork_settings.json"}, skipped)
}

func TestSettingsThatCannotBeReadAreAnError(t *testing.T) {
	if runtime.GOOS == "windows" || os.Getuid() == 0 {
		t.Skip("needs a file without permission, which root and Windows don't have")
	}
	h := newHome(t)
	h.write(".claude/settings.json", `{}`)
	require.NoError(t, os.Chmod(filepath.Join(h.dir, ".claude", "settings.json"), 0))
	_, err := resume.Materialize(t.Context(), filled(t), h.options())
	require.ErrorIs(t, err, os.ErrPermission)
	h.requireNothingLeft()
}

// security stands for the executable of macOS.
func security(t *testing.T, script string) resume.Machine {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	path := filepath.Join(t.TempDir(), "security")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700))
	return resume.NewMachine("darwin", path, os.RemoveAll)
}

const tells = `[ "$*" = "find-generic-password -a me -w -s Claude Code-credentials" ] || exit 9
echo '{"claudeAiOauth":{"accessToken":"keychain","refreshToken":"r"}}'`

func TestCredentialsOfTheKeychain(t *testing.T) {
	h := newHome(t)
	h.env = append(h.env, "USER=me")
	h.write(".claude/.credentials.json", `{"claudeAiOauth":{"accessToken":"file"}}`)
	file := map[string]string{".credentials.json": `{"claudeAiOauth":{"accessToken":"file"}}`}
	keychain := map[string]string{".credentials.json": `{"claudeAiOauth":{"accessToken":"keychain"}}`}
	require.Equal(t, keychain, config(t, h, h.options(), security(t, tells)))
	for _, name := range []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"} {
		opts := h.options()
		opts.Env = append(opts.Env, name+"=x")
		require.Equal(t, file, config(t, h, opts, security(t, tells)), name)
	}
	opts := h.options()
	opts.Env = append(opts.Env, "CLAUDE_CONFIG_DIR="+filepath.Join(h.dir, ".claude"))
	require.Equal(t, file, config(t, h, opts, security(t, tells)), "such an agent looks for another entry")
	require.Equal(t, file, config(t, h, h.options(), security(t, "exit 44")), "there is no entry")

	var skipped []resume.Skip
	opts = h.options()
	opts.OnSkip = func(s resume.Skip) { skipped = append(skipped, s) }
	require.Equal(t, file, config(t, h, opts, security(t, "exit 36")), "the keychain is locked")
	require.Len(t, skipped, 1)
	require.ErrorContains(t, skipped[0].Err, "keychain")
}

func TestEdits(t *testing.T) {
	for in, want := range map[string]string{
		`{}`:                                  `{}`,
		`{"refreshToken":"r"}`:                `{}`,
		`{ "refreshToken" : "r" }`:            `{  }`,
		`{"a":1,"refreshToken":"r"}`:          `{"a":1}`,
		`{"refreshToken":"r","a":1}`:          `{"a":1}`,
		`{"refreshToken":1,"refreshToken":2}`: `{}`,
		`{"a":{"refreshToken":"r","b":1},"refreshToken":{"refreshToken":1}}`:                      `{"a":{"b":1}}`,
		`{"mcp":[{"x":1e400,"refreshToken":null},{"refreshToken":[1,{"a":"}"}],"y":-0.0}]}`:       `{"mcp":[{"x":1e400},{"y":-0.0}]}`,
		`{"refresh\u0054oken":"r","s":"\"refreshToken\":\\","refreshTokens":true}`:                `{"s":"\"refreshToken\":\\","refreshTokens":true}`,
		`{"refreshToken":1,"a":{"refreshToken":2,"b":3},"refreshToken":4,"c":5,"refreshToken":6}`: `{"a":{"b":3},"c":5}`,
		"{\n \"a\": 1,\n \"refreshToken\": 2\n}":                                                  "{\n \"a\": 1\n}",
		"{\n \"refreshToken\": 2,\n \"a\": 1\n}":                                                  "{\n \"a\": 1\n}",
	} {
		got, err := resume.WithoutRefreshTokens([]byte(in))
		require.NoError(t, err)
		require.Equal(t, want, string(got), in)
	}
	got, err := resume.WithoutPlugins([]byte(`{"a":{"enabledPlugins":1},"pluginConfigs":2,"strictKnownMarketplaces":[]}`))
	require.NoError(t, err)
	require.Equal(t, `{"a":{"enabledPlugins":1},"strictKnownMarketplaces":[]}`, string(got))
	got, err = resume.SidecarOf([]byte(`{"type":"x","a":{"type":1},"type":"agent_metadata","b":2}`))
	require.NoError(t, err)
	require.Equal(t, `{"type":"x","a":{"type":1},"b":2}`, string(got))
}

// Whatever is cut, the rest is valid and nothing of it has changed.
func FuzzCutMembers(f *testing.F) {
	f.Add(`{"refreshToken":1,"a":{"refreshToken":[2,{"refreshToken":3}],"b":3}}`)
	f.Add(" {\t\"refreshToken\" :\n\"\\\"\" , \"a\":[ ] } ")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := resume.WithoutRefreshTokens([]byte(text))
		if err != nil {
			require.Error(t, sessionstore.Entry(text).Validate())
			return
		}
		require.NoError(t, sessionstore.Entry(got).Validate(), "%q", got)
		again, err := resume.WithoutRefreshTokens(got)
		require.NoError(t, err)
		require.Equal(t, string(got), string(again), "nothing is left to cut")
		same, err := resume.CutMembers([]byte(text), func(int, []byte) bool { return false })
		require.NoError(t, err)
		require.Equal(t, text, string(same))
	})
}

func TestOptionsAreCheckedBeforeTheStoreIsCalled(t *testing.T) {
	h := newHome(t)
	store := &hooked{Store: filled(t)}
	bad := func(change func(*resume.Options), cause error) {
		t.Helper()
		opts := h.options()
		change(&opts)
		option := (*resume.OptionError)(nil)
		require.ErrorAs(t, opts.Validate(nil), &option)
		_, err := resume.Materialize(t.Context(), panicStore{}, opts)
		require.ErrorAs(t, err, &option)
		require.NotEmpty(t, option.Option)
		if cause != nil {
			require.ErrorIs(t, err, cause)
		}
	}
	for _, id := range []string{
		"x", "../x", "a/b", `a\b`, ".", "..", "x\x00y", "C:foo", "--version", "-h", "a&b", "a%b", id + "\n", id + "\n" + id,
		" " + id, "{" + id + "}", id[:35], id[:35] + "g", "814ed2c4_4fca-40ef-b6a6-f2500e0fa13e", string(make([]byte, 300)),
	} {
		bad(func(o *resume.Options) { o.SessionID = id }, sessionstore.ErrInvalidKey)
	}
	bad(func(o *resume.Options) { o.SessionID, o.Continue = "", true }, errors.ErrUnsupported)
	bad(func(o *resume.Options) { o.Continue = true }, nil)
	bad(func(o *resume.Options) { o.ProjectKey = "nul\x00" }, sessionstore.ErrInvalidKey)
	bad(func(o *resume.Options) { o.Env = append(o.Env, "CLAUDE_CODE_SKIP_PROMPT_HISTORY=1") }, resume.ErrNotPersisted)
	bad(func(o *resume.Options) { o.Env = append(o.Env, "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING=true") }, resume.ErrFileCheckpointing)
	h.requireNothingLeft()

	opts := h.options()
	require.NoError(t, opts.Validate(store))
	for _, id := range []string{"814ED2C4-4FCA-40EF-B6A6-F2500E0FA13E", "00000000-0000-0000-0000-000000000000"} {
		require.NoError(t, resume.CheckSessionID(id))
	}
	require.NoError(t, resume.CheckAgent([]string{"--verbose", "--no-session-persistence=false"}, []string{"CLAUDE_CODE_SKIP_PROMPT_HISTORY=", "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING=0"}))
	require.ErrorIs(t, resume.CheckAgent([]string{"--no-session-persistence"}, nil), resume.ErrNotPersisted)
}

// panicStore must not be called. It can do nothing optional.
type panicStore struct{ sessionstore.SessionStore }
