package embedstore

import (
	"context"
	"sync/atomic"

	"github.com/rshub/rshub/cluster"
	"github.com/rshub/rshub/internal/base/boltfile"
)

// upgrader implements cluster.Upgrader. No other hub has the folder open.
type upgrader struct {
	folder  *folder
	pending atomic.Bool
}

// Pending implements cluster.Upgrader.
func (u *upgrader) Pending() bool { return u.pending.Load() }

// Formats implements cluster.Upgrader.
func (u *upgrader) Formats(ctx context.Context) (cluster.Formats, error) {
	return read(ctx, u.folder, func(tx *boltfile.Tx) (cluster.Formats, error) {
		written := int(tx.Format()) //nolint:gosec // previous or schema
		return cluster.Formats{Written: written, Newest: schema, Closed: written == schema}, nil
	})
}

// FinishUpgrade implements cluster.Upgrader.
func (u *upgrader) FinishUpgrade(ctx context.Context) error {
	return u.folder.do(ctx, &boltfile.Op{
		Run: func(tx *boltfile.Tx) error { return tx.SetFormat(schema) },
		Finish: func(err error) {
			if err == nil {
				u.pending.Store(false)
			}
		},
	})
}
