// Package testuser runs tests as an ordinary user. Permissions do not stop root,
// so a test of files that can't be read would show nothing there.
package testuser

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// env makes the process an ordinary user before it does anything.
const env = "SESSIONSTORE_TEST_NOBODY"

func init() {
	if os.Getenv(env) == "" {
		return
	}
	if err := becomeNobody(); err != nil {
		panic(err)
	}
}

// Run runs a test, in a process of its own if this one is root's: with nobody's
// rights, and with a directory for temporary files that everybody may write to,
// which is the home directory too. On systems without such users the test is
// skipped.
func Run(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	if !hasUsers {
		t.Skip("no permissions to take away on this system")
	}
	if os.Geteuid() != 0 {
		test(t)
		return
	}
	temp, err := os.MkdirTemp("/tmp", "sessionstore-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(temp) })
	if err := os.Chmod(temp, 0o777); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.v", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), env+"=1", "TMPDIR="+temp, "HOME="+temp)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("as an ordinary user: %v\n%s", err, out)
	}
}
