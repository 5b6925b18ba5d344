package destination

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber"
)

// ask sends a GET, and follows redirects to hosts that may be called. The answer is
// 200, 206 or 304; its body holds one of the host's slots until it is closed.
func (w *web) ask(ctx context.Context, address string, header http.Header) (*http.Response, error) {
	for range maxRedirects + 1 {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return nil, &refusedError{err}
		}
		req.Header = header.Clone()
		h, err := w.host(req.URL)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", address, err)
		}
		if err := h.enter(ctx); err != nil {
			return nil, err
		}
		resp, err := w.Do(req)
		if err != nil {
			h.leave()
			return nil, fmt.Errorf("%s: %w", address, egress.WithoutURL(err))
		}
		switch resp.StatusCode {
		case http.StatusOK, http.StatusPartialContent, http.StatusNotModified:
			resp.Body = closing{resp.Body, h.leave}
			return resp, nil
		}
		next, err := judge(resp, address)
		_ = resp.Body.Close()
		h.leave()
		if err != nil {
			return nil, err
		}
		address = next
	}
	return nil, &refusedError{fmt.Errorf("%s: more than %d redirects", address, maxRedirects)}
}

// closing does something else, too, when it is closed, which happens once.
type closing struct {
	io.ReadCloser
	then func()
}

func (c closing) Close() error {
	defer c.then()
	return c.ReadCloser.Close()
}

// judge says where an answer other than 200, 206 or 304 leads, or what is wrong.
func judge(resp *http.Response, address string) (next string, err error) {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		location := resp.Header.Get("Location")
		if location == "" {
			break
		}
		next, err := resolve(address, location)
		if err != nil {
			return "", &refusedError{fmt.Errorf("%s redirects to %q: %w", address, location, err)}
		}
		return next, nil
	}
	return "", &subscriber.StatusError{URL: address, Status: resp.StatusCode, RetryAfter: retryAfter(resp)}
}

// resolve is the address that a reference in a document means.
func resolve(base, ref string) (string, error) {
	b, err := url.Parse(base)
	if err != nil {
		return "", err
	}
	u, err := b.Parse(resourcesync.EncodeURI(ref))
	switch {
	case err != nil:
		return "", err
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return "", errors.New("that is no http or https URL")
	case b.Scheme == "https" && u.Scheme == "http":
		return "", errors.New("that leads from https to http")
	}
	u.Fragment = ""
	return u.String(), nil
}

// ifChanged sets the conditions of a request; false: there are none.
func ifChanged(header http.Header, etag, modified string) bool {
	if etag != "" {
		header.Set("If-None-Match", etag)
	}
	if modified != "" {
		header.Set("If-Modified-Since", modified)
	}
	return etag != "" || modified != ""
}
