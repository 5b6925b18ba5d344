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
	// Exclude are folders and files in Dir that are left out, such as a file with a token.
	// Folders of state need not be named: each has a marker (disk.Marker).
	Exclude []string
	// Hidden publishes names that begin with a dot. Otherwise they are left out, with
	// all that is in such folders, except folders called .well-known and what
	// HiddenAllow names with patterns like those of Ignore.
	Hidden      bool
	HiddenAllow []string
	// Ignore are patterns of what else is left out, as lines of a .gitignore; nil
	// means DefaultIgnore, and an empty list nothing. See docs/publisher.md.
	Ignore []string
	// NoVia leaves out the links from the files of a copy that rssub keeps to where they come
	// from.
	NoVia bool
	// Settle is how long a file must stay unchanged before it counts as written; 0 means
	// DefaultSettle. With less, every file is hashed twice.
	Settle time.Duration
	// Rescan is how often the whole folder is scanned, for changes of which no event told;
	// 0 means DefaultRescan.
	Rescan time.Duration
	// Unwatched replaces Rescan if the system can't watch all of the folder. It is also how
	// long to wait after an error. 0 means DefaultUnwatched.
	Unwatched time.Duration
	// Patience is the time after which a file that is written to all the time is reported.
	// The first scan waits for such files as long. 0 means DefaultPatience.
	Patience time.Duration
	// MaxDeleted is the fraction of all resources, from 0 to 1, that may be gone at once. If
	// more are gone, and at least ten, none is published as deleted until they are back or
	// AcceptDeletions is called. 0 means DefaultMaxDeleted, and 1 that all may go. A smaller
	// part of the folder on a disk of its own is not protected.
	MaxDeleted float64
	// MaxURL is how many characters the escaped path of a resource may have; 0: any.
	// Files with longer ones are reported and left out.
	MaxURL int
	// Workers is how many files are hashed at once; 0 means one per CPU, at most 4.
	Workers int
	// Progress is called about ten times a second during a scan of the whole folder, and at
	// its end, by one goroutine at a time.
	Progress func(Progress)
	// Log gets what an operator has to know; nil: it is discarded.
	Log *slog.Logger
}

// Progress says how far a scan of the whole folder has come.
type Progress struct {
	// Found counts the files that were found. Files and Bytes count those of them that were
	// hashed.
	Found, Files, Bytes int64
	// Elapsed is the time since the scan began.
	Elapsed time.Duration
	// Done says that the scan has ended, and this is its last Progress.
	Done bool
}

// Folder keeps an Index in step with a folder. It may be shared between goroutines.
//
// Its resources are the regular files in it, at every depth. Links are neither followed nor
// published: they may lead out of the folder, and a target inside is a resource already.
// Devices, pipes and sockets are left out as well. So are folders of state of rshub, rspub
// and rssub, and names that begin with a dot: both may hold secrets. Documents that Export
// wrote are left out, too. A renamed file is deleted under its old name and created under the
// new one. A file with the same bytes and media type is not changed, whatever its times are.
//
// A file that can't be read is reported, and stays published as it was. So does everything
// in a folder that can't be read, and all of Dir if it is missing or has lost more than
// FolderOptions.MaxDeleted. Resources that are left out from now on because of what they may
// hold are not counted there: they are deleted.
type Folder struct {
	x        *Index
	o        FolderOptions
	dir      string // absolute
	rules    rules
	hidden   rules
	excluded map[string]bool // paths below dir
	pending  *pending
	watch    *watch
	vias     *vias

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

// NewFolder returns a Folder that writes to an index. No other Folder may write to it.
func NewFolder(x *Index, o FolderOptions) (*Folder, error) {
	if o.Dir == "" { // to filepath it is the working directory
		return nil, errors.New("there is no folder to publish; name one (FolderOptions.Dir)")
	}
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
	f.vias = newVias(dir, &o)
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

// errState is the error for a folder of state, which must not be published.
func errState(dir string) error {
	return fmt.Errorf("%s is a folder of state of rshub, rspub or rssub, as the file %s in it says, and is not published; name the folder with the resources, or remove that file if it says so by mistake", dir, disk.Marker)
}

// exclude leaves out a folder or file, if it is below dir.
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

// Open opens a resource for reading. It opens only regular files below the folder that are
// not left out, and follows no link out of it. Otherwise the error wraps fs.ErrNotExist. It
// does not ask the index.
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

// Changed receives a value after changes were logged, when the first scan is finished, after
// the first scan of each Run or Scan, and when FolderStatus.Err or Held has become zero. What
// happens while nobody receives is one value.
func (f *Folder) Changed() <-chan struct{} { return f.changed }

// Ready is closed when the first scan is finished: from then on there are snapshots.
func (f *Folder) Ready() <-chan struct{} { return f.ready }

// AcceptDeletions publishes as deleted, once, what is gone and was withheld because it is so
// much. See FolderOptions.MaxDeleted.
func (f *Folder) AcceptDeletions() {
	f.accept.Store(true)
	f.pending.everything(time.Now())
}

// Run keeps the index in step with the folder until ctx ends, and then returns nil. It
// returns an error only if the index is of no more use. Only one Run or Scan of a Folder may
// run at a time.
func (f *Folder) Run(ctx context.Context) error {
	if !f.running.TryLock() {
		return errRunning
	}
	defer f.running.Unlock()
	f.watch.on = true
	if f.vias != nil {
		followed, stop := context.WithCancel(ctx)
		var following sync.WaitGroup
		following.Go(func() { f.vias.follow(followed, f.pending) })
		defer following.Wait()
		defer stop()
	}
	defer func() {
		f.watch.end()
		f.watch.on = false
	}()
	f.start()
	for {
		if err := f.wait(ctx); err != nil {
			return nil //nolint:nilerr // Run ends with ctx
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

// Scan brings the index in step with the folder once. It waits for files that are being
// written, for FolderOptions.Patience at most. Files that are still written to are in its
// status, and so are files that can't be read.
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
