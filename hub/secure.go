package hub

import "net/http"

// headerRequestID names a request, in its answer and in its log line.
const headerRequestID = "X-Request-Id"

// policyNothing is the Content-Security-Policy of all that is no page: it loads
// and runs nothing, and stands in no frame.
const policyNothing = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// secure sets the headers that every answer has, so that no browser makes of it
// what it is not. There is no Strict-Transport-Security: that binds a whole host
// name, of which the hub may be one path.
func secure(header http.Header) {
	header.Set("Content-Security-Policy", policyNothing)
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Vary", "Accept")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
}

// Broken answers a request whose handler broke off, with 500. Nothing is told of
// why, and nothing may have been written before.
func (h *Handler) Broken(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	_ = h.refuse(w, r, refuse(internalError, "This hub made a mistake, and whether it did what was asked is not known. Send the request again; its operator finds the mistake by X-Request-Id."))
}
