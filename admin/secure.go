package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/rshub/rshub/internal/base/browser"
	"github.com/rshub/rshub/internal/base/quiet"
)

// open are the paths that need no token: probes and scrapers have none.
var open = []string{"/livez", "/readyz", "/metrics"}

// local are the host names that are answered where there is no token. A page
// from elsewhere that has its own name resolve to this machine still sends its
// own name.
var local = []string{"localhost", "127.0.0.1", "::1"}

// Refusal is why a request was refused before anything was looked at, in a word for
// counting.
type Refusal string

// The refusals.
const (
	RefusedCrossSite Refusal = "cross_site" // a web page had the operator's browser send it
	RefusedHost      Refusal = "host"       // there is no token, and the Host is not this machine
	RefusedNoToken   Refusal = "no_token"   // the request has none
	RefusedToken     Refusal = "token"      // the token is wrong
	RefusedGuesses   Refusal = "guesses"    // too many wrong ones came from the address
)

// Refusals are all of them.
func Refusals() []Refusal {
	return []Refusal{RefusedCrossSite, RefusedHost, RefusedNoToken, RefusedToken, RefusedGuesses}
}

// Of refusals so many lines are written at once, and then one each saidEvery.
const (
	saidBurst = 20
	saidEvery = 10 * time.Second
)

// secure lets through to next what the operator may have sent: with the token
// where there is one, else by a name of this machine; and no write that a page of
// another origin makes the operator's browser send.
type secure struct {
	Options
	browsers *browser.Guard
	guesses  *guesses
	quiet    *quiet.Limit
	next     http.Handler
}

func newSecure(o Options, next http.Handler) *secure {
	return &secure{
		Options: o, browsers: browser.NewGuard(slices.Concat(local, o.Hosts)...), guesses: newGuesses(), next: next,
		quiet: quiet.New(saidEvery, saidBurst),
	}
}

func (s *secure) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	harden(w.Header())
	if why, problem := s.check(w, r); problem != nil {
		s.report(why, w, r)
		writeProblem(w, problem)
		return
	}
	s.next.ServeHTTP(w, r)
}

// judge returns why a request is refused; a nil problem: it is not.
func (s *secure) check(w http.ResponseWriter, r *http.Request) (Refusal, *problem) {
	switch err := s.browsers.Check(r); {
	case errors.Is(err, browser.ErrHost):
		return RefusedCrossSite, refuse(http.StatusForbidden, "A browser sent this change to a host name that is not known to be this hub's. Use 127.0.0.1 or localhost, or the host name of --public-url, or start the hub with --allow-host and this one.")
	case err != nil:
		return RefusedCrossSite, refuse(http.StatusForbidden, "This change was sent by a page of another origin, and is refused.")
	case s.Token == nil && !isLocal(r.Host):
		return RefusedHost, refuse(http.StatusMisdirectedRequest, "Without --admin-token-file this listener answers only to the host names localhost, 127.0.0.1 and [::1]. Use one of these, or start the hub with a token.")
	case s.Token == nil || slices.Contains(open, r.URL.Path):
		return "", nil
	}
	return s.authorise(w.Header(), r)
}

// authorise compares the token, in a time that tells nothing of the right one, its length
// included.
func (s *secure) authorise(header http.Header, r *http.Request) (Refusal, *problem) {
	needed := refuse(http.StatusUnauthorized, "This needs the header \"Authorization: Bearer <token>\" with the token of --admin-token-file.")
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		header.Set("WWW-Authenticate", `Bearer realm="rshub"`)
		return RefusedNoToken, needed
	}
	got, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(s.Token()))
	right := subtle.ConstantTimeCompare(got[:], want[:]) == 1
	if wait := s.guesses.wait(time.Now(), network(r), got, right); wait > 0 {
		p := refuse(http.StatusTooManyRequests, "Too many wrong tokens came from your address, so that no token of it counts for a moment. Try again later. Other addresses are not held up.")
		p.retryAfter = int((wait + time.Second - 1) / time.Second)
		return RefusedGuesses, p
	}
	if !right {
		header.Set("WWW-Authenticate", `Bearer realm="rshub"`)
		return RefusedToken, needed
	}
	return "", nil
}

// tell counts and logs a refusal, without what was sent.
func (s *secure) report(why Refusal, w http.ResponseWriter, r *http.Request) {
	if s.Refused != nil {
		s.Refused(why)
	}
	if why == RefusedNoToken {
		return // nobody tried anything
	}
	leftOut, ok := s.quiet.Line(time.Now(), "")
	if !ok {
		return
	}
	s.Log.Warn("the operator's listener refused a request", zap.String("event", "operator_refused"), zap.String("reason", string(why)),
		zap.String("requester", network(r)), zap.String("request_id", w.Header().Get("X-Request-Id")), zap.Int("left_out", leftOut))
}

// network is what counts as one requester: the IPv4 address or the IPv6 /64 of the
// connection. What a proxy says of others is not asked: the operator's listener does not
// belong behind the one in front of the hub.
func network(r *http.Request) string {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return "unknown"
	}
	addr := at.Addr().Unmap().WithZone("")
	if addr.Is4() {
		return addr.String()
	}
	p, _ := addr.Prefix(64) // it has as many bits
	return p.String()
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
