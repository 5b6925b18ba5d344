package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// Suffix ends the name of a file that is being written.
const Suffix = ".new"

// Durability says what a power failure leaves.
type Durability int

// The values of Durability.
const (
	Durable  Durability = iota // once Write has returned, the new file
	FileOnly                   // the old file or the new one
	Volatile                   // anything: it is not synced
)

// Options say how a file is written. The zero value is good.
type Options struct {
	Durability Durability
	// Temp is a pattern of os.CreateTemp for the name of the new file beside the old one.
	// Processes that write the same file need it. Empty: the file's own name and Suffix;
	// what a process left there is overwritten.
	Temp string
	// Prepare, which may be nil, is called with the new file before anything is written
	// to it. Before that, only its owner, this process's user, may read it.
	Prepare func(f *os.File) error
}

// Write puts what write writes in the place of a file. After an error the old file is
// there, but where only the folder could not be synced, the new one may be.
func Write(name string, o Options, write func(io.Writer) error) (err error) {
	f, err := o.create(name)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // the first error says more
		}
	}()
	if o.Prepare != nil {
		err = o.Prepare(f)
	}
	if err == nil {
		err = write(f)
	}
	if err == nil && o.Durability != Volatile {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err == nil && o.Durability == Durable {
		err = SyncDir(filepath.Dir(name))
	}
	return err
}

// WriteBytes is Write with the content at hand.
func WriteBytes(name string, o Options, content []byte) error {
	return Write(name, o, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// Output writes what a command prints to what a person named. A file is replaced as by Write with
// FileOnly, also at the end of a symbolic link. A device or a named pipe stays, and write writes
// to it.
func Output(name string, write func(io.Writer) error) error {
	if at, err := filepath.EvalSymlinks(name); err == nil {
		name = at
	}
	if info, err := os.Stat(name); err != nil || info.Mode().IsRegular() {
		return Write(name, Options{Durability: FileOnly, Temp: filepath.Base(name) + ".*.part"}, write)
	}
	f, err := os.OpenFile(name, os.O_WRONLY, 0) //nolint:gosec // the caller names it
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

func (o *Options) create(name string) (*os.File, error) {
	if o.Temp != "" {
		return os.CreateTemp(filepath.Dir(name), o.Temp)
	}
	return os.OpenFile(name+Suffix, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600) //nolint:gosec // the caller names the file
}

// SyncDir makes the names in a folder durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // the caller names the folder
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Nameless returns a new file in a folder that has no name any more, so that nothing of it stays
// when it is closed, or when the process ends. An empty folder is that for temporary files.
func Nameless(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "rshub-*.part")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
