package destination

import (
	"errors"
	"fmt"
	"sync"

	"github.com/rshub/rshub/internal/base/disk"
)

// space counts the bytes of the copy, and allows more as far as Options.MaxTotal and
// Options.MinFree do. Files count by their records. What is in partsDir, or was renamed
// from there and is not recorded yet, counts by its part. It may be shared between
// goroutines.
type space struct {
	dir        string
	total, min int64 // of Options

	mu    sync.Mutex
	files int64            // bytes of all recorded files
	parts map[string]int64 // bytes by the name of the part
	sum   int64            // of parts
}

func newSpace(o *Options) *space {
	return &space{dir: o.Dir, total: o.MaxTotal, min: o.MinFree, parts: map[string]int64{}}
}

// fullError says that there is no room for a resource now. There may be later.
type fullError struct{ error }

func (e *fullError) Unwrap() error { return e.error }

// full reports whether an error is a *fullError.
func full(err error) bool {
	var e *fullError
	return errors.As(err, &e)
}

// reserve makes room for a part of so many bytes in all. Those of the file that it is to
// replace are its own already.
func (s *space) reserve(part string, bytes, replaced int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	others, bytes := s.files+s.sum-s.parts[part], max(0, bytes-replaced)
	if s.total >= 0 && bytes > s.parts[part] && bytes > s.total-others {
		return &fullError{fmt.Errorf("there is no room for it: the copy has %d bytes without it, and Options.MaxTotal allows %d; raise that if the Source is right",
			others-replaced, s.total)}
	}
	s.put(part, bytes)
	return nil
}

// free returns an error where so many bytes more leave too few free on the disk.
func (s *space) free(bytes int64) error {
	err := disk.Room(s.dir, s.min, bytes)
	if low := (*disk.FullError)(nil); errors.As(err, &low) {
		return &fullError{fmt.Errorf("there is no room for it: %w (Options.MinFree)", err)}
	}
	return err
}

// set counts a part, whether there is room for it or not; 0: it is gone.
func (s *space) set(part string, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(part, bytes)
}

// put is set with mu held.
func (s *space) put(part string, bytes int64) {
	s.sum += bytes - s.parts[part]
	if s.parts[part] = bytes; bytes == 0 {
		delete(s.parts, part)
	}
}

// record adds to the bytes of the recorded files. The files of urls are among them now, so
// their parts do not count any more.
func (s *space) record(bytes int64, urls []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files += bytes
	for _, url := range urls {
		s.put(partialName(url), 0)
	}
}
