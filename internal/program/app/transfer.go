package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"go.uber.org/zap"

	"github.com/rshub/rshub/internal/engine/transfer"
	"github.com/rshub/rshub/internal/program/config"
	"github.com/rshub/rshub/store/seal"
)

type (
	// ExportOptions say what Export writes.
	ExportOptions = transfer.ExportOptions
	// Exported counts what Export wrote.
	Exported = transfer.Exported
	// ImportOptions say how Import reads.
	ImportOptions = transfer.ImportOptions
	// Imported counts what Import stored and skipped.
	Imported = transfer.Imported
	// LineCounts are the numbers of lines of each type.
	LineCounts = transfer.Counts
)

// Values of ExportOptions.Secrets for a file without sealed secrets.
const (
	PlainSecrets   = transfer.SecretsPlain
	WithoutSecrets = transfer.SecretsLeftOut
)

// Errors of Export and Import that are wrapped by what they return.
var (
	ErrNoStore     = errors.New("there is no store")
	ErrNoSealKey   = transfer.ErrNoKey
	ErrFileRefused = transfer.ErrRefused
	ErrFileCut     = transfer.ErrTruncated
)

// FileError says that a file has wrong lines, so that nothing was imported from it.
type FileError struct{ Err error }

func (e *FileError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *FileError) Unwrap() error { return e.Err }

// Export writes the content of the store that the settings name to w. It sets the keys of
// the options to those of --seal-key-file.
func Export(ctx context.Context, cfg config.Config, log *zap.Logger, w io.Writer, o ExportOptions) (Exported, error) {
	keys, err := sealKeys(cfg, log)
	if err != nil {
		return Exported{}, err
	}
	o.Keys = keys
	if keys == nil && o.Secrets == "" {
		return Exported{}, ErrNoSealKey // before a store is opened for nothing
	}
	s, err := openWhole(ctx, &cfg, storeOptions{log: log, existing: true, keys: keys, reads: true})
	if err != nil {
		return Exported{}, err
	}
	done, err := transfer.Export(ctx, w, s, o)
	return done, errors.Join(err, s.Close())
}

// Import merges a file into the store that the settings name. It first checks the whole
// file: a *FileError says that something in it is wrong, and that nothing was imported. In
// between it calls checked, which may be nil, with the counts of the file's lines.
func Import(ctx context.Context, cfg config.Config, log *zap.Logger, file io.ReadSeeker, o ImportOptions, checked func(LineCounts)) (Imported, error) {
	keys, err := sealKeys(cfg, log)
	if err != nil {
		return Imported{}, err
	}
	o.Keys = keys
	counts, err := transfer.Check(ctx, file, keys, nil)
	if err != nil {
		return Imported{}, &FileError{err}
	}
	if checked != nil {
		checked(counts)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return Imported{}, err
	}
	s, err := openWhole(ctx, &cfg, storeOptions{log: log, existing: o.DryRun, keys: keys, reads: o.DryRun})
	if o.DryRun && errors.Is(err, ErrNoStore) { // so that none is made there
		var dir string
		if dir, err = os.MkdirTemp("", "rshub-import-"); err != nil {
			return Imported{}, err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		s, err = openWhole(ctx, &config.Config{DataDir: dir}, storeOptions{log: log, keys: keys, reads: true})
	}
	if err != nil {
		return Imported{}, err
	}
	done, err := transfer.Import(ctx, file, s, o)
	return done, errors.Join(err, s.Close())
}

// sealKeys reads the keys of --seal-key-file; nil: there are none.
func sealKeys(cfg config.Config, log *zap.Logger) (*seal.Keys, error) {
	if cfg.SealKeyFile == "" {
		return nil, nil
	}
	keys, exposed, err := seal.ReadFile(cfg.SealKeyFile)
	if err != nil {
		return nil, fmt.Errorf("reading --seal-key-file: %w", err)
	}
	if exposed {
		log.Warn("everyone on this machine may read or change the keys that seal secrets; prevent that with: chmod o= "+cfg.SealKeyFile, zap.String("event", "seal_keys_exposed"))
	}
	return keys, nil
}
