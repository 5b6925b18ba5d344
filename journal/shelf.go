package journal

import (
	"context"
	"time"
)

// Shelf keeps short values under names, for all hubs on the store. It may be shared between
// goroutines.
type Shelf interface {
	// Keep stores fresh under a name if there is nothing yet, and returns what is stored then. It
	// is kept for life from this call on; zero: forever. Of hubs that call it at the same time,
	// all get the same value.
	Keep(ctx context.Context, name string, fresh []byte, life time.Duration) ([]byte, error)
	// Kept returns what is stored under a name; nil: nothing.
	Kept(ctx context.Context, name string) ([]byte, error)
	// Drop deletes what is stored under a name, if anything is.
	Drop(ctx context.Context, name string) error
}
