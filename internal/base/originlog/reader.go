package originlog

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync"
	"syscall"
)

const (
	// longest is the longest line that is read. What is longer is no line of a Log.
	longest = 256 << 10
	// mostNamed is how many paths Refresh names.
	mostNamed = 10_000
)

// line is where the line about a path begins.
type line struct {
	hash uint64 // of the path
	at   int64
}

// Reader follows the file that a Log writes in another process. It may be shared between
// goroutines.
type Reader struct {
	dir  string // of the copy
	name string // of the file, below it
	seed maphash.Seed

	mu     sync.RWMutex
	f      *os.File // nil: there is none
	end    int64    // what is before it is in sorted and fresh
	sorted []line
	fresh  map[uint64][]int64 // of lines after those in sorted
}

// NewReader returns a reader of the file in a folder of a copy, such as ".rssub". Nothing is read before
// Refresh.
func NewReader(dir, folder string) *Reader {
	return &Reader{dir: dir, name: path.Join(folder, Name), seed: maphash.MakeSeed(), fresh: map[uint64][]int64{}}
}

// Refresh reads what is new. It returns the paths that it is about; all: it may be about any. After
// an error the reader has what it had before, and perhaps some of what is new.
func (r *Reader) Refresh() (paths []string, all bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		return nil, false, err
	}
	defer root.Close() //nolint:errcheck // it was only read
	is, err := root.Lstat(r.name)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), err == nil && !is.Mode().IsRegular():
		all = r.f != nil
		r.become(nil)
		return nil, all, nil
	case err != nil:
		return nil, false, err
	}
	if r.f != nil && is.Size() >= r.end {
		if was, err := r.f.Stat(); err == nil && os.SameFile(was, is) {
			if is.Size() == r.end {
				return nil, false, nil
			}
			return r.read(r.f)
		}
	}
	// O_NONBLOCK, as something else may be there by now.
	f, err := root.OpenFile(r.name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, false, err
	}
	next := Reader{seed: r.seed}
	if _, _, err := next.read(f); err != nil {
		_ = f.Close() // it was only read
		return nil, false, err
	}
	next.sort()
	r.become(f)
	r.end, r.sorted = next.end, next.sorted
	return nil, true, nil
}

// become replaces the file by another one, of which nothing was read.
func (r *Reader) become(f *os.File) {
	if r.f != nil {
		_ = r.f.Close() // it was only read
	}
	r.f, r.end, r.sorted, r.fresh = f, 0, nil, map[uint64][]int64{}
}

// read reads the lines from end on. Without fresh it adds them to sorted.
func (r *Reader) read(f *os.File) (paths []string, all bool, err error) {
	in := bufio.NewReaderSize(io.NewSectionReader(f, r.end, 1<<62), longest)
	for {
		text, err := in.ReadSlice('\n')
		at := r.end
		switch {
		case errors.Is(err, io.EOF): // the rest of the line comes
			if len(r.fresh) > mostNamed {
				r.merge()
			}
			return paths, all, nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return paths, true, fmt.Errorf("reading %s: %w", f.Name(), err)
		}
		r.end += int64(len(text))
		var o Origin
		if json.Unmarshal(text, &o) != nil || o.Path == "" {
			continue
		}
		hash := maphash.String(r.seed, o.Path)
		if r.fresh == nil {
			r.sorted = append(r.sorted, line{hash, at})
			continue
		}
		r.fresh[hash] = append(r.fresh[hash], at)
		if len(paths) < mostNamed {
			paths = append(paths, o.Path)
		} else {
			all = true
		}
	}
}

// merge brings fresh into sorted.
func (r *Reader) merge() {
	for hash, ats := range r.fresh {
		for _, at := range ats {
			r.sorted = append(r.sorted, line{hash, at})
		}
	}
	r.sort()
	r.fresh = map[uint64][]int64{}
}

func (r *Reader) sort() { slices.SortFunc(r.sorted, compare) }

func compare(a, b line) int {
	return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.at, b.at))
}

// Get returns the origin of the file at a path, and false if it has none.
func (r *Reader) Get(path string) (Origin, bool, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.f == nil {
		return Origin{}, false, nil
	}
	hash := maphash.String(r.seed, path)
	for _, at := range slices.Backward(r.fresh[hash]) {
		if o, err := r.lineAt(at); err != nil || o.Path == path {
			return o, o.URL != "", err
		}
	}
	end, _ := slices.BinarySearchFunc(r.sorted, line{hash, 1 << 62}, compare)
	for i := end - 1; i >= 0 && r.sorted[i].hash == hash; i-- {
		if o, err := r.lineAt(r.sorted[i].at); err != nil || o.Path == path {
			return o, o.URL != "", err
		}
	}
	return Origin{}, false, nil
}

// lineAt reads a line.
func (r *Reader) lineAt(at int64) (o Origin, err error) {
	for size := 512; ; size *= 4 {
		buf := make([]byte, size)
		n, err := r.f.ReadAt(buf, at)
		if i := bytes.IndexByte(buf[:n], '\n'); i >= 0 {
			return o, json.Unmarshal(buf[:i], &o)
		}
		if err != nil || size > 4*longest {
			return o, fmt.Errorf("a line of %s is gone: %w", r.f.Name(), err)
		}
	}
}
