package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/cluster"
	"github.com/rshub/rshub/internal/program/config"
	"github.com/rshub/rshub/store/embedstore"
)

// embeddedStore is the store in the data folder. It is used if no other is named.
var embeddedStore = storeKind{
	named:       func(*config.Config) bool { return true },
	open:        openEmbedded,
	unavailable: []error{embedstore.ErrClosed},
}

func openEmbedded(_ context.Context, cfg *config.Config, o storeOptions) (*backend, error) {
	if o.existing {
		if err := folderHasStore(cfg.DataDir); err != nil {
			return nil, err
		}
	}
	options := embedstore.Options{MinFree: cfg.MinFreeDisk, Keys: o.keys, Reads: o.reads}
	if options.MinFree == 0 {
		options.MinFree = -1 // no limit; 0 is the store's default
	}
	if o.hub != nil {
		options.Unreadable, options.UnreadableTopic = o.hub.unreadable, o.hub.unreadableTopic
	}
	s, err := embedstore.Open(cfg.DataDir, options)
	if err != nil {
		return nil, err
	}
	logSealed(o.log, s.Secrets())
	return &backend{hubStore: s, info: admin.StoreInfo{Kind: "embedded", Location: cfg.DataDir, ID: s.ID()}, leases: cluster.Alone, upgrader: s.Upgrader}, nil
}

// CheckFolder reads everything in a data folder, and calls bad for each damaged item. No hub
// may have the folder open. An error that wraps ErrNoStore says that there is no store in it, and one that wraps
// ErrInterrupted that only a part of a backup is.
func CheckFolder(dir string, bad func(what string, why error)) (embedstore.Checked, error) {
	if err := folderHasStore(dir); err != nil {
		return embedstore.Checked{}, err
	}
	c, err := embedstore.Check(dir, bad)
	if err == nil && slices.Contains(c.Kept, restoring) {
		err = errPart
	}
	return c, err
}

// folderHasStore returns an error that wraps ErrNoStore if opening the folder would make
// a store in it.
func folderHasStore(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "store.db")); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w in %s; name its folder with --data-dir", ErrNoStore, dir)
	}
	return nil
}
