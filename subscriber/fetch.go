package subscriber

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/base/excerpt"
	"github.com/rshub/rshub/internal/base/web"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/internal/biglist"
)

// StatusError is an answer that was not 2xx.
type StatusError struct {
	URL    string
	Status int
	// RetryAfter is how long the answer asked to wait; zero: not at all.
	RetryAfter time.Duration
	// Text is how the answer's body begins, for a person.
	Text string
	// Problem is the name of the problem that the answer states (RFC 9457), such as
	// unknown-topic; empty: it states none.
	Problem string
}

func (e *StatusError) Error() string {
	s := fmt.Sprintf("%s answered %d %s", e.URL, e.Status, http.StatusText(e.Status))
	if e.Text != "" {
		s += ": " + e.Text
	}
	return s
}

// Away reports whether an error of DiscoverSource or Discover is transient: the host gave
// no answer, answered 408, 425, 429 or a 5xx, or its answer broke off or stalled. It returns false for what a person has to
// change: an answer such as 401 or 404, an address that may not be called, a certificate
// that is not accepted, a server that does not speak HTTP, a page that is no document of
// ResourceSync. Of several errors joined, one that is Away is enough. A name that does not
// resolve counts as Away: on many networks it resolves once its host has started.
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
	case *web.UnansweredError:
		return !isPermanent(e)
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), Away)
	case interface{ Unwrap() error }:
		return Away(e.Unwrap())
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, web.ErrSlow) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
}

// isPermanent reports whether an exchange without an answer would get none next time.
func isPermanent(err error) bool {
	var refused *egress.RefusedError
	var certificate *egress.CertificateError
	var record tls.RecordHeaderError
	var permanent interface{ Permanent() bool }
	return errors.As(err, &refused) || errors.As(err, &certificate) || errors.As(err, &record) || errors.Is(err, http.ErrSchemeMismatch) ||
		errors.As(err, &permanent) && permanent.Permanent() || strings.Contains(err.Error(), "malformed HTTP ")
}

// page is an answer of 2xx. The caller closes its Body.
type page struct{ web.Answer }

// get asks for a URL and follows redirects.
func get(ctx context.Context, client Doer, rawURL, accept string) (page, error) {
	answer, err := web.Ask(ctx, client, web.Request{Method: http.MethodGet, URL: rawURL, Header: http.Header{
		"Accept":        {accept},
		"Cache-Control": {"no-cache"}, // the copy of a cache may be old
	}})
	if err != nil {
		return page{}, fmt.Errorf("asking %w", err)
	}
	answer.Body = web.Explained(answer.Body, answer.ContentLength)
	return page{answer}, failure(answer)
}

// failure returns nil for an answer of 2xx. Otherwise it closes the answer.
func failure(a web.Answer) error {
	if a.StatusCode/100 == 2 {
		return nil
	}
	defer func() { _ = a.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(a.Body, maxPage))
	e := &StatusError{URL: a.URL, Status: a.StatusCode, RetryAfter: web.RetryAfter(a.Header, time.Now(), maxRetryAfter)}
	if media, _, _ := mime.ParseMediaType(a.Header.Get("Content-Type")); media == "application/problem+json" {
		var p struct{ Type, Detail string }
		if json.Unmarshal(text, &p) == nil && p.Detail != "" {
			e.Problem, text = p.Type[strings.LastIndexAny(p.Type, "/#:")+1:], []byte(p.Detail)
		}
	}
	e.Text = excerpt.Of(text, maxText)
	return e
}

// maxRetryAfter is the longest StatusError.RetryAfter. A program that obeys it tries again
// at least once a day, whatever a stranger writes.
const maxRetryAfter = 24 * time.Hour

// maxText is how much of a stranger's text is shown, in characters, and maxPage how much of
// it is read, in bytes: markup comes first, and is not shown.
const (
	maxText = 300
	maxPage = 8 << 10
)

// document reads a document of ResourceSync.
type document struct {
	*resourcesync.Reader
	url      string
	head     resourcesync.Head
	modified time.Time // Last-Modified of the answer, zero if it has none
	reached  time.Time // RSHub-Until of the answer of a hub, zero if it has none
	close    func() error
}

// end closes the answer. An error of the connection does not matter any more. It may be
// called again.
func (d *document) end() { _ = d.close() }

// open asks for a document of up to so many entries and reads its head; 0: the 50,000 of
// the protocol. The caller calls end.
func open(ctx context.Context, client Doer, rawURL string, most int) (*document, error) {
	p, err := get(ctx, client, rawURL, "application/xml, text/xml;q=0.9, */*;q=0.1")
	if err != nil {
		return nil, err
	}
	return p.document(most)
}

// document reads the head of a page that may be a document of ResourceSync of up to so
// many entries; 0: the 50,000 of the protocol. The document closes the page, or this
// function does after an error.
func (p page) document(most int) (*document, error) {
	body := bufio.NewReader(io.LimitReader(p.Body, biglist.Sent(most)))
	magic, _ := body.Peek(2)
	d := &document{url: p.URL, close: sync.OnceValue(p.Body.Close)}
	d.Reader = resourcesync.NewReader(body, resourcesync.ReadOptions{
		Limits: biglist.Limits(most), AnyLoc: true, Gzip: len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b,
	})
	d.modified, _ = http.ParseTime(p.Header.Get("Last-Modified"))
	d.reached, _ = resourcesync.ParseDatetime(p.Header.Get("RSHub-Until")) // zero after an error
	err := web.CheckCoding(p.Header)
	if err == nil {
		d.head, err = d.Head()
	}
	if err != nil {
		_ = p.Body.Close()
		return nil, fmt.Errorf("reading %s: %w", p.URL, biglist.Explain(err, most))
	}
	return d, nil
}
