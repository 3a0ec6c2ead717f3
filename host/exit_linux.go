package host

import (
	"os/exec"
	"syscall"
)

// awaitExit waits for the end of the process and leaves it a zombie: until it
// is reaped, its number and that of its group can't be those of others.
func awaitExit(cmd *exec.Cmd) bool {
	const pid, noWait = 1, 0x01000000 // P_PID, WNOWAIT
	for {
		_, _, e := syscall.Syscall6(syscall.SYS_WAITID, pid, uintptr(cmd.Process.Pid), 0, syscall.WEXITED|noWait, 0, 0)
		if e != syscall.EINTR {
			return e == 0
		}
	}
}
