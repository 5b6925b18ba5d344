package source

import (
	"context"
	"os"
)

// origin is where the resources of a set come from. It writes them to the Index of the set, and
// no one else does. A Folder is one.
type origin interface {
	// Run keeps the index in step until ctx ends, and then returns nil. It returns an error only
	// if the index is of no more use.
	Run(ctx context.Context) error
	// Scan brings the index in step once.
	Scan(ctx context.Context) error
	// Changed receives a value when documents may be due: after changes were logged, when
	// the index gets its baseline, and when FolderStatus.Err or Held has become zero.
	Changed() <-chan struct{}
	// Open opens the bytes of a resource that has a Path. If there are none, the error wraps
	// fs.ErrNotExist.
	Open(path string) (*os.File, error)
	Status() FolderStatus
	// AcceptDeletions publishes as deleted, once, what was withheld because it is so much.
	AcceptDeletions()
}

var _ origin = (*Folder)(nil)
