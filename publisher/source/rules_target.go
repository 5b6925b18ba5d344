package source

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/rshub/rshub/internal/base/nearest"
)

// target is where a link leads: text with placeholders. With a scheme it is a URL, which
// the link always has. Otherwise it is the path of another resource of the set, and the link
// exists as long as that resource does.
type target struct {
	isURL bool
	parts []targetPart
}

// targetPart is text or a placeholder. Less is what {path-SUFFIX} removes.
type targetPart struct{ text, name, less string }

// The placeholders, and those that the path of a resource may have.
var (
	placeholders     = []string{"path", "url", "url-encoded", "sha256", "md5", "lastmod"}
	pathPlaceholders = []string{"path", "sha256", "md5"}
)

// mostTarget is the longest target in bytes.
const mostTarget = 2000

func parseTarget(s string) (t target, err error) {
	if s == "" || len(s) > mostTarget {
		return t, fmt.Errorf("%q is not where a link can lead: write a URL, or the path of another resource", s)
	}
	t.isURL = strings.Contains(s, "://")
	names := pathPlaceholders
	if t.isURL {
		names = placeholders
	}
	for rest := s; rest != ""; {
		text, after, open := strings.Cut(rest, "{")
		if strings.Contains(text, "}") {
			return t, fmt.Errorf("%q has a } without a {", s)
		}
		if text != "" {
			t.parts = append(t.parts, targetPart{text: text})
		}
		if !open {
			break
		}
		name, next, closed := strings.Cut(after, "}")
		if !closed {
			return t, fmt.Errorf("%q has a { without a }", s)
		}
		part := targetPart{name: name}
		if less, ok := strings.CutPrefix(name, "path-"); ok {
			part = targetPart{name: "path", less: less}
		}
		switch {
		case !slices.Contains(names, part.name) && slices.Contains(placeholders, part.name):
			return t, fmt.Errorf("%q is the path of a resource, in which {%s} has no meaning; write a whole URL, or use {path}", s, name)
		case !slices.Contains(names, part.name) || name == "path-":
			return t, fmt.Errorf("%q: there is no placeholder {%s}%s", s, name, nearest.DidYouMean(name, names))
		}
		t.parts, rest = append(t.parts, part), next
	}
	return t, nil
}

// constant reports whether t has no placeholders.
func (t *target) constant() bool {
	return !slices.ContainsFunc(t.parts, func(p targetPart) bool { return p.name != "" })
}

// errNoURL is the error for a target that has placeholders and no resource to take them from.
var errNoURL = errors.New("placeholders are for rules of resources; write a URL or the path of a resource")

// expand returns where the link of a resource leads: a URL, or a path. Loc is its own URL.
// It returns false if the path of the resource does not end as {path-SUFFIX} wants it, or if a digest or
// time is not known.
func (t *target) expand(r *Resource, loc string) (to string, ok bool) {
	var b strings.Builder
	for _, p := range t.parts {
		switch p.name {
		case "":
			b.WriteString(p.text)
		case "path":
			path, ok := strings.CutSuffix(r.Path, p.less)
			if !ok {
				return "", false
			}
			if t.isURL {
				path = EscapePath(path)
			}
			b.WriteString(path)
		case "url":
			b.WriteString(loc)
		case "url-encoded":
			b.WriteString(url.QueryEscape(loc))
		case "sha256":
			if r.SHA256 == ([32]byte{}) {
				return "", false
			}
			b.WriteString(hex.EncodeToString(r.SHA256[:]))
		case "md5":
			if r.MD5 == ([16]byte{}) {
				return "", false
			}
			b.WriteString(hex.EncodeToString(r.MD5[:]))
		case "lastmod":
			if r.ModTime.IsZero() {
				return "", false
			}
			b.WriteString(r.ModTime.UTC().Format("20060102150405")) // as RFC 7089 and web archives have it
		}
	}
	return b.String(), true
}

// origin is the inverse of expand for the path of a resource: it returns the path that
// leads to another one. It returns false if there is none, or if more than the path decides.
func (t *target) origin(to string) (from string, ok bool) {
	if t.isURL {
		return "", false
	}
	before, after, less, seen := "", "", "", false
	for _, p := range t.parts {
		switch {
		case p.name == "path" && !seen:
			seen, less = true, p.less
		case p.name != "":
			return "", false
		case seen:
			after += p.text
		default:
			before += p.text
		}
	}
	if from, ok = strings.CutPrefix(to, before); !ok || !seen {
		return "", false
	}
	from, ok = strings.CutSuffix(from, after)
	return from + less, ok && from != ""
}
