package originlog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/rshub/rshub/internal/base/atomicfile"
)

// Name is the name of the file.
const Name = "origins.jsonl"

// Origin says where a file comes from.
type Origin struct {
	// Path is that of the file below the folder of the copy, with slashes.
	Path string `json:"path"`
	// URL is its address at the first Source that published it. Empty: the file is gone.
	URL string `json:"url,omitempty"`
	// Modified is when it was modified there; zero: nobody said.
	Modified time.Time `json:"modified,omitzero"`
}

// spare is how many lines more than twice the number of files a Log may have.
const spare = 10_000

// Log is the file, for the process that writes it. It may be shared between goroutines.
type Log struct {
	name string

	mu    sync.Mutex
	f     *os.File
	lines int
}

// Open opens the file in a folder. If it is missing or cannot be read, it is written from all. A
// last line that was cut off is removed.
func Open(dir string, all iter.Seq[Origin]) (*Log, error) {
	l := &Log{name: filepath.Join(dir, Name)}
	f, err := os.OpenFile(l.name, os.O_RDWR|os.O_APPEND|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return l, l.Rewrite(all)
	}
	if err != nil {
		return nil, err
	}
	end, lines, err := whole(f)
	if err == nil {
		err = f.Truncate(end)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	l.f, l.lines = f, lines
	return l, nil
}

// whole returns where the last whole line ends, and how many there are.
func whole(r io.Reader) (end int64, lines int, err error) {
	buf := make([]byte, 256<<10)
	for at := int64(0); ; {
		n, err := r.Read(buf)
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			end = at + int64(i) + 1
			lines += bytes.Count(buf[:n], []byte("\n"))
		}
		at += int64(n)
		if errors.Is(err, io.EOF) {
			return end, lines, nil
		}
		if err != nil {
			return end, lines, err
		}
	}
}

// Add appends origins durably, each with a line of its own.
func (l *Log) Add(origins []Origin) error {
	if len(origins) == 0 {
		return nil
	}
	var b bytes.Buffer
	w := json.NewEncoder(&b)
	w.SetEscapeHTML(false)
	for i := range origins {
		if err := w.Encode(&origins[i]); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	info, err := l.f.Stat()
	if err != nil {
		return err
	}
	if _, err = l.f.Write(b.Bytes()); err == nil {
		err = l.f.Sync()
	}
	if err != nil {
		return errors.Join(err, l.f.Truncate(info.Size())) // no half a line may stay before the next one
	}
	l.lines += len(origins)
	return nil
}

// Long reports whether most lines are about a state that is over, so that it is time for
// Rewrite. Files is how many files there are.
func (l *Log) Long(files int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines > 2*files+spare
}

// Rewrite puts a file with one line for each file in the place of the old one.
func (l *Log) Rewrite(all iter.Seq[Origin]) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := 0
	err := atomicfile.Write(l.name, atomicfile.Options{}, func(out io.Writer) error {
		b := bufio.NewWriterSize(out, 256<<10)
		w := json.NewEncoder(b)
		w.SetEscapeHTML(false)
		for o := range all {
			if err := w.Encode(&o); err != nil {
				return err
			}
			lines++
		}
		return b.Flush()
	})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(l.name, os.O_WRONLY|os.O_APPEND|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	if l.f != nil {
		_ = l.f.Close() // of the old file
	}
	l.f, l.lines = f, lines
	return nil
}

// Close closes the file. A nil Log has none.
func (l *Log) Close() error {
	if l == nil || l.f == nil {
		return nil
	}
	return l.f.Close()
}
