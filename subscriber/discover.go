package subscriber

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rshub/rshub/internal/base/web"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/websub"
)

// Discovery is what a topic says about itself.
type Discovery struct {
	// Topic is the URI to subscribe to: the topic's rel="self", or if there is none,
	// the address at which the topic was found.
	Topic string
	// Hubs are those that the topic names, in its order. There is at least one.
	Hubs []string
	// CapabilityList is where a rel="resourcesync" leads; empty: there is none.
	CapabilityList string
}

// ErrNoHub says that a topic names no hub. Nobody can subscribe to it.
var ErrNoHub = errors.New("it names no hub: neither a Link header with rel=\"hub\" nor, in HTML, Atom or RSS, a link element")

// Discover finds the hubs of a topic, and the address under which it wants to be
// subscribed to (DST-01, DST-02). It follows redirects. It reads Link headers, and if
// these name no hub, the head of an HTML page or the feed of Atom or RSS. Relative links
// are resolved against the address at which the topic was found. The error wraps ErrNoHub
// if there is no hub, or a *StatusError with the topic's answer. A nil client is a guarded one, which
// calls public addresses only.
func Discover(ctx context.Context, client Doer, topic string) (Discovery, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	client, end, err := clientOr(client)
	if err != nil {
		return Discovery{}, err
	}
	defer end()
	p, err := get(ctx, client, topic, "*/*")
	if err != nil {
		return Discovery{}, fmt.Errorf("looking for the hub of a topic: %w", err)
	}
	defer func() { _ = p.Body.Close() }()
	links := headerLinks(p)
	if len(only(links, websub.RelHub)) == 0 {
		links = append(embeddedLinks(p), links...)
	}
	self := append(only(links, websub.RelSelf), resourcesync.Link{Href: p.URL})
	d := Discovery{Topic: self[0].Href}
	for _, l := range only(links, websub.RelHub) {
		if !websub.HasHub(d.Hubs, l.Href) {
			d.Hubs = append(d.Hubs, l.Href)
		}
	}
	if capabilities := only(links, websub.RelResourceSync); len(capabilities) > 0 {
		d.CapabilityList = capabilities[0].Href
	}
	if len(d.Hubs) == 0 {
		return d, fmt.Errorf("%s: %w", p.URL, ErrNoHub)
	}
	return d, nil
}

// headerLinks are the links of a page's headers, resolved, one for each relation.
func headerLinks(p page) []resourcesync.Link {
	var out []resourcesync.Link
	for _, l := range websub.ParseLinks(p.Header.Values("Link")) {
		target, err := web.Absolute(p.URL, l.Target)
		if err != nil || l.Anchor != "" {
			continue
		}
		for _, rel := range l.Rels {
			out = append(out, resourcesync.Link{Rel: rel, Href: target})
		}
	}
	return out
}

// embeddedLinks are the links in a page's content, if its media type can have any.
func embeddedLinks(p page) []resourcesync.Link {
	read := resourcesync.LinkReader(p.Header.Get("Content-Type"))
	if read == nil {
		return nil
	}
	links, err := read(p.Body, p.URL)
	if err != nil {
		return nil // the connection broke, perhaps within a link
	}
	return links
}

// only returns the links of one relation.
func only(links []resourcesync.Link, rel string) []resourcesync.Link {
	return slices.DeleteFunc(slices.Clone(links), func(l resourcesync.Link) bool { return !strings.EqualFold(l.Rel, rel) })
}

// choose returns the hub to subscribe at: an https one before an http one (DST-03), and the
// hub that it was before as long as the topic names it.
func choose(hubs []string, before string) string {
	secure := func(h string) bool { return strings.HasPrefix(strings.ToLower(h), "https:") }
	first := hubs[0]
	if i := slices.IndexFunc(hubs, secure); i >= 0 {
		first = hubs[i]
	}
	if websub.HasHub(hubs, before) && secure(before) == secure(first) {
		return before
	}
	return first
}
