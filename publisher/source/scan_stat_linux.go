package source

import (
	"io/fs"
	"syscall"
)

func statOf(info fs.FileInfo) stat {
	s := stat{size: info.Size(), mtime: instantOf(info.ModTime())}
	s.changed = s.mtime
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode = sys.Ino
		s.changed = instant{int64(sys.Ctim.Sec), int32(sys.Ctim.Nsec)} //nolint:gosec // below 1e9
	}
	return s
}
