package destination

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/rshub/rshub/resourcesync"
)

// preference says which of the addresses that an entry names is tried first.
type preference struct {
	mirrors []string // prefixes of addresses, the best first
	types   []string // media types in lower case, or a type with /*, the best first
}

func newPreference(o *Options) *preference {
	p := &preference{}
	for _, prefix := range o.PreferMirrors {
		prefix = resourcesync.EncodeURI(prefix)
		if u, err := url.Parse(prefix); err == nil && u.Path == "" {
			prefix += "/" // or it would be the beginning of other hosts' names, too
		}
		p.mirrors = append(p.mirrors, prefix)
	}
	for _, t := range o.PreferTypes {
		p.types = append(p.types, strings.ToLower(t))
	}
	return p
}

// check reports what is wrong with a preference.
func (p *preference) check() error {
	for _, prefix := range p.mirrors {
		if u, err := url.Parse(prefix); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("Options.PreferMirrors: %q is not the beginning of an address; write it like https://mirror.example/data/", prefix)
		}
	}
	for _, t := range p.types {
		if kind, sub, ok := strings.Cut(t, "/"); !ok || kind == "" || sub == "" || strings.ContainsAny(t, "; ,") {
			return fmt.Errorf("Options.PreferTypes: %q is not a media type; write it like application/pdf or image/*", t)
		}
	}
	return nil
}

// rank returns the place of a media type among those that are preferred; len(p.types): none.
func (p *preference) rank(mediaType string) int {
	mediaType, _, _ = strings.Cut(strings.ToLower(mediaType), ";")
	mediaType = strings.TrimSpace(mediaType)
	i := slices.IndexFunc(p.types, func(t string) bool {
		kind, all := strings.CutSuffix(t, "*")
		return t == mediaType || all && strings.HasPrefix(mediaType, kind)
	})
	if i < 0 {
		return len(p.types)
	}
	return i
}

// apply returns a resource as it is wanted in the copy: with the description of an alternate, if
// that has a preferred type and the resource has not (LNK-03), and with the address that is to be
// tried first.
func (p *preference) apply(w desired) desired {
	best, alternate := p.rank(w.mediaType), -1
	for i := range w.mirrors {
		if m := &w.mirrors[i]; m.Alternate && p.rank(m.Type) < best {
			best, alternate = p.rank(m.Type), i
		}
	}
	if alternate >= 0 {
		return w.as(w.mirrors[alternate])
	}
	for _, prefix := range p.mirrors {
		if strings.HasPrefix(w.url, prefix) {
			break // its own address is preferred
		}
		for _, m := range w.mirrors {
			if !m.Alternate && strings.HasPrefix(m.URL, prefix) {
				return w.as(m)
			}
		}
	}
	return w
}

// as returns a resource with what a link says of the bytes at its address. Those of a mirror are
// judged by what the entry says (LNK-02), and by the link only if the entry says nothing.
func (w desired) as(m mirror) desired {
	w.first, w.alternate = m.URL, m.Alternate
	if m.Alternate || w.length < 0 {
		w.length = m.Length
	}
	if m.Alternate || len(w.digests.Algorithms()) == 0 {
		w.digests = resourcesync.ParseHashes(m.Hash)
	}
	if m.Alternate {
		w.mediaType, w.encoding = m.Type, m.Encoding
		if !m.Modified.IsZero() {
			w.lastMod = m.Modified
		}
	}
	return w
}

// places returns a resource once for each address that is tried, in their order: the preferred
// one, its own, the mirrors by pri, the alternates.
func (p *preference) places(w desired) []desired {
	own := w
	own.first = w.url
	all := []desired{own}
	if preferred := p.apply(w); preferred.first != "" {
		all = []desired{preferred, own}
	}
	for _, m := range w.mirrors {
		tried := slices.ContainsFunc(all, func(have desired) bool { return have.first == m.URL })
		if !tried && len(all) <= mirrorsMax {
			all = append(all, w.as(m))
		}
	}
	return all
}

// codings returns the content codings that a list names, in lower case; nil: none, or it is not
// such a list.
func codings(list string) []string {
	var all []string
	for _, c := range strings.FieldsFunc(strings.ToLower(list), func(r rune) bool { return r == ',' || r == ' ' }) {
		switch c = strings.TrimPrefix(c, "x-"); {
		case strings.Trim(c, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "":
			return nil
		case c != "identity":
			all = append(all, c)
		}
	}
	return all
}
