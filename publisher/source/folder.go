package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rshub/rshub/internal/base/disk"
)

// The defaults of FolderOptions.
const (
	DefaultSettle    = 2 * time.Second
	DefaultRescan    = time.Hour
	DefaultUnwatched = time.Minute
	DefaultPatience  = time.Minute
	// DefaultMaxDeleted is half of the folder.
	DefaultMaxDeleted = 0.5
)

// FolderOptions are the settings of a Folder. All but Dir may be left zero.
type FolderOptions struct {
	// Dir is the folder. It has to exist.
	Dir string
	// Exclude are folders and files in it that are no part of it, such as a file with a
	// token. Folders of state need not be named: each has a marker (disk.Marker).
	Exclude []string
	// Hidden publishes names that begin with a dot. Otherwise they are left out, with
	// all that is in such folders, except folders called .well-known and what
	// HiddenAllow names: patterns as those of Ignore.
	Hidden      bool
	HiddenAllow []string
	// Ignore are patterns of what else is left out, as lines of a .gitignore; nil
	// means DefaultIgnore, and an empty list nothing. See docs/publisher.md.
	Ignore []string
	// Settle is how long a file has to be left alone before it counts as written;
	// 0 means DefaultSettle. With less, every file is hashed twice.
	Settle time.Duration
	// Rescan is how often the whole folder is scanned for what was not heard of; 0
	// means DefaultRescan.
	Rescan time.Duration
	// Unwatched is Rescan where the system can't watch all of the folder, and how
	// long to wait after something went wrong; 0 means DefaultUnwatched.
	Unwatched time.Duration
	// Patience is after what time a file that is written to all the time is
	// reported, and how long the first scan waits for such; 0 means DefaultPatience.
	Patience time.Duration
	// MaxDeleted is the share of all resources that may be gone at one look, from 0
	// to 1. If more are, and at least ten, none is published as deleted until they
	// are back or AcceptDeletions is called. 0 means DefaultMaxDeleted, and 1 that
	// all may go. What is on a disk of its own inside the folder, and less than that,
	// is not protected.
	MaxDeleted float64
	// MaxURL is how many characters the escaped path of a resource may have; 0: any.
	// Files with longer ones are reported and left out.
	MaxURL int
	// Workers is how many files are hashed at once; 0 means one per CPU, at most 4.
	Workers int
	// Progress is called about ten times a second while the whole folder is
	// scanned, and at the end of that, by one goroutine at a time.
	Progress func(Progress)
	// Log is told what somebody has to know; nil: nobody.
	Log *slog.Logger
}

// Progress says how far a scan of the whole folder is.
type Progress struct {
	// Found counts the files that were found, Files and Bytes what of them had to
	// be hashed and was.
	Found, Files, Bytes int64
	// Elapsed is the time since the scan began.
	Elapsed time.Duration
	// Done: this is the last that is said of this scan.
	Done bool
}

// Folder keeps an Index in step with a folder. It may be shared between goroutines.
//
// Its resources are the regular files in it, at every depth. Links are neither
// followed nor published, wherever they lead: what they lead to may lie outside,
// and where it lies inside it is a resource there. Devices, pipes and sockets are
// left out as well. So are folders of state of rshub, rspub and rssub, and names that
// begin with a dot: both may hold secrets. What Export wrote is left out, too. What is renamed is deleted under its old name and created
// under the new one. A file whose bytes and media type stay the same is not
// changed, whatever its times say.
//
// A file that can't be read is reported, and stays published as it was. So does
// all that is in a folder that can't be read, and the whole where Dir itself is
// not there, or has lost more than FolderOptions.MaxDeleted. What has been published and
// is left out from now on for what it may hold does not count in that: it is deleted.
type Folder struct {
	x        *Index
	o        FolderOptions
	dir      string // absolute
	rules    rules
	hidden   rules
	excluded map[string]bool // paths below dir
	pending  *pending
	watch    *watch

	running   sync.Mutex  // held by Run and Scan
	accept    atomic.Bool // what is gone may be published as deleted, once
	changed   chan struct{}
	ready     chan struct{} // closed when the first scan is finished
	readyOnce sync.Once

	begun   time.Time // when Run or Scan began
	scanned bool      // since then the whole folder was
	mu      sync.Mutex
	status  FolderStatus
}

// NewFolder returns a Folder that writes to an index, which has to be of no other.
func NewFolder(x *Index, o FolderOptions) (*Folder, error) {
	o = folderDefaults(o)
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("the folder %s: %w", o.Dir, err)
	}
	if info, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("the folder to publish: %w", err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%s is a file; name a folder to publish", dir)
	}
	f := &Folder{
		x: x, o: o, dir: dir, excluded: map[string]bool{}, pending: newPending(o.Settle),
		changed: make(chan struct{}, 1), ready: make(chan struct{}),
	}
	if disk.Marked(os.Lstat, dir) {
		return nil, errState(dir)
	}
	f.watch = &watch{root: dir, log: o.Log, happened: f.happened, lost: f.lost}
	if f.rules, err = parseRules(o.Ignore); err != nil {
		return nil, err
	}
	if f.hidden, err = hiddenRules(&o); err != nil {
		return nil, err
	}
	for _, e := range o.Exclude {
		if err := f.exclude(e); err != nil {
			return nil, err
		}
	}
	f.finished()
	return f, nil
}

func folderDefaults(o FolderOptions) FolderOptions {
	for _, d := range []struct {
		v    *time.Duration
		zero time.Duration
	}{{&o.Settle, DefaultSettle}, {&o.Rescan, DefaultRescan}, {&o.Unwatched, DefaultUnwatched}, {&o.Patience, DefaultPatience}} {
		if *d.v <= 0 {
			*d.v = d.zero
		}
	}
	o.Unwatched = min(o.Unwatched, o.Rescan)
	if o.MaxDeleted <= 0 {
		o.MaxDeleted = DefaultMaxDeleted
	}
	if o.Workers <= 0 {
		o.Workers = min(runtime.GOMAXPROCS(0), 4)
	}
	if o.Ignore == nil {
		o.Ignore = DefaultIgnore()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// errState says that a folder is no folder of resources.
func errState(dir string) error {
	return fmt.Errorf("%s is a folder of state of rshub, rspub or rssub, as the file %s in it says, and is not published; name the folder with the resources, or remove that file if it says so by mistake", dir, disk.Marker)
}

// exclude leaves out a folder or file, where it is one below dir.
func (f *Folder) exclude(folder string) error {
	top, err := filepath.EvalSymlinks(f.dir)
	if err != nil {
		return fmt.Errorf("the folder to publish: %w", err)
	}
	if folder, err = filepath.Abs(folder); err != nil {
		return fmt.Errorf("the folder %s: %w", folder, err)
	}
	folder = realPath(folder)
	rel, err := filepath.Rel(top, folder)
	switch {
	case err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)):
		return nil // elsewhere
	case rel == ".":
		return fmt.Errorf("%s is the folder to publish itself; choose another one for state", folder)
	}
	f.excluded[filepath.ToSlash(rel)] = true
	return nil
}

// Open opens a resource to read it. It opens regular files below the folder only that
// are not left out, and follows no link out of it; else it returns an error that wraps
// fs.ErrNotExist. The index is not asked.
func (f *Folder) Open(path string) (*os.File, error) {
	if !validPath(path) || f.ignoresAbove(path) || f.ignores(path, false) {
		return nil, fmt.Errorf("%w: %q: %w", ErrPath, path, os.ErrNotExist)
	}
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFolder, err)
	}
	defer root.Close() //nolint:errcheck // it was only read
	if stateAbove(root, path) {
		return nil, fmt.Errorf("%w: %q is in a folder of state: %w", ErrPath, path, os.ErrNotExist)
	}
	if documents := (outputs{root: root}); documents.have(path) {
		return nil, fmt.Errorf("%w: %q is a document of a Source: %w", ErrPath, path, os.ErrNotExist)
	}
	return f.open(root, path)
}

// Changed receives after changes were logged, when the first scan is finished and
// the first of each Run or Scan, and when what FolderStatus.Err or Held told of is
// over. What happens while nobody receives is one.
func (f *Folder) Changed() <-chan struct{} { return f.changed }

// Ready is closed when the first scan is finished: from then on there are snapshots.
func (f *Folder) Ready() <-chan struct{} { return f.ready }

// AcceptDeletions lets go, once, what is not published as deleted because it is too
// much. See FolderOptions.MaxDeleted.
func (f *Folder) AcceptDeletions() {
	f.accept.Store(true)
	f.pending.everything(time.Now())
}

// Run keeps the index in step with the folder until ctx ends, and then returns
// nil. An error is one of the index that will not go away by itself. Only one Run
// or Scan of a Folder may be going on.
func (f *Folder) Run(ctx context.Context) error {
	if !f.running.TryLock() {
		return errRunning
	}
	defer f.running.Unlock()
	f.watch.on = true
	defer func() {
		f.watch.end()
		f.watch.on = false
	}()
	f.start()
	for {
		if err := f.wait(ctx); err != nil {
			return nil //nolint:nilerr // the end of ctx is how it ends
		}
		err := f.turn(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrClosed):
			return err
		}
		f.stopped(err)
	}
}

var errRunning = errors.New("the folder is being scanned already")

// Scan brings the index in step with the folder once. It waits for files that are
// being written, but not longer than FolderOptions.Patience: those are in its status, as
// are files that can't be read.
func (f *Folder) Scan(ctx context.Context) error {
	if !f.running.TryLock() {
		return errRunning
	}
	defer f.running.Unlock()
	f.start()
	for {
		if err := f.turn(ctx); err != nil {
			return err
		}
		if n, _ := f.pending.count(); n == 0 || time.Since(f.begun) >= f.o.Patience {
			return nil
		}
		if err := f.wait(ctx); err != nil {
			return err
		}
	}
}
