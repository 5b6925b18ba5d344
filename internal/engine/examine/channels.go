package examine

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/websub"
)

// channel looks at a topic as a hub and a subscriber do, and at its hubs (SRC-02,
// SRC-04, SRC-11).
func (x *examination) channel(ctx context.Context, list *document, e *resourcesync.Entry) {
	if e.Capability == resourcesync.ChangeNotification {
		x.pushes = true
	}
	var hubs []string
	for _, l := range e.Links {
		if strings.EqualFold(l.Rel, websub.RelHub) {
			hubs = append(hubs, l.Href)
		}
	}
	s := x.about("topic", e.Loc)
	if len(hubs) == 0 {
		s.fail("SRC-11", "%s names no hub for it (rs:ln rel=\"hub\")", list.url)
	}
	x.topic(ctx, s, e, hubs)
	for _, hub := range hubs {
		x.hub(ctx, hub)
	}
}

// topic asks the topic URI.
func (x *examination) topic(ctx context.Context, s subject, e *resourcesync.Entry, hubs []string) {
	head, err := x.get(ctx, http.MethodHead, e.Loc)
	if err != nil {
		s.fail("SRC-02", "it can't be asked: %v", err)
		return
	}
	head.close()
	a, err := x.get(ctx, http.MethodGet, e.Loc)
	if err != nil {
		s.fail("SRC-02", "it can't be asked: %v", err)
		return
	}
	defer a.close()
	if head.status != http.StatusOK || a.status != http.StatusOK {
		s.fail("SRC-02", "it answers %s to GET and %s to HEAD; both must be 200", a.text(), head.text())
		return
	}
	if a.url != e.Loc || head.url != e.Loc {
		s.fail("SRC-02", "it redirects to %s; a hub follows no redirect, and is going to refuse what is published", a.url)
		return
	}
	links := websub.ParseLinks(a.header.Values("Link"))
	self, named := websub.Targets(links, websub.RelSelf), websub.Targets(links, websub.RelHub)
	good := true
	switch {
	case len(self) != 1:
		s.fail("SRC-04", "its answer has %s rel=\"self\"; there must be one", count(len(self), "Link header with", "Link headers with"))
		good = false
	case self[0] != e.Loc:
		s.fail("SRC-02", "its answer says that it is %s; hubs and subscribers compare that letter by letter", self[0])
		good = false
	}
	for _, hub := range hubs {
		if !websub.HasHub(named, hub) {
			s.fail("SRC-02", "its answer does not name the hub %s, which the Capability List does: the hub is going to refuse what is published", hub)
			good = false
		}
	}
	if m := a.media(); m != "application/xml" {
		s.warn("SRC-02", "its Content-Type is %q; it should be application/xml", a.header.Get("Content-Type"))
	}
	if good {
		s.pass("SRC-02", "it names itself and %s", count(len(hubs), "hub", "hubs"))
	}
	x.latest(s, e, a)
}

// latest looks at the notification that a topic may serve.
func (x *examination) latest(s subject, e *resourcesync.Entry, a *answer) {
	body, err := io.ReadAll(io.LimitReader(a.body, resourcesync.DefaultLimits.Bytes+1))
	switch {
	case err != nil:
		s.fail("SRC-03", "its content broke off: %v", err)
		return
	case len(body) == 0:
		return // nothing was published yet, or nothing is shown
	}
	n, err := resourcesync.CheckNotification(bytes.NewReader(body), resourcesync.DefaultLimits)
	if err != nil {
		s.warn("SRC-03", "its content is no notification: %v", err)
		return
	}
	if n.Capability != e.Capability {
		s.warn("SRC-01", "its content is a %s, and the Capability List says %s", n.Capability, e.Capability)
		return
	}
	s.pass("SRC-03", "its last notification has %s, until %s", count(n.Entries, "entry", "entries"), orNothing(n.Until))
}

// hub asks a hub for anything at all.
func (x *examination) hub(ctx context.Context, url string) {
	if x.hubs[websub.HubURL(url)] {
		return
	}
	x.hubs[websub.HubURL(url)] = true
	s := x.about("hub", url)
	a, err := x.get(ctx, http.MethodGet, url)
	if err != nil {
		s.fail("", "%v", err)
		return
	}
	a.close()
	switch {
	case a.status >= 500:
		s.fail("", "it answers %s", a.text())
	case a.status == http.StatusNotFound:
		s.fail("", "it answers %s, as if there were no hub at this URL", a.text())
	default:
		s.pass("", "it answers")
	}
}
