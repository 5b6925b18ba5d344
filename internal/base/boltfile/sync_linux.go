package boltfile

import (
	"errors"
	"os"
	"syscall"
)

// fdatasync makes what was written to a file durable, with its length, and without its times.
func fdatasync(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
