package embedstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/journal"
)

// report reports a change of a topic to those that watch, once it is stored or may be.
func (t *topics) report(id uuid.UUID, topic string, err error) {
	if boltfile.MayBeStored(err) {
		t.feeds[journal.Partition(id)].bump(id)
		t.hints.Send(topic)
	}
}

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
