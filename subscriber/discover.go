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

// Discovery is what a topic says of itself.
type Discovery struct {
	// Topic is what to subscribe to: the topic's rel="self", or where it has none
	// the address at which it was found.
	Topic string
	// Hubs are those that the topic names, in its order and never none.
	Hubs []string
	// CapabilityList is where a rel="resourcesync" leads; empty: there is none.
	CapabilityList string
}

// ErrNoHub says that a topic names no hub, so that it can't be subscribed to.
var ErrNoHub = errors.New("it names no hub: neither a Link header with rel=\"hub\" nor, in HTML, Atom or RSS, a link element")

// Discover finds the hubs of a topic, and the address under which it wants to be
// subscribed to (DST-01, DST-02). Redirects are followed. Links count from Link
// headers, or where these name no hub, from the head of an HTML page or the feed
// of Atom or RSS; relative ones are resolved against where the topic was found.
// ErrNoHub is wrapped where there is none, and what the topic answered comes as
// a *StatusError.
func Discover(ctx context.Context, client Doer, topic string) (Discovery, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	p, err := get(ctx, client, topic, "*/*")
	if err != nil {
		return Discovery{}, fmt.Errorf("looking for the hub of a topic: %w", err)
	}
	defer func() { _ = p.Body.Close() }()
	links := headerLinks(p)
	if !hasHub(links) {
		links = append(embeddedLinks(p), links...)
	}
	d := Discovery{}
	for _, l := range links {
		switch strings.ToLower(l.Rel) {
		case websub.RelSelf:
			if d.Topic == "" {
				d.Topic = l.Href
			}
		case websub.RelHub:
			if !websub.HasHub(d.Hubs, l.Href) {
				d.Hubs = append(d.Hubs, l.Href)
			}
		case websub.RelResourceSync:
			if d.CapabilityList == "" {
				d.CapabilityList = l.Href
			}
		}
	}
	if d.Topic == "" {
		d.Topic = p.URL
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
		if l.Anchor != "" {
			continue
		}
		target, err := web.Absolute(p.URL, l.Target)
		if err != nil {
			continue
		}
		for _, rel := range l.Rels {
			out = append(out, resourcesync.Link{Rel: rel, Href: target})
		}
	}
	return out
}

// embeddedLinks are those in a page's content, if it is of a kind that has any.
func embeddedLinks(p page) []resourcesync.Link {
	read := resourcesync.LinkReader(p.Header.Get("Content-Type"))
	if read == nil {
		return nil
	}
	links, err := read(p.Body, p.URL)
	if err != nil {
		return nil // the connection broke: what stood before it may be half of a link
	}
	return links
}

func hasHub(links []resourcesync.Link) bool { return len(only(links, websub.RelHub)) > 0 }

// only are the links of one relation.
func only(links []resourcesync.Link, rel string) []resourcesync.Link {
	var out []resourcesync.Link
	for _, l := range links {
		if strings.EqualFold(l.Rel, rel) {
			out = append(out, l)
		}
	}
	return out
}

// choose is the hub to subscribe at: https before http (DST-03), and the one that it
// was before as long as the topic names it, in whatever order.
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
