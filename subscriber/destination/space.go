package destination

import (
	"errors"
	"fmt"
	"sync"

	"github.com/rshub/rshub/internal/base/disk"
)

// space counts the bytes of the copy, and allows more within Options.MaxTotal and
// Options.MinFree. Files count by their records. Files in partsDir, and renamed ones that
// are not recorded yet, count by their partials. It may be shared between goroutines.
type space struct {
	dir        string
	total, min int64 // of Options

	mu    sync.Mutex
	files int64            // bytes of all recorded files
	parts map[string]int64 // bytes by the name of the partial
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

// reserve reserves so many bytes in all for a partial. The bytes of the file that it
// replaces are reserved already.
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

// free returns an error if writing so many bytes more would leave too few free on the
// disk.
func (s *space) free(bytes int64) error {
	err := disk.Room(s.dir, s.min, bytes)
	if low := (*disk.FullError)(nil); errors.As(err, &low) {
		return &fullError{fmt.Errorf("there is no room for it: %w (Options.MinFree)", err)}
	}
	return err
}

// set counts a partial, even if there is no room for it; 0: it is gone.
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
// their partials do not count any more.
func (s *space) record(bytes int64, urls []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files += bytes
	for _, url := range urls {
		s.put(partialName(url), 0)
	}
}
