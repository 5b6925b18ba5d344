package source

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/rshub/rshub/websub"
)

// handler serves all of a Source.
type handler struct {
	source *Source
	prefix string // the path of the public URL
	sets   map[string]*set
	topics map[*set][]topic
}

// topic is a path within a set that a publisher answers for.
type topic struct {
	path    string
	handler http.Handler
}

// Handler serves the Source below the path of its public URL: the documents, the
// topics, the resources, and, at the top of the host as well, the Source
// Description and robots.txt. It may be called before Run, and from many goroutines.
func (s *Source) Handler() http.Handler {
	u, _ := url.Parse(s.o.PublicURL) // Open has done so
	h := &handler{source: s, prefix: u.EscapedPath(), sets: make(map[string]*set), topics: make(map[*set][]topic)}
	for _, x := range s.sets {
		h.sets[x.name] = x
		if x.changes != nil {
			h.topics[x] = []topic{{changesPath, x.changes.Handler()}, {frameworkPath, x.framework.Handler()}}
		}
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
			http.NotFound(w, r)
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
	for _, t := range h.topics[x] {
		if strings.HasPrefix(path, t.path) {
			t.handler.ServeHTTP(w, r)
			return
		}
	}
	switch data, ok := strings.CutPrefix(path, dataPath); {
	case ok:
		x.serveResource(w, r, data)
	case x.comes(path):
		w.Header().Set("Retry-After", "2") // a folder of some thousand files takes less
		http.Error(w, "the first documents of this Source are being written; try again in a while", http.StatusServiceUnavailable)
	case x.shelf.serve(w, r, path):
	default:
		http.NotFound(w, r)
	}
}

// comes reports whether there will be a document at a path as soon as the set has
// been scanned, or written anew, for the first time. Until there is a Capability List
// no list is shown: whoever found one would take it for all that there is.
func (s *set) comes(path string) bool {
	if s.shelf.current().has(capabilityListPath) {
		return false
	}
	return path == capabilityListPath || slices.ContainsFunc(capabilityPaths, func(p struct{ capability, path string }) bool { return p.path == path })
}

// setOf returns the set that a path is in, and the path within the set.
func (h *handler) setOf(path string) (*set, string) {
	if x := h.sets[""]; x != nil {
		return x, path
	}
	name, rest, _ := strings.Cut(path, "/")
	return h.sets[name], rest
}

// serveResource answers with a resource, and where its Capability List is (SRC-13).
// There is what the index knows and nothing else, so nothing that is ignored or
// half written. Where the file has changed since, its bytes are served as they
// are, without the entity tag that the index has: soon there is another.
func (s *set) serveResource(w http.ResponseWriter, r *http.Request, escaped string) {
	path, err := UnescapePath(escaped)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	resource, ok, err := s.index.Get(path)
	if err != nil {
		http.Error(w, "the index can't be read now; try again later", http.StatusServiceUnavailable)
		return
	}
	if !ok {
		http.NotFound(w, r)
		return
	}
	f, same, err := s.packager.openIndexed(&resource)
	switch {
	case errors.Is(err, fs.ErrPermission):
		http.Error(w, "this resource can't be read", http.StatusForbidden)
		return
	case err != nil:
		s.composer.odd.note(s.composer.log, path, "it can't be opened: "+err.Error())
		http.Error(w, "this resource can't be read now; try again later", http.StatusServiceUnavailable)
		return
	case f == nil:
		http.NotFound(w, r)
		return
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		http.Error(w, "this resource can't be read now; try again later", http.StatusServiceUnavailable)
		return
	}
	head := w.Header()
	head.Set("Link", websub.Link{Target: s.composer.url(capabilityListPath), Rels: []string{"resourcesync"}}.String())
	head.Set("Content-Type", resource.MediaType)
	if same {
		head.Set("ETag", strconv.Quote(hex.EncodeToString(resource.SHA256[:16])))
	}
	http.ServeContent(w, r, "", info.ModTime(), f)
}
