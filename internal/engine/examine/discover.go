package examine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/websub"
)

const wellKnown = "/.well-known/resourcesync"

// discover finds the documents to begin with: the Source Description, or where
// there is none the Capability Lists that the URL leads to (C 6.3).
func (x *examination) discover(ctx context.Context, raw string) ([]listed, error) {
	base, err := url.Parse(raw)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("%w: %q is no http or https URL", ErrNoSource, raw)
	}
	if base.Path == "" {
		base.Path = "/"
	}
	var reasons []error
	for _, at := range descriptions(base) {
		d, err := x.isDescription(ctx, at)
		if err == nil {
			x.about("discovery", at).pass("SRC-12", "there is a Source Description")
			if at != hostOf(base)+wellKnown {
				x.about("discovery", at).warn("SRC-12", "it is not at %s of the host, where subscribers look first", wellKnown)
			}
			return []listed{{entry: resourcesync.Entry{Loc: d}, want: resourcesync.Description}}, nil
		}
		reasons = append(reasons, err)
	}
	found, err := x.follow(ctx, base.String())
	if err == nil && len(found) > 0 {
		x.about("discovery", raw).warn("SRC-12", "there is no Source Description at %s of the host; subscribers find the Source only by its links", wellKnown)
		return found, nil
	}
	reasons = append(reasons, err)
	return nil, worst(raw, reasons)
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
	dir := base.Path[:strings.LastIndexByte(base.Path, '/')]
	for {
		at.Path = dir + wellKnown
		all = append(all, at.String())
		cut := strings.LastIndexByte(dir, '/')
		if cut < 0 || len(all) == 4 {
			break
		}
		dir = dir[:cut]
	}
	if at.Path = wellKnown; !slices.Contains(all, at.String()) {
		all = append(all, at.String())
	}
	slices.Reverse(all) // the host's own first
	return all
}

// worst says why there is nothing: the first reason that is not a mere absence.
func worst(raw string, reasons []error) error {
	for _, kind := range []error{ErrUnreachable, ErrRefused} {
		all := len(reasons) > 0
		for _, err := range reasons {
			all = all && (err == nil || errors.Is(err, kind))
		}
		if all {
			return fmt.Errorf("%s: %w", raw, reasons[0])
		}
	}
	return fmt.Errorf("%w at %s: there is neither %s nor a link rel=\"resourcesync\", and it is no document of ResourceSync", ErrNoSource, raw, wellKnown)
}

// isDescription reports, by its error, whether a document is at a URL that is worth
// beginning with.
func (x *examination) isDescription(ctx context.Context, at string) (string, error) {
	a, err := x.get(ctx, http.MethodGet, at)
	if err != nil {
		return "", err
	}
	defer a.close()
	if err := a.refusal(); err != nil {
		return "", err
	}
	h, err := resourcesync.NewReader(a.body, resourcesync.ReadOptions{Gzip: a.packed()}).Head()
	if h.Capability == resourcesync.Description {
		return at, nil // what else is wrong with it is told later
	}
	return "", fmt.Errorf("%w: %s is no Source Description: %w", ErrNoSource, at, err)
}

// maxFirst is how much of the first answer is looked at for links.
const maxFirst = 1 << 20

// follow finds Capability Lists from a resource, a page or any document.
func (x *examination) follow(ctx context.Context, at string) ([]listed, error) {
	a, err := x.get(ctx, http.MethodGet, at)
	if err != nil {
		return nil, err
	}
	defer a.close()
	if err := a.refusal(); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(a.body, maxFirst))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if h, _ := resourcesync.NewReader(bytes.NewReader(body), resourcesync.ReadOptions{Gzip: a.packed()}).Head(); h.Capability != "" {
		return x.upwards(a.url, h), nil
	}
	targets := websub.Targets(websub.ParseLinks(a.header.Values("Link")), websub.RelResourceSync)
	links, _ := resourcesync.LinksFromHTML(bytes.NewReader(body), a.url) // a body in memory has no errors
	for _, l := range links {
		if strings.EqualFold(l.Rel, websub.RelResourceSync) {
			targets = append(targets, l.Href)
		}
	}
	var found []listed
	for _, t := range targets {
		base, err := url.Parse(a.url)
		if err != nil {
			continue
		}
		if u, err := base.Parse(t); err == nil {
			found = append(found, listed{entry: resourcesync.Entry{Loc: u.String()}, want: resourcesync.CapabilityList})
		}
	}
	return found, nil
}

// upwards goes from a document to the Capability List that it names, or begins with
// the document itself.
func (x *examination) upwards(at string, h resourcesync.Head) []listed {
	if up, ok := h.Link("up"); ok && h.Capability != resourcesync.CapabilityList {
		return []listed{{entry: resourcesync.Entry{Loc: up.Href}, want: resourcesync.CapabilityList}}
	}
	return []listed{{entry: resourcesync.Entry{Loc: at}, want: h.Capability}}
}
