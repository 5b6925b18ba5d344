package destination

import (
	"fmt"
	"iter"
	"net/url"
	"sync"
	"time"

	"github.com/rshub/rshub/internal/base/originlog"
	"github.com/rshub/rshub/resourcesync"
)

// via is where a Source has a resource from: its address and its time at the first Source, as the
// link of its entry says (LNK-08). The zero value: the Source names none.
type via struct {
	URL string    `json:"url"`
	At  time.Time `json:"at,omitzero"`
}

// viaOf returns what a link says. A link that no Source may hand on counts as none.
func viaOf(l *resourcesync.Link) via {
	href := resourcesync.EncodeURI(l.Href)
	if u, err := url.Parse(href); err != nil || !u.IsAbs() {
		return via{}
	}
	return via{href, l.Modified.UTC()}
}

// origin returns where a file comes from: what its Source names as the origin, or else the resource
// at that Source. So in a chain of copies each has the origin of the first.
func (f *file) origin(resource string) originlog.Origin {
	o := originlog.Origin{Path: f.Path, URL: resource, Modified: f.LastMod}
	if o.Modified.IsZero() {
		o.Modified = f.ChangedAt
	}
	if f.Via.URL != "" {
		o.URL, o.Modified = f.Via.URL, f.Via.At
	}
	o.Modified = o.Modified.UTC()
	return o
}

// origins is the file in the copy from which a Source over it learns where its files come from. It
// follows from the records. So it is written before them: what it has too much after a crash comes
// again.
type origins struct {
	log *originlog.Log // nil: in a dry run and in a snapshot
	// rewriting is locked while the file is written from the records, and read-locked while one
	// is written and not the other.
	rewriting sync.RWMutex
}

// openOrigins opens the file in the folder of the copy that belongs to the copy itself.
func (s *state) openOrigins(dir string) (err error) {
	if s.origins.log, err = originlog.Open(dir, s.allOrigins()); err != nil {
		return fmt.Errorf("opening the origins of the files: %w", err)
	}
	return nil
}

func (s *state) allOrigins() iter.Seq[originlog.Origin] {
	return func(yield func(originlog.Origin) bool) {
		for u, f := range s.files() {
			if !yield(f.origin(u)) {
				return
			}
		}
	}
}

// withOrigins is update, which writes d. Before it, it writes where the files of d come from.
func (s *state) withOrigins(d records, fn func(w *writer)) error {
	if s.origins.log == nil {
		return s.update(fn)
	}
	if err := s.addOrigins(d, fn); err != nil {
		return err
	}
	if s.origins.log.Long(s.count()) {
		return s.rewriteOrigins()
	}
	return nil
}

func (s *state) addOrigins(d records, fn func(w *writer)) error {
	s.origins.rewriting.RLock()
	defer s.origins.rewriting.RUnlock()
	var gone, come []originlog.Origin
	for u, r := range d {
		if r.file == nil && !r.gone {
			continue
		}
		had, ok := s.file(u)
		if ok && (r.gone || had.Path != r.file.Path) {
			gone = append(gone, originlog.Origin{Path: had.Path})
		}
		if r.file != nil && (!ok || had.origin(u) != r.file.origin(u)) {
			come = append(come, r.file.origin(u))
		}
	}
	if err := s.origins.log.Add(append(gone, come...)); err != nil { // another one may have the path by now
		return fmt.Errorf("writing the origins of the files: %w", err)
	}
	return s.update(fn)
}

// rewriteOrigins writes the file from the records.
func (s *state) rewriteOrigins() error {
	s.origins.rewriting.Lock()
	defer s.origins.rewriting.Unlock()
	if s.origins.log == nil {
		return nil
	}
	if err := s.origins.log.Rewrite(s.allOrigins()); err != nil {
		return fmt.Errorf("writing the origins of the files: %w", err)
	}
	return nil
}
