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
	// Bytes opens the bytes of a resource. Same reports whether they are those of the index, as
	// far as that can be seen without reading them. If there are none any more, f is nil.
	Bytes(ctx context.Context, r *Resource) (f *os.File, same bool, err error)
	Status() FolderStatus
	// AcceptDeletions publishes as deleted, once, what was withheld because it is so much.
	AcceptDeletions()
}

var _ origin = (*Folder)(nil)
