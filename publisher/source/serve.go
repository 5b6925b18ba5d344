package source

import (
	"cmp"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rshub/rshub/publisher"
	"github.com/rshub/rshub/websub"
)

// handler serves a whole Source.
type handler struct {
	source *Source
	prefix string // the path of the public URL
	sets   map[string]*set
	// memories answer what changed since an instant.
	memories map[*set]*memory
}

// Handler serves the Source below the path of its public URL: the documents, the topics and the
// resources. It serves the Source Description and robots.txt at the top of the host as well. It
// may be called before Run, and by many goroutines.
func (s *Source) Handler() http.Handler {
	u, _ := url.Parse(s.o.PublicURL) // Open parsed it already
	h := &handler{source: s, prefix: u.EscapedPath(), sets: make(map[string]*set), memories: make(map[*set]*memory)}
	for _, x := range s.sets {
		h.sets[x.name] = x
		h.memories[x] = &memory{composer: &x.composer, index: x.index, dir: x.shelf.dir, most: uint64(cmp.Or(x.composer.limits.MaxEntries, memoryChanges)), turns: make(chan struct{}, memoryTurns)} //nolint:gosec // not negative
	}
	return h
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD are possible here", http.StatusMethodNotAllowed)
		return
	}
	path, below := strings.CutPrefix(r.URL.EscapedPath(), h.prefix)
	if !below {
		path = strings.TrimPrefix(r.URL.EscapedPath(), "/")
		if path != descriptionPath && path != robotsPath {
			http.Error(w, "this Source has everything below "+h.source.o.PublicURL+", and this path is not below that; a proxy in front has to pass on the whole path", http.StatusNotFound)
			return
		}
	}
	if path == "" {
		path = pagePath
	}
	if h.source.site.serve(w, r, path) {
		return
	}
	x, path := h.setOf(path)
	if x == nil {
		http.NotFound(w, r)
		return
	}
	since := asksSince(r.URL)
	if since && path == changesPath { // there is a log also without a hub and a topic
		h.memories[x].serve(w, r, topic{url: x.composer.url(changesPath), kind: publisher.Changes})
		return
	}
	for _, t := range x.topics {
		if since && path == t.path {
			h.memories[x].serve(w, r, t)
			return
		}
		if strings.HasPrefix(path, t.path) {
			t.handler.ServeHTTP(w, r)
			return
		}
	}
	switch data, ok := strings.CutPrefix(path, dataPath); {
	case ok && x.composer.own():
		http.Error(w, "this Source does not serve its resources; they are below "+x.composer.address.Prefix, http.StatusNotFound)
	case ok:
		x.serveResource(w, r, data)
	case x.comes(path):
		w.Header().Set("Retry-After", "2") // a folder of some thousand files takes less
		http.Error(w, "the first documents of this Source are being written; try again soon", http.StatusServiceUnavailable)
	case x.shelf.serve(w, r, path):
	default:
		http.NotFound(w, r)
	}
}

// comes reports whether there will be a document at a path after the first scan of the set, or
// after its documents are written anew. Until there is a Capability List, no list is served: a
// client would believe that the list is complete.
func (s *set) comes(path string) bool {
	return !s.shelf.current().has(capabilityListPath) && (path == capabilityListPath || isListed(path))
}

// setOf returns the set that a path is in, and the path within the set.
func (h *handler) setOf(path string) (*set, string) {
	if x := h.sets[""]; x != nil {
		return x, path
	}
	name, rest, _ := strings.Cut(path, "/")
	return h.sets[name], rest
}

// serveResource answers with a resource and a link to its Capability List (SRC-13). It serves
// only what is in the index, so nothing that is ignored or half written. If the file has changed
// since it was indexed, the answer has the new bytes, and no entity tag: the index will soon have
// another one.
func (s *set) serveResource(w http.ResponseWriter, r *http.Request, escaped string) {
	resource, ok, err := s.index.find(&s.composer.address, escaped)
	switch {
	case errors.Is(err, ErrPath):
		http.NotFound(w, r)
		return
	case err != nil:
		http.Error(w, "the index cannot be read now; try again later", http.StatusServiceUnavailable)
		return
	}
	var f *os.File
	var same bool
	if ok {
		f, same, err = s.packager.origin.Bytes(r.Context(), &resource)
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		http.Error(w, "this resource cannot be read", http.StatusForbidden)
		return
	case err != nil:
		s.composer.odd.note(s.composer.log, resource.Path, "it cannot be opened: "+err.Error())
		http.Error(w, "this resource cannot be read now; try again later", http.StatusServiceUnavailable)
		return
	case f == nil:
		http.NotFound(w, r)
		return
	}
	defer f.Close() //nolint:errcheck // it was only read
	var modified time.Time
	if info, err := f.Stat(); err == nil {
		modified = info.ModTime()
	}
	head := w.Header()
	head.Set("Link", websub.Link{Target: s.composer.url(capabilityListPath), Rels: []string{"resourcesync"}}.String())
	head.Set("Content-Type", resource.MediaType)
	coding := resource.Encoding
	if rs := s.composer.rules.Load(); rs != nil {
		head.Set("Content-Type", rs.mediaType(&resource))
		coding = rs.encoding(&resource)
	}
	if head.Get("Content-Type") == "" {
		head.Set("Content-Type", "application/octet-stream")
	}
	if coding != "" {
		head.Set("Content-Encoding", coding) // the bytes are stored in it (LNK-10)
	}
	if same && resource.SHA256 != ([32]byte{}) {
		head.Set("ETag", strconv.Quote(hex.EncodeToString(resource.SHA256[:16])))
	}
	http.ServeContent(w, r, "", modified, f)
}

// find returns the resource at the rest of a URL: at the path that it is, or at one that the
// address shortens to it.
func (x *Index) find(a *address, escaped string) (r Resource, ok bool, err error) {
	path, folder := strings.CutSuffix(escaped, "/")
	if path != "" || folder {
		if path, err = UnescapePath(path); err != nil {
			return r, false, err
		}
	}
	if folder {
		path += "/"
	}
	for _, p := range append([]string{path}, a.paths(path)...) {
		if r, ok, err = x.Get(p); ok || err != nil {
			break
		}
	}
	return r, ok, err
}
