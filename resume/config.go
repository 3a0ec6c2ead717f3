package resume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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

var thisMachine = machine{goos: runtime.GOOS, security: "/usr/bin/security", remove: removeAll}

// maxConfigFile is far more than any such file has.
const maxConfigFile = 16 << 20

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
	if err := m.copyFile(ctx, claude, claudeFile, nil); err != nil {
		return err
	}
	for _, name := range []string{"settings.json", "cowork_settings.json"} {
		if err := m.copyFile(ctx, filepath.Join(p.configDir, name), name, withoutPlugins); err != nil {
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
	return m.copyFile(ctx, from, credentialsFile, withoutRefreshTokens)
}

// copyFile copies a file if there is one. One that can't be read, or is too
// large, is an error: without its settings an agent would run with other
// permissions.
func (m *materializer) copyFile(ctx context.Context, from, name string, edit func([]byte) ([]byte, error)) error {
	info, err := os.Stat(from)
	if err != nil {
		return ignoreMissing(err)
	}
	if !info.Mode().IsRegular() {
		m.skip(Skip{File: name, Err: errors.New("not a regular file")})
		return nil
	}
	text, err := readFile(ctx, from)
	if err != nil {
		return err
	}
	return m.writeConfig(name, text, edit)
}

func readFile(ctx context.Context, path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if info.Size() <= maxConfigFile {
		_, err = io.Copy(&text, io.LimitReader(contextReader{ctx, f}, maxConfigFile+1))
	}
	if err == nil && (info.Size() > maxConfigFile || text.Len() > maxConfigFile) {
		err = fmt.Errorf("%s is larger than %d MiB", path, maxConfigFile>>20)
	}
	return text.Bytes(), err
}

// contextReader ends with its context.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
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
