package ingress

import (
	"os"
	"slices"
	"time"
)

// FilesEvery is how often to look at files that are read again when they change. A change
// counts once two looks in a row find the same, so that no file is read while it is written.
const FilesEvery = 2 * time.Second

// Watched are files that are read again when one of them changes. Its owner
// guards it.
type Watched struct {
	names []string
	// taken is how they were when they were read, and found how the last look found them. Nil
	// stands for a file that could not be looked at.
	taken, found []os.FileInfo
}

// Take is called before the files are read, so that what is written meanwhile counts as
// another change.
func (w *Watched) Take(names ...string) {
	w.names = names
	w.found = w.look()
	w.taken = w.found
}

// Changed looks at the files, and reports whether to read them.
func (w *Watched) Changed() bool {
	now := w.look()
	settled := same(now, w.found)
	w.found = now
	return settled && !same(now, w.taken)
}

func (w *Watched) look() []os.FileInfo {
	now := make([]os.FileInfo, len(w.names))
	for i, name := range w.names {
		now[i], _ = os.Stat(name) // reading it gives the error
	}
	return now
}

func same(a, b []os.FileInfo) bool {
	return slices.EqualFunc(a, b, func(a, b os.FileInfo) bool {
		if a == nil || b == nil {
			return a == nil && b == nil
		}
		return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
	})
}
