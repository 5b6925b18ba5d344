package destination

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/rshub/rshub/subscriber"
)

// stream is the pushed changes of a set.
type stream struct {
	set string
	*subscriber.Subscriber
}

// handlers are the streams of the sets, by the segment of the path of the callback that leads to
// each; nil: no hub pushes to the set.
type handlers struct {
	mu      sync.Mutex
	by      map[string]*stream
	named   map[string]*stream // of framework notifications
	known   bool               // Follow knows the sets
	waiting int                // streams that are not there yet
}

// get returns the stream for a path, and whether no other streams will follow.
func (h *handlers) get(path string) (*stream, bool) {
	segments := strings.Split(path, "/")
	h.mu.Lock()
	defer h.mu.Unlock()
	name := segments[max(0, len(segments)-2)]
	return cmp.Or(h.by[name], h.named[name]), h.known && h.waiting <= 0
}

// isPolled reports whether a set is followed and no hub pushes to it.
func (h *handlers) isPolled(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, followed := h.by[name]
	return followed && s == nil
}

// all returns the streams.
func (h *handlers) all() []*stream { return h.open(&h.by) }

// allNamed returns the streams of framework notifications.
func (h *handlers) allNamed() []*stream { return h.open(&h.named) }

func (h *handlers) open(of *map[string]*stream) []*stream {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Collect(maps.Values(*of)), func(s *stream) bool { return s == nil })
}

func (h *handlers) set(name string, to *stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.by[name] = to
	h.waiting--
}

// setNamed sets the stream of the framework notifications of a set.
func (h *handlers) setNamed(name string, to *stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.named == nil {
		h.named = map[string]*stream{}
	}
	h.named[name] = to
}

// expect says how many sets there are.
func (h *handlers) expect(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting, h.known = h.waiting+n, true
}

// Handler answers hubs at Options.Callback and below it. Until Follow has opened the set in
// question it answers 503, so that hubs try again.
func (c *Copy) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, ready := c.follower.handlers.get(r.URL.Path)
		switch {
		case h != nil:
			h.Handler().ServeHTTP(w, r)
		case !ready:
			w.Header().Set("Retry-After", "5")
			http.Error(w, "The copy is not ready for notifications yet.", http.StatusServiceUnavailable)
		default:
			http.Error(w, "There is no such callback.", http.StatusNotFound)
		}
	})
}
