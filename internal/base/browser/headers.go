package browser

import "net/http"

// PolicyNothing is the Content-Security-Policy of an answer that is not a page: it loads and
// runs nothing, and is in no frame.
const PolicyNothing = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Protect sets headers so that no browser interprets an answer as something else, or shows
// it within another page. A page sets a Content-Security-Policy of its own afterwards.
// Strict-Transport-Security is not among them: it binds a whole host name, and a listener
// may be one path of it.
func Protect(h http.Header) {
	h.Set("Content-Security-Policy", PolicyNothing)
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
}
