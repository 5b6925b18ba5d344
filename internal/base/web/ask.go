package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/rshub/rshub/internal/base/egress"
)

// MaxRedirects is how many redirects Ask follows for one request.
const MaxRedirects = 5

// Doer sends one HTTP request and follows no redirect, like egress.Client.
type Doer interface {
	Do(req *http.Request) (*http.Response, error)
}

// WithoutRedirects returns d as a Doer that follows no redirect. An *http.Client would follow them, to URLs that
// nobody has checked, and with the credentials for another host. Nil stays nil.
func WithoutRedirects(d Doer) Doer {
	c, ok := d.(*http.Client)
	if !ok {
		return d
	}
	own := *c
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own
}

// DoerFunc is a function as a Doer.
type DoerFunc func(*http.Request) (*http.Response, error)

// Do calls f.
func (f DoerFunc) Do(req *http.Request) (*http.Response, error) { return f(req) }

// Request is what a server is asked. Method and URL are required.
type Request struct {
	Method string
	URL    string
	Header http.Header // is not changed
	Body   string
	// Allow returns an error for a URL that a redirect must not lead to. Nil: every
	// URL that Resolve allows.
	Allow func(next string) error
}

// Answer is the response to a Request.
type Answer struct {
	*http.Response
	URL string // where it came from, after redirects
}

// UnansweredError says that a server gave no response.
type UnansweredError struct {
	URL string
	Err error // of the client, without the URL
}

func (e *UnansweredError) Error() string { return e.URL + ": " + e.Err.Error() }

// Unwrap returns the error of the client.
func (e *UnansweredError) Unwrap() error { return e.Err }

// RedirectError says that a redirect was not followed.
type RedirectError struct {
	From string // the URL that redirects
	To   string // its Location, without a user and a password; empty: there were more than MaxRedirects
	Err  error
}

func (e *RedirectError) Error() string {
	if e.To == "" {
		return fmt.Sprintf("%s: %v", e.From, e.Err)
	}
	return fmt.Sprintf("%s redirects to %q: %v", e.From, e.To, e.Err)
}

// Unwrap returns what is wrong with the redirect.
func (e *RedirectError) Unwrap() error { return e.Err }

// Ask sends a request and follows up to MaxRedirects redirects (RFC 9110, 15.4): 301,
// 302, 303, 307 and 308 for GET and HEAD, and 307 and 308 alone for other methods,
// which stay the same and send the body again. A redirect never leads from https to
// http. Headers with credentials do not follow to another scheme, host or port.
//
// The answer may have any status, and that of a redirect if it has no Location. The
// caller closes its body. The error is an *UnansweredError, a *RedirectError, or says
// that the URL cannot be asked.
func Ask(ctx context.Context, client Doer, r Request) (Answer, error) {
	at, header := r.URL, r.Header.Clone()
	for range MaxRedirects + 1 {
		req, err := http.NewRequestWithContext(ctx, r.Method, at, strings.NewReader(r.Body))
		if err != nil {
			return Answer{}, fmt.Errorf("%s: %w", at, egress.WithoutURL(err))
		}
		if header != nil {
			req.Header = header.Clone()
		}
		resp, err := client.Do(req)
		if err != nil {
			return Answer{}, &UnansweredError{at, egress.Unanswered(err)}
		}
		location := resp.Header.Get("Location")
		if location == "" || !follows(r.Method, resp.StatusCode) {
			return Answer{resp, at}, nil
		}
		_ = resp.Body.Close()
		next, err := Resolve(at, location)
		if err == nil && r.Allow != nil {
			err = r.Allow(next)
		}
		if err != nil {
			if to, bad := url.Parse(location); bad == nil && to.User != nil {
				to.User = nil
				location = to.String()
			}
			return Answer{}, &RedirectError{at, location, err}
		}
		if !sameOrigin(at, next) {
			for _, name := range []string{"Authorization", "Cookie", "Proxy-Authorization"} {
				header.Del(name)
			}
		}
		at = next
	}
	return Answer{}, &RedirectError{From: at, Err: fmt.Errorf("more than %d redirects", MaxRedirects)}
}

// follows reports whether a status redirects a request of a method.
func follows(method string, status int) bool {
	switch status {
	case http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther:
		return method == http.MethodGet || method == http.MethodHead
	}
	return false
}

// sameOrigin compares scheme, host and port.
func sameOrigin(a, b string) bool {
	x, err := url.Parse(a)
	y, other := url.Parse(b)
	return err == nil && other == nil && x.Scheme == y.Scheme && egress.HostPort(x) == egress.HostPort(y)
}

// Resolve returns the absolute form of a reference that is followed from base, as
// Absolute does. It must not lead from https to http.
func Resolve(base, ref string) (string, error) {
	to, err := Absolute(base, ref)
	if err == nil && isHTTPS(base) && !isHTTPS(to) {
		return "", errors.New("that leads from https to http")
	}
	return to, err
}

// Confidential reports whether what is sent to a URL is hidden from the network: it is https,
// or on this machine.
func Confidential(rawURL string) bool {
	u, err := url.Parse(rawURL)
	return err == nil && (u.Scheme == "https" || u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback())
}

func isHTTPS(rawURL string) bool {
	scheme, _, _ := strings.Cut(rawURL, ":")
	return strings.EqualFold(scheme, "https")
}

// Absolute returns the absolute form of a reference in what came from base, without
// its fragment. A reference that is absolute stays as it is written, except for the
// case of its scheme, since topics are compared byte by byte. Only what could not be
// asked for is percent-encoded. A user and a password are left out: what names them is not
// to have them sent. The error says that it is no http or https URL.
func Absolute(base, ref string) (string, error) {
	b, err := url.Parse(base)
	if err != nil {
		return "", egress.WithoutURL(err)
	}
	ref, _, _ = strings.Cut(strings.TrimSpace(ref), "#")
	given, err := url.Parse(ref)
	if err != nil || strings.Contains(given.RawQuery, " ") {
		ref = encode(ref)
		given, err = url.Parse(ref)
	}
	if err != nil {
		return "", egress.WithoutURL(err)
	}
	u := b.ResolveReference(given)
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", errors.New("that is no http or https URL")
	}
	if u.User == nil && given.IsAbs() {
		return given.Scheme + ref[len(given.Scheme):], nil
	}
	u.User = nil
	return u.String(), nil
}

// encode percent-encodes what no URL may have: white space, controls, bytes beyond
// ASCII, and percent signs that encode nothing.
func encode(s string) string {
	isHex := func(i int) bool { return i < len(s) && strings.IndexByte("0123456789abcdefABCDEF", s[i]) >= 0 }
	var out strings.Builder
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || c == '%' && !(isHex(i+1) && isHex(i+2)) {
			fmt.Fprintf(&out, "%%%02X", c)
		} else {
			out.WriteByte(c)
		}
	}
	return out.String()
}
