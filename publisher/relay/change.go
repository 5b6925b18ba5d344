package relay

import (
	"errors"
	"fmt"
	"mime"
	"net/url"
	"strings"
	"time"

	"github.com/rshub/rshub/internal/base/strictjson"
	"github.com/rshub/rshub/internal/base/web"
	"github.com/rshub/rshub/publisher/source"
	"github.com/rshub/rshub/resourcesync"
)

// MaxChanges is how many changes a request may have, and MaxBytes how long it may be.
const (
	MaxChanges = 10_000
	MaxBytes   = 4 << 20
)

// written is a change as an application writes it.
type written struct {
	url, change, hash, mediaType, encoding, lastMod string
	length                                          *int64
	links                                           []resourcesync.Link
}

func (c *written) empty() bool {
	return c.url+c.change+c.hash+c.mediaType+c.encoding+c.lastMod == "" && c.length == nil && c.links == nil
}

// fields are those of a change.
func (c *written) fields(r *reader) []strictjson.Field {
	return []strictjson.Field{
		{Name: "change", Into: &c.change},
		{Name: "url", Into: &c.url},
		{Name: "lastmod", Into: &c.lastMod},
		{Name: "length", Into: &c.length},
		{Name: "hash", Into: &c.hash},
		{Name: "type", Into: &c.mediaType},
		{Name: "encoding", Into: &c.encoding},
		{Name: "links", Into: func() (err error) { c.links, err = r.links(); return err }},
	}
}

// formFields are those that a form may have, too.
var formFields = []string{"change", "url", "lastmod", "length", "hash", "type", "encoding"}

// links reads a list of links.
func (r *reader) links() (links []resourcesync.Link, err error) {
	if r.Null() {
		return nil, nil
	}
	wrong := errors.New(`the field "links" has to be a list of objects, each with "rel" and "href"`)
	if r.Kind() != '[' {
		return nil, wrong
	}
	err = r.List(func() error {
		switch {
		case r.Kind() != '{':
			return wrong
		case len(links) == resourcesync.DefaultLimits.Links:
			return fmt.Errorf("it has more than %d links", resourcesync.DefaultLimits.Links)
		}
		l, err := r.link()
		if err != nil {
			return fmt.Errorf("link %d: %w", len(links)+1, err)
		}
		links = append(links, l)
		return nil
	})
	return links, err
}

// link reads a link.
func (r *reader) link() (l resourcesync.Link, err error) {
	var length, pri *int64
	var modified string
	err = r.Object([]strictjson.Field{
		{Name: "rel", Into: &l.Rel},
		{Name: "href", Into: &l.Href},
		{Name: "pri", Into: &pri},
		{Name: "length", Into: &length},
		{Name: "hash", Into: &l.Hash},
		{Name: "type", Into: &l.Type},
		{Name: "encoding", Into: &l.Encoding},
		{Name: "profile", Into: &l.Profile},
		{Name: "modified", Into: &modified},
	})
	if err == nil && pri != nil {
		l.Pri, err = int(*pri), resourcesync.CheckPri(*pri)
	}
	if err == nil {
		l.Length, l.HasLength, err = lengthOf(length)
	}
	if err == nil {
		l.Modified, err = timeOf("modified", modified)
	}
	if err == nil {
		err = checkHash(l.Hash)
	}
	return l, err
}

func lengthOf(n *int64) (length int64, has bool, err error) {
	if n == nil {
		return 0, false, nil
	}
	if *n < 0 {
		return 0, false, fmt.Errorf(`the field "length" is %d, and cannot be negative`, *n)
	}
	return *n, true, nil
}

func timeOf(name, text string) (at time.Time, err error) {
	if text == "" {
		return at, nil
	}
	if at, err = resourcesync.ParseDatetime(text); err != nil {
		return at, fmt.Errorf("the field %q is %q, which is not a time such as 2026-11-21T09:00:00Z", name, strictjson.Shorten(text))
	}
	return at, nil
}

// entry checks a change, and returns what documents will say of it.
func (c *written) entry(prefixes []string) (e resourcesync.Entry, err error) {
	e = resourcesync.Entry{Loc: c.url, Change: resourcesync.ChangeType(c.change), Hash: c.hash, Type: c.mediaType, Encoding: c.encoding, Links: c.links}
	if err := c.checkChange(); err != nil {
		return e, err
	}
	if err := checkURL(c.url, prefixes); err != nil {
		return e, err
	}
	if e.Length, e.HasLength, err = lengthOf(c.length); err != nil {
		return e, err
	}
	if e.LastMod, err = timeOf("lastmod", c.lastMod); err != nil {
		return e, err
	}
	if e.Change.Removes() {
		for _, f := range []struct {
			name  string
			given bool
		}{{"lastmod", c.lastMod != ""}, {"length", e.HasLength}, {"hash", c.hash != ""}, {"type", c.mediaType != ""}, {"encoding", c.encoding != ""}} {
			if f.given {
				return e, fmt.Errorf("the resource is deleted, and so has no %q; leave it out", f.name)
			}
		}
	}
	if err := checkHash(c.hash); err != nil {
		return e, err
	}
	if c.mediaType != "" {
		if _, _, err := mime.ParseMediaType(c.mediaType); err != nil || !strings.Contains(c.mediaType, "/") {
			return e, fmt.Errorf("the field %q is %q, which is not a media type such as text/html", "type", strictjson.Shorten(c.mediaType))
		}
	}
	return e, checkLinks(e.Links)
}

// checkHash checks a list of digests, which may be empty.
func checkHash(list string) error {
	if len(resourcesync.ParseHashes(list).Algorithms()) == len(strings.Fields(list)) {
		return nil
	}
	return fmt.Errorf("the field %q is %q; write algorithm:digest, with md5, sha-1, sha-256, sha-384 or sha-512 and the digest in hexadecimal", "hash", strictjson.Shorten(list))
}

func (c *written) checkChange() error {
	for _, t := range resourcesync.ChangeTypes() {
		if c.change == string(t) {
			return nil
		}
	}
	if c.change == "" {
		return errors.New(`the field "change" is missing; it is created, updated or deleted`)
	}
	return fmt.Errorf(`the field "change" is %q; it has to be created, updated or deleted`, strictjson.Shorten(c.change))
}

// checkURL refuses a URL that is none of this Source's resources.
func checkURL(text string, prefixes []string) error {
	if text == "" {
		return errors.New(`the field "url" is missing; it is the address of the resource that changed`)
	}
	u, err := url.Parse(text)
	switch {
	case strings.ContainsFunc(text, isControl):
		return fmt.Errorf("%q has a control character, or one that is no Unicode", strictjson.Shorten(text))
	case err != nil:
		return fmt.Errorf("%q is not an address: %w", strictjson.Shorten(text), errors.Unwrap(err)) // which has the text again
	case u.Scheme == "" || u.Host == "":
		return fmt.Errorf("%q is not the whole address of a resource; write it with https:// and the host", strictjson.Shorten(text))
	case u.Fragment != "" || strings.HasSuffix(text, "#"):
		return fmt.Errorf("%q has a fragment, and a fragment is part of a resource; leave out the # and what follows", strictjson.Shorten(text))
	case web.HasDotSegment(u): // it would begin with a prefix, and name what is not below it
		return fmt.Errorf("%q has a dot segment (/./ or /../, or one that is percent-encoded); write the address without", strictjson.Shorten(text))
	}
	for _, p := range prefixes {
		if strings.HasPrefix(text, p) {
			return nil
		}
	}
	return fmt.Errorf("%q is not a resource of this Source: its address has to begin with %s", strictjson.Shorten(text), strings.Join(prefixes, " or "))
}

// announced checks a change, and returns it as the Source records it.
func (c *written) announced(prefixes []string) (source.Given, error) {
	e, err := c.entry(prefixes)
	if err != nil {
		return source.Given{}, err
	}
	r := source.Resource{URL: e.Loc, ModTime: e.LastMod, Length: source.UnknownLength, MediaType: e.Type, Encoding: e.Encoding, Links: e.Links}
	if e.HasLength {
		r.Length = e.Length
	}
	r.SetHash(e.Hash)
	g := source.Given{Change: e.Change, Resource: r}
	return g, because(g.Check())
}

// checkLinks checks what documents cannot have.
func checkLinks(links []resourcesync.Link) error {
	for i := range links {
		l := &links[i]
		if i := strings.IndexFunc(l.Rel+l.Href, isControl); i >= 0 {
			return errors.New("a link has a control character, or one that is no Unicode")
		}
	}
	return nil
}

// because returns the sentence of an error of Given.Check that says which rule is broken. The loc of a
// document is the field "url".
func because(err error) error {
	broken := (*resourcesync.Error)(nil)
	if !errors.As(err, &broken) {
		return err
	}
	if why, ok := strings.CutPrefix(broken.Msg, "loc "); ok {
		return fmt.Errorf("the field %q %s", "url", why)
	}
	return errors.New(broken.Msg)
}
