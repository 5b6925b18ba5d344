//go:build !linux

package boltfile

import "os"

func fdatasync(f *os.File) error { return f.Sync() }
