package hub

import (
	"net/http"

	"github.com/rshub/rshub/internal/base/browser"
)

// headerRequestID names a request, in its answer and in its log line.
const headerRequestID = "X-Request-Id"

// protect sets the headers of every answer.
func protect(header http.Header) {
	browser.Protect(header)
	header.Set("Vary", "Accept")
}

// Broken answers 500 to a request whose handler panicked. The answer does not say why.
// Nothing may have been written before.
func (h *Handler) Broken(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	_ = h.refuse(w, r, refuse(internalError, "This hub made a mistake, and whether it did what was asked is not known. Send the request again; its operator finds the mistake by X-Request-Id."))
}
