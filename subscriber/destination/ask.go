package destination

import (
	"context"
	"errors"
	"net/http"

	"github.com/rshub/rshub/internal/base/web"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber"
)

// ask sends a GET, and follows redirects to allowed hosts. The response is 200, 206 or
// 304. Its body occupies one of the slots of the host until it is closed.
func (w *hosts) ask(ctx context.Context, address string, header http.Header) (*http.Response, error) {
	answer, err := web.Ask(ctx, w, web.Request{Method: http.MethodGet, URL: address, Header: header})
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

// resolve returns the address of a reference in a document.
func resolve(base, ref string) (string, error) { return web.Resolve(base, resourcesync.EncodeURI(ref)) }
