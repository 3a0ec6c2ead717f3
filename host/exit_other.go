//go:build !linux

package host

import "os/exec"

// awaitExit would wait for the end of the process and not reap it.
func awaitExit(*exec.Cmd) bool { return false }
