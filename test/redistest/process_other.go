//go:build !linux

package redistest

import "syscall"

// dieWithUs does nothing on this kernel: a test binary that is killed leaves its
// servers behind.
func dieWithUs() *syscall.SysProcAttr { return nil }
