package validate

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/rshub/rshub/internal/base/excerpt"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/websub"
)

// maxPage is how many bytes of a page or feed are read for its links.
const maxPage = 64 << 10

// pageLinks are the links of one answer, and where they come from.
type pageLinks struct {
	all  []websub.Link
	page bool // also from the content
}

// headerLinks are the links of the Link headers.
func headerLinks(resp *http.Response) pageLinks {
	return pageLinks{all: websub.ParseLinks(resp.Header.Values("Link"))}
}

// embedder returns the function that reads the links within the content of an answer.
// They count only if no Link header names any hub (DST-01). It is nil if they do not
// count, or such content has none.
func embedder(resp *http.Response) func(r io.Reader, base string) ([]resourcesync.Link, error) {
	if len(websub.Targets(headerLinks(resp).all, websub.RelHub)) > 0 {
		return nil
	}
	return resourcesync.LinkReader(resp.Header.Get("Content-Type"))
}

// linksOf returns the links of topic's answer that count, and what it read of body to
// find them: maxPage bytes at most, and nothing if the headers are enough. An error is an
// *UnsureError.
func linksOf(resp *http.Response, topic string, body io.Reader) (links pageLinks, read []byte, err error) {
	links = headerLinks(resp)
	embedded := embedder(resp)
	if embedded == nil {
		return links, nil, nil
	}
	if read, err = io.ReadAll(io.LimitReader(body, maxPage)); err != nil {
		return links, read, &UnsureError{Reason: called(topic, topic) + " broke off or was too slow"}
	}
	links.page = true
	found, _ := embedded(bytes.NewReader(read), topic) // reading from memory does not fail
	for _, l := range found {
		links.all = append(links.all, websub.Link{Target: l.Href, Rels: []string{l.Rel}})
	}
	return links, read, nil
}

// maxShown is how many bytes of a link an error repeats. A callback gets the error in a URL.
const maxShown = 300

// names checks the links of target's answer: one self, the topic itself byte for byte
// (HUB-04), and this hub among the hubs. They may be relative to target.
func (c *TopicChecker) names(links pageLinks, topic, target string) error {
	what, none := called(topic, target), "no Link header"
	if links.page {
		none = "neither a Link header nor, in its head or as a feed, a link element"
	}
	self := websub.Targets(links.all, websub.RelSelf)
	if len(self) == 0 {
		return &DeniedError{Reason: fmt.Sprintf(`%s has %s with rel="self"`, what, none)}
	}
	base, _ := url.Parse(target)
	for _, link := range self {
		if Absolute(base, link) != topic {
			return &DeniedError{Reason: fmt.Sprintf(`%s has %s as rel="self", not %s`, what, excerpt.Cut(link, maxShown), topic)}
		}
	}
	for _, link := range websub.Targets(links.all, websub.RelHub) {
		if websub.HubURL(Absolute(base, link)) == websub.HubURL(c.o.HubURL) {
			return nil
		}
	}
	return &DeniedError{Reason: fmt.Sprintf(`%s has %s with rel="hub" that is %s`, what, none, c.o.HubURL)}
}
