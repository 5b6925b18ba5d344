package redistest

import "syscall"

// dieWithUs makes the kernel kill the server when the test binary ends.
func dieWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
