package source

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rshub/rshub/resourcesync"
)

// Rules say what documents add to what a folder shows of its resources: links to other
// resources, attributes, and shorter URLs. ParseRules makes them. What they add never
// changes, so goroutines may share them. The zero value and nil add nothing.
type Rules struct {
	text        string // as it was written
	addressLine string // the file and line of address
	// index and drop are those of address.
	index, drop []string
	// set and source describe the set and the Source as a whole (LNK-12).
	set, source []resourceLink
	resources   []resourceRule
	unused      sync.Once // logs which of resources are for no path
}

// resourceRule is a rule for the resources that patterns select.
type resourceRule struct {
	selects             rules
	mediaType, encoding string // empty: as without the rule
	// sidecars end the paths of resources that describe others: with .xml, a.pdf.xml describes a.pdf.
	sidecars []string
	links    []resourceLink
	line     string       // its file and line
	used     *atomic.Bool // it applied to a path; nil: nobody asks
}

// resourceLink is a link that a rule gives an entry.
type resourceLink struct {
	rel string
	to  target
	// pri and mediaType are attributes of the link. lastmod gives it the time of the resource
	// that it belongs to. Mirror gives it all that is known of the resource.
	pri             int
	mediaType       string
	lastmod, mirror bool
}

// patchRel is the relation of a link to a patch. Only the entry of an update may have one
// (LNK-04).
const patchRel = "http://www.openarchives.org/rs/terms/patch"

// applies reports whether a rule is for a path. What has no path has no rules.
func (r *resourceRule) applies(path string) bool {
	ok := path != "" && r.selects.match(path, false)
	if ok && r.used != nil && !r.used.Load() {
		r.used.Store(true)
	}
	return ok
}

// mediaType returns the media type of a resource: what somebody gave it, else by the last
// rule, else a guess.
func (rs *Rules) mediaType(r *Resource) string {
	if !r.Guessed && r.MediaType != "" {
		return r.MediaType
	}
	for _, rule := range slices.Backward(rs.resources) {
		if rule.mediaType != "" && rule.applies(r.Path) {
			return rule.mediaType
		}
	}
	return r.MediaType
}

// encoding returns the encoding of a resource in the same way.
func (rs *Rules) encoding(r *Resource) string {
	if r.Encoding != "" {
		return r.Encoding
	}
	for _, rule := range slices.Backward(rs.resources) {
		if rule.encoding != "" && rule.applies(r.Path) {
			return rule.encoding
		}
	}
	return ""
}

// neighbours are what links to other resources of the set are made from.
type neighbours struct {
	// get returns the resource at a path; nil: there is none.
	get func(path string) (*Resource, error)
	url func(r *Resource) string
}

// linksOf returns the links that rules give a resource. Loc is its URL. It has none of a relation
// of which it was given links.
func (rs *Rules) linksOf(r *Resource, loc string, n neighbours) (links []resourcesync.Link, err error) {
	add := func(l resourcesync.Link, ok bool, failed error) {
		same := func(other resourcesync.Link) bool { return other.Rel == l.Rel && other.Href == l.Href }
		given := func(other resourcesync.Link) bool { return other.Rel == l.Rel }
		err = cmp.Or(err, failed)
		if ok && failed == nil && !slices.ContainsFunc(links, same) && !slices.ContainsFunc(r.Links, given) {
			links = append(links, l)
		}
	}
	for i := range rs.resources {
		rule := &rs.resources[i]
		applies := rule.applies(r.Path)
		for _, suffix := range rule.sidecars {
			if applies {
				add(rs.toNeighbour("describedby", r.Path+suffix, n))
			}
			if of, ok := strings.CutSuffix(r.Path, suffix); ok && rule.applies(of) {
				add(rs.toNeighbour("describes", of, n))
			}
		}
		for j := range rule.links {
			if applies {
				add(rs.link(&rule.links[j], r, loc, n))
			}
		}
	}
	return links, err
}

// link makes a link. It returns false if there is nothing to link to.
func (rs *Rules) link(x *resourceLink, r *Resource, loc string, n neighbours) (l resourcesync.Link, ok bool, err error) {
	to, ok := x.to.expand(r, loc)
	switch {
	case !ok:
		return l, false, nil
	case x.to.isURL:
		l = resourcesync.Link{Rel: x.rel, Href: to}
	case to == r.Path:
		return l, false, nil
	default:
		if l, ok, err = rs.toNeighbour(x.rel, to, n); !ok || err != nil {
			return l, false, err
		}
	}
	if x.mirror {
		e := describe(r, loc)
		l.Length, l.HasLength, l.Hash, l.Type, l.Encoding, l.Modified = e.Length, e.HasLength, e.Hash, rs.mediaType(r), rs.encoding(r), e.LastMod
	}
	if x.lastmod {
		l.Modified = r.ModTime
	}
	if x.mediaType != "" {
		l.Type = x.mediaType
	}
	l.Pri = x.pri
	return l, true, nil
}

// toNeighbour links to another resource, if there is one at the path.
func (rs *Rules) toNeighbour(rel, path string, n neighbours) (l resourcesync.Link, ok bool, err error) {
	if !validPath(path) {
		return l, false, nil
	}
	r, err := n.get(path)
	if r == nil || err != nil {
		return l, false, err
	}
	e := describe(r, n.url(r))
	return resourcesync.Link{
		Rel: rel, Href: e.Loc, Modified: e.LastMod, Hash: e.Hash, Length: e.Length, HasLength: e.HasLength,
		Type: rs.mediaType(r), Encoding: rs.encoding(r),
	}, true, nil
}

// related returns the paths of resources whose links depend on whether there is one at a
// path.
func (rs *Rules) related(path string) (paths []string) {
	for i := range rs.resources {
		rule := &rs.resources[i]
		for _, suffix := range rule.sidecars {
			if of, ok := strings.CutSuffix(path, suffix); ok && rule.applies(of) {
				paths = append(paths, of)
			}
			if rule.applies(path) {
				paths = append(paths, path+suffix)
			}
		}
		for j := range rule.links {
			if from, ok := rule.links[j].to.origin(path); ok && from != path && rule.applies(from) {
				paths = append(paths, from)
			}
		}
	}
	return paths
}
