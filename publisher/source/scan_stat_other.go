//go:build !linux

package source

import "io/fs"

func statOf(info fs.FileInfo) stat {
	mtime := instantOf(info.ModTime())
	return stat{size: info.Size(), mtime: mtime, changed: mtime}
}
