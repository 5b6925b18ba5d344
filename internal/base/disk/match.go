package disk

import (
	"io/fs"
	"os"
	"path/filepath"
)

// Match returns the paths in the folder dir that match pattern, which is one of fs.Glob and below dir. Unlike
// filepath.Glob, it takes the name of dir as it is: that may contain "[" or "*". What cannot be read is left out, and a
// malformed pattern matches nothing.
func Match(dir, pattern string) []string {
	paths, _ := fs.Glob(os.DirFS(dir), pattern) // fails only as said
	for i := range paths {
		paths[i] = filepath.Join(dir, filepath.FromSlash(paths[i]))
	}
	return paths
}
