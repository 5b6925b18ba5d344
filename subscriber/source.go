package subscriber

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/url"
	"strings"

	"github.com/rshub/rshub/internal/base/web"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/websub"
)

// WellKnown is the path of the Source Description of a host (SRC-12).
const WellKnown = "/.well-known/resourcesync"

const (
	maxSets    = 1_000 // Capability Lists of a Source that are read
	maxUps     = 4     // steps from a document up to its Capability List
	maxRobots  = 100   // sitemaps of a robots.txt
	robotsPath = "/robots.txt"
)

// Source is a Source with its sets.
type Source struct {
	// Description is the Source Description; empty if discovery began below it and
	// nothing leads up to one.
	Description string
	Sets        []Set // at least one
	// Capability is that of the document at the address itself, such as
	// resourcesync.ResourceDump; empty: a plain sitemap, or no document of ResourceSync.
	// MediaType is what the answer there said.
	Capability, MediaType string
	// Elsewhere is why the address itself does not lead to the Source, if that was found at the well-known
	// place of the host or by its robots.txt; else it is nil.
	Elsewhere error
	// Robots is the address of the robots.txt that names the sitemaps, if the Source was found by it; else it is empty.
	Robots string
}

// Set is one set of resources, with the documents of its Capability List.
type Set struct {
	// CapabilityList is empty for a Source that has only a sitemap.
	CapabilityList string
	// Documents are the URLs by capability, such as resourcesync.ResourceList.
	Documents map[string]string
	// Topic and Hubs are the channel of change notifications (SRC-11). With a Topic and
	// without Hubs, the topic itself names them (Discover).
	Topic string
	Hubs  []string
	// Framework and FrameworkHubs are the channel of framework notifications, which name
	// documents of the set that appeared or changed.
	Framework     string
	FrameworkHubs []string
}

// DiscoverSource finds what a Source offers, beginning at any of its addresses:
// the Source Description, a Capability List, any list or dump (by its rel="up"), a
// topic or resource that names its Capability List in a Link header or HTML link
// (SRC-13), else the well-known place of the host, else the sitemaps of its
// robots.txt (SRC-14). A nil client is as with Discover.
func DiscoverSource(ctx context.Context, client Doer, address string) (Source, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*fetchTimeout)
	defer cancel()
	client, end, err := clientOr(client)
	if err != nil {
		return Source{}, err
	}
	defer end()
	d := discoverer{client: client, seen: map[string]error{}}
	found, first := d.from(ctx, address, 0)
	if found {
		return d.source, nil
	}
	base, err := url.Parse(address)
	if err != nil || base.Host == "" {
		return Source{}, fmt.Errorf("%q is not the address of a Source; give an http or https URL", address)
	}
	known := base.ResolveReference(&url.URL{Path: WellKnown}).String()
	found, err = d.from(ctx, known, 0)
	if found {
		d.source.Elsewhere = cmp.Or(first, errNoDocument)
		return d.source, nil
	}
	// A sitemap is for hosts without ResourceSync. It does not replace lists that are away, or in part cannot be read.
	if !Away(first) && !Away(err) && !d.partial {
		robots := base.ResolveReference(&url.URL{Path: robotsPath}).String()
		found, unread := d.robots(ctx, robots)
		switch {
		case unread != nil:
			return Source{}, unread
		case found:
			d.source.Elsewhere = fmt.Errorf("%w, nor does %s: %s", cmp.Or(first, errNoDocument), known, cmp.Or(err, errNoDocument).Error())
			d.source.Robots = robots
			return d.source, nil
		}
	}
	first = cmp.Or(first, errNoDocument)
	err = cmp.Or(err, errors.New("no document of ResourceSync"))
	var top, place *web.UnansweredError
	if errors.As(first, &top) && errors.As(err, &place) && top.Err.Error() == place.Err.Error() {
		return Source{}, fmt.Errorf("no Source found: %w", first)
	}
	if isGone(err) || Away(first) {
		return Source{}, fmt.Errorf("no Source found at %s (%w), nor at %s (%w)", address, first, known, err)
	}
	// The answer of the well-known place decides, so it is wrapped first: many hosts have nothing at their top.
	return Source{}, fmt.Errorf("no Source found at %[3]s (%[2]w), nor at %[4]s (%[1]w)", err, first, address, known)
}

// errNoDocument says why an answer does not lead to a Source.
var errNoDocument = errors.New("it is no document of ResourceSync and links to none")

type discoverer struct {
	client Doer
	source Source
	// seen has the addresses that were read, each with its error, so that a second way to an address does not hide the error.
	seen map[string]error
	// partial is true if a set to which a document or a link leads cannot be read.
	partial bool
}

// from looks at an address and reports whether it leads to a Source.
func (d *discoverer) from(ctx context.Context, address string, ups int) (found bool, err error) {
	if before, seen := d.seen[address]; seen {
		return false, before
	}
	first := len(d.seen) == 0
	d.seen[address] = nil
	defer func() { d.seen[address] = err }()
	p, err := get(ctx, d.client, address, "application/xml, text/xml;q=0.9, text/html;q=0.8, */*;q=0.1")
	if err != nil {
		return false, err
	}
	if first {
		d.source.MediaType, _, _ = mime.ParseMediaType(p.Header.Get("Content-Type"))
	}
	links := only(headerLinks(p), websub.RelResourceSync)
	if len(links) == 0 && strings.Contains(p.Header.Get("Content-Type"), "html") { // PHP and others send any document so
		var read bytes.Buffer
		body := p.Body
		p.Body = readCloser{io.TeeReader(body, &read), body}
		links = only(embeddedLinks(p), websub.RelResourceSync)
		p.Body = readCloser{io.MultiReader(&read, body), body}
	}
	doc, err := p.document(0) // closes p, now or with doc
	if err == nil {
		if first {
			d.source.Capability = doc.head.Capability
		}
		found, err := d.document(ctx, doc, ups)
		doc.end()
		d.partial = d.partial || err != nil
		if found || err != nil {
			return found, err
		}
	}
	if len(links) == 0 {
		return false, err
	}
	// Each leads to a set, and one that cannot be read would be missing.
	for _, l := range links[:min(len(links), maxSets)] {
		one, err := d.from(ctx, l.Href, ups)
		if err != nil {
			d.partial = true
			return false, err
		}
		found = found || one
	}
	return found, nil
}

// readCloser reads from one thing, and closes another.
type readCloser struct {
	io.Reader
	io.Closer
}

// document adds the sets that a document leads to.
func (d *discoverer) document(ctx context.Context, doc *document, ups int) (bool, error) {
	switch capability := doc.head.Capability; {
	case capability == resourcesync.Description:
		d.source.Description = cmp.Or(d.source.Description, doc.url)
		return d.below(ctx, doc)
	case capability == resourcesync.CapabilityList && doc.head.Index: // of former versions (DOC-33)
		return d.below(ctx, doc)
	case capability == resourcesync.CapabilityList:
		set, err := readSet(doc)
		if err != nil {
			return false, err
		}
		d.source.Sets = append(d.source.Sets, set)
		if up, ok := doc.head.Link("up"); ok && d.source.Description == "" {
			d.source.Description, _ = web.Resolve(doc.url, up.Href)
		}
		return true, nil
	case capability == "": // a plain sitemap lists resources
		d.source.Sets = append(d.source.Sets, Set{Documents: map[string]string{resourcesync.ResourceList: doc.url}})
		return true, nil
	default:
		if up, ok := doc.head.Link("up"); ok && ups < maxUps {
			above, err := web.Resolve(doc.url, up.Href)
			if err == nil {
				doc.end() // as in below
				// known: another list led there.
				_, known := d.seen[above]
				known = known && len(d.source.Sets) > 0
				if found, err := d.from(ctx, above, ups+1); found || known || err != nil {
					return found || known, err
				}
			}
		}
		if capability == resourcesync.ChangeNotification || capability == resourcesync.FrameworkNotification {
			return false, nil // its topic may lead further
		}
		// A list that belongs to nothing is a Source by itself.
		d.source.Sets = append(d.source.Sets, Set{Documents: map[string]string{capability: doc.url}})
		return true, nil
	}
}

// below reads the Capability Lists that a Source Description or an index of such lists
// names. One that cannot be read fails the whole: a set would be missing.
func (d *discoverer) below(ctx context.Context, doc *document) (bool, error) {
	var below []string
	for e, err := range doc.Entries() {
		if err != nil {
			return false, fmt.Errorf("reading %s: %w", doc.url, err)
		}
		if len(below) == maxSets {
			return false, fmt.Errorf("%s names more than %d Capability Lists", doc.url, maxSets)
		}
		target, err := web.Resolve(doc.url, asWritten(&e))
		if err != nil {
			return false, fmt.Errorf("%s names %q: %w", doc.url, e.Loc, err)
		}
		below = append(below, target)
	}
	doc.end() // so that one answer at a time is open, whatever the host allows
	for _, target := range below {
		if len(d.source.Sets) >= maxSets {
			return false, fmt.Errorf("%s leads to more than %d sets", doc.url, maxSets)
		}
		if _, err := d.from(ctx, target, maxUps); err != nil {
			return false, err
		}
	}
	return len(d.source.Sets) > 0, nil
}

// robots adds the sitemaps that a robots.txt names. One that cannot be read fails the whole: a set would be missing.
func (d *discoverer) robots(ctx context.Context, address string) (found bool, err error) {
	p, err := get(ctx, d.client, address, "text/plain, */*;q=0.1")
	if err != nil {
		return false, nil //nolint:nilerr // then it names none
	}
	sitemaps, err := resourcesync.Sitemaps(p.Body, p.URL)
	_ = p.Body.Close() // it was only read
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", address, err)
	}
	if len(sitemaps) > maxRobots {
		return false, fmt.Errorf("%s names more than %d sitemaps; give the address of one of them as that of the Source", address, maxRobots)
	}
	for _, s := range sitemaps {
		one, err := d.from(ctx, s, 0)
		if err != nil {
			return false, fmt.Errorf("%s names a sitemap that cannot be used (%w); if the others are enough, give the address of one of them as that of the Source", address, err)
		}
		found = found || one
	}
	return found, nil
}

// readSet reads a Capability List.
func readSet(doc *document) (Set, error) {
	set := Set{CapabilityList: doc.url, Documents: map[string]string{}}
	for e, err := range doc.Entries() {
		if err != nil {
			return set, fmt.Errorf("reading %s: %w", doc.url, err)
		}
		loc, err := web.Resolve(doc.url, asWritten(&e))
		if err != nil || e.Capability == "" {
			continue
		}
		set.Documents[e.Capability] = cmp.Or(set.Documents[e.Capability], loc)
		topic, hubs := &set.Topic, &set.Hubs
		if e.Capability == resourcesync.FrameworkNotification {
			topic, hubs = &set.Framework, &set.FrameworkHubs
		} else if e.Capability != resourcesync.ChangeNotification {
			continue
		}
		if *topic != "" && *topic != loc {
			continue
		}
		*topic = loc
		for _, l := range only(e.Links, websub.RelHub) {
			if hub, err := web.Resolve(doc.url, l.Href); err == nil && !websub.HasHub(*hubs, hub) {
				*hubs = append(*hubs, hub)
			}
		}
	}
	return set, nil
}
