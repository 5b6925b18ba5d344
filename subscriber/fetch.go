package subscriber

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/internal/biglist"
)

// StatusError is an answer that was not 2xx.
type StatusError struct {
	URL    string
	Status int
	// RetryAfter is what the answer asked for; zero: nothing.
	RetryAfter time.Duration
	// Text is how the answer's body begins, for a person.
	Text string
}

func (e *StatusError) Error() string {
	s := fmt.Sprintf("%s answered %d %s", e.URL, e.Status, http.StatusText(e.Status))
	if e.Text != "" {
		s += ": " + e.Text
	}
	return s
}

// unansweredError is that of an exchange that had no answer.
type unansweredError struct{ error }

func (e *unansweredError) Unwrap() error { return e.error }

// Away reports whether an error of DiscoverSource or Discover says that a host is away
// or not ready, which may pass by itself: there was no answer, or it was 408, 425, 429
// or a 5xx. What a person has to change is none of it: an answer such as 401 or 404, an
// address that may not be called, a certificate that is not accepted, a server that
// speaks no HTTP, a page that is no document of ResourceSync. Of several errors joined,
// one that is Away is enough. A name that does not resolve counts as Away, since on many
// networks it begins to do so when its host has started.
func Away(err error) bool {
	switch e := err.(type) { //nolint:errorlint // it goes through the tree itself
	case nil:
		return false
	case *StatusError:
		switch e.Status {
		case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
			return true
		}
		return e.Status >= http.StatusInternalServerError && e.Status != http.StatusNotImplemented
	case *unansweredError:
		return !isForGood(e)
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), Away)
	case interface{ Unwrap() error }:
		return Away(e.Unwrap())
	}
	return errors.Is(err, context.DeadlineExceeded)
}

// isForGood reports whether an exchange without an answer is not going to have one.
func isForGood(err error) bool {
	var refused *egress.RefusedError
	var certificate *egress.CertificateError
	var record tls.RecordHeaderError
	var permanent interface{ Permanent() bool }
	return errors.As(err, &refused) || errors.As(err, &certificate) || errors.As(err, &record) || errors.Is(err, http.ErrSchemeMismatch) ||
		errors.As(err, &permanent) && permanent.Permanent() || strings.Contains(err.Error(), "malformed HTTP ")
}

// page is an answer of 2xx. Its Body is to be closed.
type page struct {
	*http.Response
	url string // after redirects
}

// get asks for a URL and follows redirects, but none from https to http.
func get(ctx context.Context, client Doer, rawURL, accept string) (page, error) {
	for range maxRedirects + 1 {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, rawURL, nil)
		if err != nil {
			return page{}, fmt.Errorf("asking %s: %w", rawURL, err)
		}
		req.Header.Set("Accept", accept)
		req.Header.Set("Cache-Control", "no-cache") // a cache's copy may lack what is looked for
		resp, err := client.Do(req)                 //nolint:bodyclose // the caller's, or closed by redirected
		if err != nil {
			return page{}, fmt.Errorf("asking %s: %w", rawURL, &unansweredError{egress.WithoutURL(err)})
		}
		if resp.StatusCode/100 == 2 {
			return page{resp, rawURL}, nil
		}
		next, err := redirected(resp, rawURL)
		if err != nil {
			return page{}, err
		}
		rawURL = next
	}
	return page{}, fmt.Errorf("asking %s: more than %d redirects", rawURL, maxRedirects)
}

// redirected returns where an answer other than 2xx leads, and closes it.
func redirected(resp *http.Response, from string) (string, error) {
	defer func() { _ = resp.Body.Close() }()
	location := resp.Header.Get("Location")
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		if location != "" {
			break
		}
		fallthrough
	default:
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxPage))
		return "", &StatusError{URL: from, Status: resp.StatusCode, RetryAfter: retryAfter(resp), Text: egress.Excerpt(text, maxText)}
	}
	next, err := resolve(from, location)
	if err != nil {
		return "", fmt.Errorf("%s redirects to %q: %w", from, location, err)
	}
	return next, nil
}

// resolve returns the absolute form of a reference that is followed from base,
// which must not lead from https to http.
func resolve(base, ref string) (string, error) {
	to, err := absolute(base, ref)
	if err == nil && strings.HasPrefix(base, "https:") && strings.HasPrefix(to, "http:") {
		return "", errors.New("that leads from https to http")
	}
	return to, err
}

// absolute returns the absolute form of a reference in what came from base. One that
// is absolute stays as it is written, since topics are compared byte by byte; only what
// nothing could be asked for at is percent-encoded.
func absolute(base, ref string) (string, error) {
	b, err := url.Parse(base)
	if err != nil {
		return "", err
	}
	ref, _, _ = strings.Cut(strings.TrimSpace(ref), "#")
	given, err := url.Parse(ref)
	if err != nil || strings.Contains(given.RawQuery, " ") {
		ref = resourcesync.EncodeURI(ref)
		given, err = url.Parse(ref)
	}
	if err != nil {
		return "", err
	}
	u := b.ResolveReference(given)
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", errors.New("that is no http or https URL")
	}
	if given.IsAbs() {
		return given.Scheme + ref[len(given.Scheme):], nil
	}
	return u.String(), nil
}

func retryAfter(resp *http.Response) time.Duration {
	v := resp.Header.Get("Retry-After")
	if n, err := strconv.Atoi(v); err == nil && n >= 0 {
		return time.Duration(min(n, 24*3600)) * time.Second
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(0, time.Until(t))
	}
	return 0
}

// maxText is how much is shown of what a stranger says, in characters, and maxPage how
// much is read of it, in bytes: a page begins with what is not shown.
const (
	maxText = 300
	maxPage = 8 << 10
)

// document reads a document of ResourceSync.
type document struct {
	*resourcesync.Reader
	url      string
	head     resourcesync.Head
	modified time.Time // Last-Modified of the answer, zero where it has none
	close    func() error
}

// end closes the answer. What it says of the connection is of no interest any more.
func (d *document) end() { _ = d.close() }

// open asks for a document and reads its head. It is to be closed.
func open(ctx context.Context, client Doer, rawURL string) (*document, error) {
	return openLimited(ctx, client, rawURL, 0)
}

// openLimited is open for a list of up to so many entries.
func openLimited(ctx context.Context, client Doer, rawURL string, most int) (*document, error) {
	p, err := get(ctx, client, rawURL, "application/xml, text/xml;q=0.9, */*;q=0.1")
	if err != nil {
		return nil, err
	}
	return p.limited(most)
}

// document reads the head of a page that may be a document of ResourceSync. The
// page is closed with the document, or else here.
func (p page) document() (*document, error) { return p.limited(0) }

func (p page) limited(most int) (*document, error) {
	body := bufio.NewReader(io.LimitReader(p.Body, biglist.Sent(most)))
	magic, _ := body.Peek(2)
	d := &document{url: p.url, close: p.Body.Close}
	d.Reader = resourcesync.NewReader(body, resourcesync.ReadOptions{
		Limits: biglist.Limits(most), AnyLoc: true, Gzip: len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b,
	})
	if t, err := http.ParseTime(p.Header.Get("Last-Modified")); err == nil {
		d.modified = t
	}
	var err error
	if d.head, err = d.Head(); err != nil {
		_ = p.Body.Close()
		return nil, fmt.Errorf("reading %s: %w", p.url, biglist.Explain(err, most))
	}
	return d, nil
}
