package embedstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/journal"
)

// do has the writer run o, and returns its result once that is durable.
func (f *folder) do(ctx context.Context, o *boltfile.Op) error { return spaceOr(f.db.Do(ctx, o)) }

// spaceOr wraps journal.ErrFull around an error that says that the disk is full, so
// that nothing was stored, and returns any other as it is.
func spaceOr(err error) error {
	if !boltfile.IsFull(err) || errors.Is(err, journal.ErrFull) || boltfile.MayBeStored(err) {
		return err
	}
	return fmt.Errorf("%w: %w", journal.ErrFull, err)
}
