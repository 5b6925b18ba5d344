package destination

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/rshub/rshub/internal/base/web"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber"
)

// ask sends a GET, and follows redirects to hosts that may be called. The answer is
// 200, 206 or 304; its body holds one of the host's slots until it is closed.
func (w *hosts) ask(ctx context.Context, address string, header http.Header) (*http.Response, error) {
	answer, err := web.Ask(ctx, web.DoerFunc(w.inSlot), web.Request{Method: http.MethodGet, URL: address, Header: header})
	var none *web.UnansweredError
	switch {
	case errors.As(err, &none):
		return nil, err
	case err != nil:
		return nil, &refusedError{err}
	}
	switch answer.StatusCode {
	case http.StatusOK, http.StatusPartialContent, http.StatusNotModified:
		return answer.Response, nil
	}
	_ = answer.Body.Close()
	return nil, &subscriber.StatusError{URL: answer.URL, Status: answer.StatusCode, RetryAfter: retryAfter(answer.Header)}
}

// inSlot sends a request when its host has a slot for it, which it has until the body of
// the answer is closed.
func (w *hosts) inSlot(req *http.Request) (*http.Response, error) {
	h, err := w.host(req.URL)
	if err != nil {
		return nil, err
	}
	if err := h.enter(req.Context()); err != nil {
		return nil, err
	}
	resp, err := w.Do(req)
	if err != nil {
		h.leave()
		return nil, err
	}
	resp.Body = closing{resp.Body, h.leave}
	return resp, nil
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

// resolve is the address that a reference in a document means.
func resolve(base, ref string) (string, error) { return web.Resolve(base, resourcesync.EncodeURI(ref)) }

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
