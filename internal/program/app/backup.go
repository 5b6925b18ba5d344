package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/cluster"
	"github.com/rshub/rshub/internal/base/atomicfile"
	"github.com/rshub/rshub/internal/base/disk"
	"github.com/rshub/rshub/internal/engine/transfer"
	"github.com/rshub/rshub/internal/program/config"
	"github.com/rshub/rshub/journal"
)

// backups makes backups of the running hub, one at a time.
type backups struct {
	app *App
	mu  sync.Mutex // locked from the beginning of a backup until its file is closed
	// leftOut has the ids of the topics and subscriptions that the store left out of its lists
	// since the latest backup began.
	leftOut sync.Map
}

// noting returns a hook of the store that notes what it leaves out, and reports it.
func (b *backups) noting(report func(id uuid.UUID, why error)) func(uuid.UUID, error) {
	return func(id uuid.UUID, why error) {
		b.leftOut.Store(id, nil)
		report(id, why)
	}
}

// unreadable counts what the store left out.
func (b *backups) unreadable() (n int) {
	b.leftOut.Range(func(any, any) bool { n++; return true })
	return n
}

// make writes a backup at the speed of the disk into a file without a name, so that a slow
// reader blocks nothing in the store, and a crash leaves no file. The file is beside the
// embedded store; with Redis it is in the folder for temporary files.
func (b *backups) make(ctx context.Context) (*admin.Backup, error) {
	if !b.mu.TryLock() {
		return nil, admin.ErrBackupRuns
	}
	f, size, err := b.write(ctx)
	if err != nil {
		b.mu.Unlock()
		return nil, err
	}
	return &admin.Backup{Size: size, Content: &onClose{f, b.mu.Unlock}}, nil
}

func (b *backups) write(ctx context.Context) (f *os.File, size int64, err error) {
	cfg := &b.app.cfg
	dir := os.TempDir()
	if b.app.backend.board == nil { // the store is in the data folder
		dir = cfg.DataDir
	}
	b.leftOut.Clear()
	o := transfer.ExportOptions{Notifications: true, Keys: b.app.keys, Unreadable: b.unreadable, Program: b.app.version, Now: time.Now()}
	if o.Keys == nil {
		o.Secrets = PlainSecrets // as they are in the store
	}
	if f, err = atomicfile.Nameless(dir); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", admin.ErrBackupRoom, err)
	}
	_, err = transfer.Export(ctx, &roomWriter{to: f, dir: dir, least: cfg.MinFreeDisk}, b.app.backend, o)
	if err == nil {
		size, err = f.Seek(0, io.SeekCurrent)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, size, nil
}

// onClose is a reader with something to do after it is closed.
type onClose struct {
	io.ReadCloser
	then func()
}

func (c *onClose) Close() error {
	defer c.then()
	return c.ReadCloser.Close()
}

// roomWriter writes to a file as long as its disk keeps the free bytes that the store needs.
type roomWriter struct {
	to      io.Writer
	dir     string
	least   int64 // free bytes
	checked int64 // bytes that may be written before the next look
}

// roomEvery is how many bytes are written between two looks at the free bytes.
const roomEvery = 8 << 20

func (w *roomWriter) Write(p []byte) (int, error) {
	if w.checked -= int64(len(p)); w.checked < 0 {
		if err := disk.Room(w.dir, w.least, roomEvery+int64(len(p))); err != nil {
			return 0, fmt.Errorf("%w: %w", admin.ErrBackupRoom, err)
		}
		w.checked = roomEvery
	}
	n, err := w.to.Write(p)
	if err != nil {
		err = fmt.Errorf("%w: %w", admin.ErrBackupRoom, err)
	}
	return n, err
}

// RestoreOptions say what Restore calls.
type RestoreOptions struct {
	// Progress, which may be nil, is called now and then, from one goroutine, with the lines
	// of a step that are done and all lines. Total is 0 while it is unknown.
	Progress func(step string, done, total int64)
}

// Errors of Restore, and of what finds a restore that did not end.
var (
	ErrNotEmpty    = errors.New("the store is not empty")
	ErrHubsRun     = errors.New("hubs are running on the store")
	ErrInterrupted = errors.New("a restore into this store was interrupted")
	ErrNotRestored = errors.New("what was restored is not what the backup has")
)

// restoring is the name under which a store keeps which file is being restored into it.
const restoring = "restoring"

// Restore reads a backup into the empty store that the settings name, and compares what the
// store has then with the file. It first checks the whole file: a *FileError says that
// something in it is wrong, and that nothing was restored. Until Restore returns nil, no hub
// opens the store. An interrupted Restore continues when it is called again with the same file.
func Restore(ctx context.Context, cfg config.Config, log *zap.Logger, file io.ReadSeeker, o RestoreOptions) (LineCounts, error) {
	keys, err := sealKeys(cfg, log)
	if err != nil {
		return LineCounts{}, err
	}
	show := func(step string, total int64) func(LineCounts) {
		return func(c LineCounts) {
			if o.Progress != nil {
				o.Progress(step, c.Total(), total)
			}
		}
	}
	counts, err := transfer.Check(ctx, file, keys, show("checked", 0))
	if err != nil {
		return counts, &FileError{err}
	}
	name, err := transfer.Name(file)
	if err != nil {
		return counts, &FileError{err}
	}
	s, err := kindOf(&cfg).open(ctx, &cfg, storeOptions{log: log, keys: keys})
	if err != nil {
		return counts, err
	}
	restore := func() error {
		if err := beginRestore(ctx, s, name); err != nil {
			return err
		}
		read := func(step string, dry bool) (transfer.Imported, error) {
			if _, err := file.Seek(0, io.SeekStart); err != nil {
				return transfer.Imported{}, err
			}
			return transfer.Import(ctx, file, s, transfer.ImportOptions{Keys: keys, DryRun: dry, Progress: show(step, counts.Total())})
		}
		if _, err := read("restored", false); err != nil {
			return err
		}
		back, err := read("read back", true)
		if err != nil {
			return err
		}
		if wrong := int64(back.Stored + back.RefusedLines + back.Secretless); wrong > 0 {
			return fmt.Errorf("%w: %d of %d lines differ. Restore it into another empty store", ErrNotRestored, wrong, counts.Total())
		}
		return s.Drop(ctx, restoring)
	}
	return counts, errors.Join(restore(), s.Close())
}

// beginRestore marks an empty store as one into which a file is restored.
func beginRestore(ctx context.Context, s *backend, name string) error {
	live, err := s.leases.Heartbeat(ctx, cluster.Node{ID: "restore"}, 0)
	if err != nil {
		return err
	}
	if s.board != nil && len(live) > 0 {
		ids := make([]string, 0, len(live))
		for _, n := range live {
			ids = append(ids, n.ID)
		}
		return fmt.Errorf("%w: %s. Stop them first", ErrHubsRun, strings.Join(ids, ", "))
	}
	of, err := s.Kept(ctx, restoring)
	if err == nil && of == nil {
		if err = empty(ctx, s); err == nil {
			of, err = s.Keep(ctx, restoring, []byte(name), 0) // that of another process, if it was faster
		}
	}
	if err == nil && string(of) != name {
		err = fmt.Errorf("%w, of another file: restore that file to its end, or use an empty store", ErrInterrupted)
	}
	return err
}

// empty returns an error that wraps ErrNotEmpty if a store has a topic or a subscription.
func empty(ctx context.Context, s transfer.Lists) error {
	for n := range journal.Partitions {
		heads, err := s.Topics(ctx, n, uuid.Nil, 1)
		records, listErr := s.List(ctx, n, uuid.Nil, 1)
		if err := errors.Join(err, listErr); err != nil {
			return err
		}
		if len(heads)+len(records) > 0 {
			return fmt.Errorf("%w: a backup is restored into an empty one. `rshub import` merges a file into a store", ErrNotEmpty)
		}
	}
	return nil
}

// errPart is the error if only a part of a backup is in a store.
var errPart = fmt.Errorf("%w: run `rshub restore` with the same file again, or use an empty store", ErrInterrupted)

// openWhole opens the store that the settings name, unless a restore into it was interrupted.
func openWhole(ctx context.Context, cfg *config.Config, o storeOptions) (*backend, error) {
	s, err := kindOf(cfg).open(ctx, cfg, o)
	if err != nil {
		return nil, err
	}
	of, err := s.Kept(ctx, restoring)
	if err == nil && of != nil {
		err = errPart
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}
