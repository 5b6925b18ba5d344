package disk

import (
	"fmt"
	"syscall"

	"github.com/rshub/rshub/internal/base/quantity"
)

// FullError says that a disk has too little free space. Sizes are in bytes.
type FullError struct {
	Dir         string // a folder on it
	Free, Least int64
}

func (e *FullError) Error() string {
	return fmt.Sprintf("%s has %s free, and %s have to stay free; make room, or move the folder to a larger disk", e.Dir, quantity.BytesText(e.Free), quantity.BytesText(e.Least))
}

// DefaultMinFree is the free space, in bytes, that stays on a disk by default.
const DefaultMinFree = 256 << 20

// Free is the free space, in bytes, of the disk that a folder is on.
func Free(dir string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("looking for the free space of %s: %w", dir, err)
	}
	return int64(st.Bavail) * int64(st.Bsize), nil //nolint:gosec,unconvert // no disk has 2^63 bytes; the types differ between systems
}

// Room returns a *FullError if the disk that a folder is on has less
// than least bytes left after taking size bytes more. A negative least is no limit.
func Room(dir string, least, size int64) error {
	if least < 0 {
		return nil
	}
	free, err := Free(dir)
	if err != nil {
		return err
	}
	if free-size < least {
		return &FullError{dir, free, least}
	}
	return nil
}
