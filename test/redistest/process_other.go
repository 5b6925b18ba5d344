//go:build !linux

package redistest

import "syscall"

// dieWithUs has nothing to ask of this kernel: here a test binary that is
// killed leaves its servers behind.
func dieWithUs() *syscall.SysProcAttr { return nil }
