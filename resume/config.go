package resume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

const (
	credentialsFile = ".credentials.json"
	claudeFile      = ".claude.json"
)

// machine is what tests replace.
type machine struct {
	goos     string
	security string // the executable that reads the keychain
	remove   func(dir string) error
}

var thisMachine = machine{goos: runtime.GOOS, security: "/usr/bin/security", remove: os.RemoveAll}

// config brings what the agent needs to start.
func (m *materializer) config(ctx context.Context) error {
	p := m.session.plan
	if err := m.credentials(ctx); err != nil {
		return err
	}
	claude := filepath.Join(p.configDir, claudeFile)
	if p.isDefault {
		if beside := filepath.Join(filepath.Dir(p.configDir), claudeFile); exists(beside) {
			claude = beside
		}
	}
	if err := m.copyFile(claude, claudeFile, nil); err != nil {
		return err
	}
	for _, name := range []string{"settings.json", "cowork_settings.json"} {
		if err := m.copyFile(filepath.Join(p.configDir, name), name, withoutPlugins); err != nil {
			return err
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// credentials prefers the keychain where agents do.
func (m *materializer) credentials(ctx context.Context) error {
	if text := m.keychain(ctx); text != nil {
		return m.writeConfig(credentialsFile, text, withoutRefreshTokens)
	}
	from := filepath.Join(m.session.plan.configDir, credentialsFile)
	return m.copyFile(from, credentialsFile, withoutRefreshTokens)
}

// copyFile copies a file if there is one. One that can't be read is an error:
// without its settings an agent would run with other permissions.
func (m *materializer) copyFile(from, name string, edit func([]byte) ([]byte, error)) error {
	info, err := os.Stat(from)
	if err != nil {
		return ignoreMissing(err)
	}
	if !info.Mode().IsRegular() {
		m.skip(Skip{File: name, Err: errors.New("not a regular file")})
		return nil
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return m.writeConfig(name, text, edit)
}

// writeConfig leaves out a file that can't be edited: what must not be passed
// on could not be taken out.
func (m *materializer) writeConfig(name string, text []byte, edit func([]byte) ([]byte, error)) error {
	if edit != nil && len(bytes.TrimSpace(text)) > 0 {
		edited, err := edit(bytes.TrimPrefix(text, []byte("\uFEFF")))
		if err != nil {
			m.skip(Skip{File: name, Err: fmt.Errorf("not valid JSON: %w", err)})
			return nil
		}
		text = edited
	}
	f, err := m.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// keychainService is what the entry of agents with the default config
// directory is called.
const keychainService = "Claude Code-credentials"

// keychain returns the credentials in the keychain of macOS, if the agent would
// use them.
func (m *materializer) keychain(ctx context.Context) []byte {
	p := m.session.plan
	if m.on.goos != "darwin" || !p.isDefault {
		return nil
	}
	for _, name := range []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"} {
		if value, _ := getenv(p.env, name); value != "" {
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, m.opts.CallTimeout)
	defer cancel()
	args := []string{"find-generic-password"}
	if user, ok := getenv(p.env, "USER"); ok {
		args = append(args, "-a", user)
	}
	cmd := exec.CommandContext(ctx, m.on.security, append(args, "-w", "-s", keychainService)...)
	cmd.Env = p.env
	out, err := cmd.Output()
	if text := bytes.TrimSpace(out); err == nil && len(text) > 0 {
		return text
	}
	if err != nil && !isNoEntry(err) {
		m.skip(Skip{File: credentialsFile, Err: fmt.Errorf("keychain: %w", err)})
	}
	return nil
}

// isNoEntry: the exit code of security when there is no such entry.
func isNoEntry(err error) bool {
	exit := (*exec.ExitError)(nil)
	return errors.As(err, &exit) && exit.ExitCode() == 44
}
