package examine

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/websub"
)

const (
	wellKnown  = "/.well-known/resourcesync"
	robotsPath = "/robots.txt"
)

// discover finds the documents to begin with, and visits them: the Source Description, or
// if there is none the Capability Lists that the URL leads to, else the sitemaps of robots.txt
// (C 6.3), which need not be of ResourceSync.
func (s *sourceCheck) discover(ctx context.Context, raw string) error {
	base, err := url.Parse(raw)
	if err != nil || !IsWeb(base) {
		return failed(ErrNotFound, "%q is no http or https URL", raw)
	}
	if base.Path == "" {
		base.Path = "/"
	}
	var reasons []error
	found := false
	for _, at := range descriptions(base) {
		in, d, err := s.first(ctx, at, resourcesync.DefaultLimits.Bytes)
		if err != nil || d.head.Line == 0 && !in.isXML() { // a page, perhaps, that a server has for every path
			reasons = append(reasons, err)
			continue
		}
		found = true
		f := s.about("discovery", at)
		if d.Capability == resourcesync.Description {
			f.pass("SRC-12", "there is a Source Description")
		} else {
			f.fail("SRC-12", "the document there is no Source Description: its capability is %q", d.Capability)
		}
		if at != hostOf(base)+wellKnown {
			f.warn("SRC-12", "it is not at %s of the host, where subscribers look first", wellKnown)
		}
		s.begin(ctx, in, d)
		if err := s.visit(ctx, d, nil); err != nil || d.Capability == resourcesync.Description {
			return err
		}
	}
	lists, err := s.linked(ctx, base.String())
	only := "by its links"
	if len(lists) == 0 && !found {
		reasons = append(reasons, err)
		lists, only = s.sitemaps(ctx, base, reasons), "by the sitemaps of its robots.txt, and not all of them look there"
	}
	switch {
	case len(lists) == 0 && found:
		return nil
	case len(lists) == 0:
		return noSource(raw, reasons)
	}
	s.about("discovery", raw).warn("SRC-12", "there is no Source Description at %s of the host; subscribers find the Source only %s", wellKnown, only)
	return s.visitEach(ctx, lists)
}

// visitEach checks the documents with which the examination begins if there is no Source Description.
func (s *sourceCheck) visitEach(ctx context.Context, lists []string) error {
	for _, at := range lists {
		switch d, known, err := s.load(ctx, at, resourcesync.DefaultLimits.Bytes); {
		case known:
		case err != nil:
			s.about("discovery", at).fail("SRC-13", "%v", err)
		default:
			if err := s.visit(ctx, d, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// first fetches a document that is not known to be one of the Source.
func (s *sourceCheck) first(ctx context.Context, at string, most int64) (input, *Document, error) {
	in, err := s.fetch(ctx, at, most)
	if err != nil {
		return in, nil, err
	}
	d, err := s.check(in)
	return in, d, err
}

// hostOf is a URL without its path.
func hostOf(u *url.URL) string { return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String() }

// descriptions are the places where the Source Description may be.
func descriptions(base *url.URL) []string {
	if strings.HasSuffix(base.Path, wellKnown) {
		return []string{base.String()}
	}
	at := *base
	at.RawQuery, at.Fragment, at.RawPath = "", "", ""
	all := []string{}
	dir := base.Path
	for cut := strings.LastIndexByte(dir, '/'); cut >= 0 && len(all) < 4; cut = strings.LastIndexByte(dir, '/') {
		dir = dir[:cut]
		at.Path = dir + wellKnown
		all = append(all, at.String())
	}
	if at.Path = wellKnown; !slices.Contains(all, at.String()) {
		all = append(all, at.String())
	}
	slices.Reverse(all) // the host's own first
	return all
}

// noSource returns why there is nothing to check: all requests failed or were refused, or that of the
// well-known place or of the URL itself, or the server has no Source there.
func noSource(raw string, reasons []error) error {
	for kind, other := range map[error]error{ErrUnreachable: errRedirect, ErrRefused: ErrRefused} {
		if !slices.ContainsFunc(reasons, func(err error) bool { return !errors.Is(err, kind) && !errors.Is(err, other) }) {
			return failed(kind, "%w", reasons[0])
		}
	}
	for _, err := range []error{reasons[0], reasons[len(reasons)-1]} {
		for _, kind := range []error{ErrUnreachable, ErrRefused} {
			if errors.Is(err, kind) {
				return failed(kind, "no ResourceSync Source was found at %s: %w", raw, err)
			}
		}
	}
	return failed(ErrNotFound, "no ResourceSync Source was found at %s: there is neither %s nor a link rel=\"resourcesync\" nor a sitemap in %s, and it is no document of ResourceSync", raw, wellKnown, robotsPath)
}

// sitemaps returns where the sitemaps that a robots.txt names lead to (SRC-14). Like subscribers, it does not ask for a
// robots.txt if the Source may only be away.
func (s *sourceCheck) sitemaps(ctx context.Context, base *url.URL, reasons []error) []string {
	if slices.ContainsFunc(reasons, func(err error) bool { return errors.Is(err, ErrUnreachable) }) {
		return nil
	}
	in, err := s.fetch(ctx, hostOf(base)+robotsPath, maxFirst)
	if err != nil {
		return nil // then it names none
	}
	all, _ := resourcesync.Sitemaps(body{in.at, in.size}.reader(), in.final) // what is in memory has no errors
	var lists []string
	for _, at := range all {
		led, err := s.linked(ctx, at)
		if err != nil || len(led) == 0 {
			led = []string{at} // to be reported
		}
		lists = append(lists, led...)
	}
	return lists
}

// maxFirst is how much of a resource or page is searched for links.
const maxFirst = 1 << 20

// linked finds Capability Lists from a resource, a page or any document. If a document
// names no Capability List, the examination begins with that document.
func (s *sourceCheck) linked(ctx context.Context, at string) ([]string, error) {
	in, d, err := s.first(ctx, at, maxFirst)
	if err != nil {
		return nil, err
	}
	if d.Capability != "" {
		base, _ := url.Parse(in.final) // it could be fetched
		if up, err := base.Parse(d.Up); err == nil && d.Up != "" && d.Capability != resourcesync.CapabilityList {
			return []string{up.String()}, nil
		}
		return []string{in.final}, nil
	}
	links, _ := resourcesync.LinksFromHTML(body{in.at, in.size}.reader(), in.final) // what is in memory has no errors
	lists := append(websub.Targets(websub.ParseLinks(in.header.Values("Link")), websub.RelResourceSync), targets(links, websub.RelResourceSync)...)
	for i, t := range lists {
		lists[i] = resolved(&Document{final: in.final}, t)
	}
	return lists, nil
}
