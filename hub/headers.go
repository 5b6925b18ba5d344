package hub

import "net/http"

// headerRequestID names a request, in its answer and in its log line.
const headerRequestID = "X-Request-Id"

// policyNothing is the Content-Security-Policy of every answer that is not a page: it
// loads and runs nothing, and is in no frame.
const policyNothing = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// securityHeaders are in every answer, so that no browser interprets it as something else.
// Strict-Transport-Security is not among them: it binds a whole host name, and the hub may
// be one path of it.
var securityHeaders = map[string]string{
	"Content-Security-Policy":      policyNothing,
	"Cross-Origin-Resource-Policy": "same-origin",
	"Referrer-Policy":              "no-referrer",
	"Vary":                         "Accept",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
}

func setSecurityHeaders(header http.Header) {
	for name, value := range securityHeaders {
		header.Set(name, value)
	}
}

// Broken answers 500 to a request whose handler panicked. The answer does not say why.
// Nothing may have been written before.
func (h *Handler) Broken(w http.ResponseWriter, r *http.Request) {
	setSecurityHeaders(w.Header())
	_ = h.refuse(w, r, refuse(internalError, "This hub made a mistake, and whether it did what was asked is not known. Send the request again; its operator finds the mistake by X-Request-Id."))
}
