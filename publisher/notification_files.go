package publisher

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rshub/rshub/internal/base/atomicfile"
	"github.com/rshub/rshub/internal/base/boltfile"
)

// inlineMax is the largest notification, in bytes, that is kept in the database,
// whose file never shrinks. Each larger one gets a file.
const inlineMax = 64 << 10

// files are the large notifications, by interval.name. A file is whole and durable before
// the interval that names it is in the database, and is deleted after the interval. So a
// crash leaves at most files that no interval names.
type files struct{ dir string }

func (f files) path(i interval) string { return filepath.Join(f.dir, i.name()) }

// write stores the bytes of an interval durably.
func (f files) write(i interval, body []byte) error {
	if err := atomicfile.WriteBytes(f.path(i), atomicfile.Options{}, body); err != nil {
		return fmt.Errorf("writing a notification: %w", err)
	}
	return nil
}

func (f files) open(i interval) (*os.File, error) { return os.Open(f.path(i)) }

// remove deletes a file. If it fails, the next Open deletes it.
func (f files) remove(i interval) { _ = os.Remove(f.path(i)) }

// removeOrphans deletes the files that a crash left: those that no interval names.
func (x *outbox) removeOrphans() error {
	found, err := os.ReadDir(x.files.dir)
	if err != nil {
		return err
	}
	return x.db.View(func(tx *boltfile.Tx) error {
		for _, f := range found {
			from, ours := parseName(strings.TrimSuffix(f.Name(), atomicfile.Suffix))
			if !ours {
				continue
			}
			if i, ok := namedInterval(tx, from, f.Name()); ok && i.InFile {
				continue
			}
			if err := os.Remove(filepath.Join(x.files.dir, f.Name())); err != nil {
				return err
			}
		}
		return nil
	})
}
