package hub

import "net/http"

// headerRequestID names a request, in its answer and in its log line.
const headerRequestID = "X-Request-Id"

// policyNothing is the Content-Security-Policy of every answer that is not a page: it
// loads and runs nothing, and is in no frame.
const policyNothing = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// setSecurityHeaders sets the headers of every answer, so that no browser takes it for
// something else. It does not set Strict-Transport-Security, which binds a whole host
// name, because the hub may be one path of it.
func setSecurityHeaders(header http.Header) {
	header.Set("Content-Security-Policy", policyNothing)
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Vary", "Accept")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
}

// Broken answers 500 to a request whose handler panicked. The answer does not say why.
// Nothing may have been written before.
func (h *Handler) Broken(w http.ResponseWriter, r *http.Request) {
	setSecurityHeaders(w.Header())
	_ = h.refuse(w, r, refuse(internalError, "This hub made a mistake, and whether it did what was asked is not known. Send the request again; its operator finds the mistake by X-Request-Id."))
}
