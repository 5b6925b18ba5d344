package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"slices"
	"strings"
)

// open are the paths that need no token: probes and scrapers have none.
var open = []string{"/livez", "/readyz", "/metrics"}

// local are the host names that are answered where there is no token. A page
// from elsewhere that has its own name resolve to this machine still sends its
// own name.
var local = []string{"localhost", "127.0.0.1", "::1"}

// secure lets through to next what the operator may have sent: with the token
// where there is one, else by a name of this machine; and no write that a page of
// another origin makes the operator's browser send.
func secure(token func() string, next http.Handler) http.Handler {
	guarded := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case token == nil && !isLocal(r.Host):
			writeProblem(w, refuse(http.StatusMisdirectedRequest, "Without --admin-token-file this listener answers only to the host names localhost, 127.0.0.1 and [::1]. Use one of these, or start the hub with a token."))
		case token != nil && !slices.Contains(open, r.URL.Path) && !authorised(r, token()):
			w.Header().Set("WWW-Authenticate", `Bearer realm="rshub"`)
			writeProblem(w, refuse(http.StatusUnauthorized, "This needs the header \"Authorization: Bearer <token>\" with the token of --admin-token-file."))
		default:
			next.ServeHTTP(w, r)
		}
	})
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeProblem(w, refuse(http.StatusForbidden, "This change was sent by a page of another origin, and is refused."))
	}))
	inner := origin.Handler(guarded)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		harden(w.Header())
		inner.ServeHTTP(w, r)
	})
}

// harden sets the headers that every answer has, so that no browser makes of it
// what it is not, or keeps it.
func harden(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
}

// Broken answers a request whose handler broke off, with 500. Nothing is told of
// why, and nothing may have been written before.
func Broken(w http.ResponseWriter, _ *http.Request) {
	harden(w.Header())
	writeProblem(w, refuse(http.StatusInternalServerError, "The hub made a mistake, and whether it did what was asked is not known. Its log has it under the X-Request-Id of this answer."))
}

// isLocal reports whether a Host header names this machine, with or without a
// port.
func isLocal(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
	}
	return slices.Contains(local, strings.ToLower(host))
}

// authorised compares in a time that tells nothing of the token, its length
// included.
func authorised(r *http.Request, token string) bool {
	scheme, got, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	a, b := sha256.Sum256([]byte(strings.TrimSpace(got))), sha256.Sum256([]byte(token))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(a[:], b[:]) == 1
}
