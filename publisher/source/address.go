package source

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/rshub/rshub/internal/base/web"
	"github.com/rshub/rshub/resourcesync"
)

// address says at which URLs the resources of a set are listed. The zero value is
// the folder data/ of the set, where the Handler serves them.
type address struct {
	// Prefix is the URL that the path of a resource is appended to, with a slash at the end.
	// Empty: that of data/.
	Prefix string `json:"prefix,omitempty"`
	// Index are names that a URL lacks: with index.html, a/index.html is listed as a/.
	Index []string `json:"index,omitempty"`
	// Drop are extensions that a URL lacks: with .html, a/b.html is listed as a/b.
	Drop []string `json:"drop,omitempty"`
}

func (a *address) equal(b *address) bool {
	return a.Prefix == b.Prefix && slices.Equal(a.Index, b.Index) && slices.Equal(a.Drop, b.Drop)
}

// below returns the URL of a resource. Data is the URL of data/.
func (a *address) below(data, path string) string {
	if a.Prefix != "" {
		data = a.Prefix
	}
	return data + EscapePath(a.short(path))
}

// short returns the path as URLs have it.
func (a *address) short(path string) string {
	name := path[strings.LastIndexByte(path, '/')+1:]
	if slices.Contains(a.Index, name) {
		return strings.TrimSuffix(path, name)
	}
	for _, ext := range a.Drop {
		if base, ok := strings.CutSuffix(name, ext); ok && base != "" && base != "." && base != ".." {
			return strings.TrimSuffix(path, ext)
		}
	}
	return path
}

// paths returns the paths that URLs have as short, in the order in which they are looked for.
func (a *address) paths(short string) (paths []string) {
	candidates := []string{short}
	for _, ext := range a.Drop {
		candidates = append(candidates, short+ext)
	}
	if short == "" || strings.HasSuffix(short, "/") {
		candidates = candidates[:0]
		for _, name := range a.Index {
			candidates = append(candidates, short+name)
		}
	}
	for _, path := range candidates {
		if validPath(path) && a.short(path) == short {
			paths = append(paths, path)
		}
	}
	return paths
}

// rivals returns the other paths that have the same URL as one.
func (a *address) rivals(path string) []string {
	if len(a.Index)+len(a.Drop) == 0 {
		return nil
	}
	return slices.DeleteFunc(a.paths(a.short(path)), func(p string) bool { return p == path })
}

// checkPrefix returns the prefix of an address as a URL with a slash at the end.
func checkPrefix(prefix string) (string, error) {
	u, err := url.Parse(prefix)
	if strings.Contains(prefix, "@") && (err != nil || u.User != nil) {
		return "", errPassword("the URL of the resources")
	}
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.ForceQuery || strings.Contains(prefix, "#") {
		return "", fmt.Errorf("%q cannot be the URL of the resources: give the address at which a web server serves the folder, such as https://example.org/files/", prefix)
	}
	if web.HasDotSegment(u) {
		return "", fmt.Errorf("the URL of the resources %q has a dot segment (/./ or /../): write the path without", prefix)
	}
	if !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	return prefix, nil
}

// move is a former address: that of the changes up to Through.
type move struct {
	Through uint64  `json:"through"`
	Address address `json:"address"`
}

// mostMoves bounds how many former addresses are remembered. The log of changes seldom
// reaches back to more than one.
const mostMoves = 100

// addressAt returns the address of the resources when a change was logged.
func (s *composer) addressAt(seq uint64) *address {
	for i := range s.moves {
		if seq <= s.moves[i].Through {
			return &s.moves[i].Address
		}
	}
	return &s.address
}

// urlOf returns the URL of a resource. If it has no URL of its own, it is at an address.
func (s *composer) urlOf(a *address, r *Resource) string {
	if r.URL != "" {
		return r.URL
	}
	return a.below(s.base+dataPath, r.Path)
}

// top is the URL that all resources have in common that have none of their own.
func (s *composer) top(a *address) string { return s.urlOf(a, &Resource{}) }

// own reports whether the resources are served elsewhere, by another server.
func (s *composer) own() bool { return s.address.Prefix != "" }

// mover changes the address of the resources of a set.
type mover struct{ set *set }

// readdress gives the resources of the set an address. If they had another one, all that
// are listed elsewhere now are deleted at their old URL and created at the new one: a Destination
// learns it from any channel that it follows. Each step can be repeated, so a process that is killed
// begins again at its next start: it ends the move that was begun, even if the address is another
// one by now. Nothing else may write to the index meanwhile.
func (s mover) readdress(now address) error {
	h := s.set.shelf.current().History
	if h.Site == "" || !s.set.index.Ready() {
		// No document has named a resource yet, or the numbers of the log begin anew.
		s.set.composer.address, s.set.composer.moves = now, nil
		return s.swap(func(h *history) { h.Address, h.Moves, h.Leaving, h.Arriving = now, nil, nil, false })
	}
	s.set.composer.address, s.set.composer.moves = h.Address, h.Moves
	for h.Leaving != nil || h.Arriving || !h.Address.equal(&now) {
		var err error
		switch {
		case h.Leaving != nil:
			err = s.leave(h.Address, *h.Leaving)
		case h.Arriving:
			err = s.arrive(h.Moves[len(h.Moves)-1].Address, h.Address)
		default:
			err = s.swap(func(h *history) { h.Leaving = &now })
		}
		if err != nil {
			return err
		}
		h = s.set.shelf.current().History
		s.set.composer.address, s.set.composer.moves = h.Address, h.Moves
	}
	return nil
}

func (s mover) swap(change func(h *history)) error {
	return s.set.shelf.swap(func(c *register) error { change(&c.History); return nil })
}

// leave logs as deleted what has another URL from now on.
func (s mover) leave(before, now address) error {
	n, err := s.announceMoved(resourcesync.Deleted, &before, &now)
	if err != nil {
		return err
	}
	s.set.composer.log.Warn("the resources have other URLs than before: they are published as deleted at the old ones and created at the new ones, and subscribers fetch them again",
		"event", "resources_moved", "resources", n, "before", s.set.composer.top(&before), "now", s.set.composer.top(&now))
	last := s.set.index.state()
	return s.swap(func(h *history) {
		for len(h.Moves) > 0 && (h.Moves[0].Through <= last.begin.seq || len(h.Moves) >= mostMoves) {
			h.Moves = h.Moves[1:]
		}
		h.Moves = append(h.Moves, move{Through: last.last.seq, Address: before})
		h.Address, h.Leaving, h.Arriving = now, nil, true
	})
}

// arrive logs as created what left its former URL.
func (s mover) arrive(before, now address) error {
	if _, err := s.announceMoved(resourcesync.Created, &before, &now); err != nil {
		return err
	}
	return s.swap(func(h *history) { h.Arriving = false })
}

// announceMoved logs a change of all resources whose URL differs at two addresses, and
// returns how many these are.
func (s mover) announceMoved(change resourcesync.ChangeType, before, now *address) (n int, err error) {
	err = s.set.index.read(func(snap *Snapshot) error {
		n, err = s.set.index.logEach(change, snap.Resources(), func(r *Resource) (bool, error) {
			return s.set.composer.urlOf(before, r) != s.set.composer.urlOf(now, r), nil
		})
		return err
	})
	return n, err
}
