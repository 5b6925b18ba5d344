package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/rshub/rshub/internal/base/browser"
	"github.com/rshub/rshub/internal/base/ingress"
	"github.com/rshub/rshub/internal/base/quiet"
)

// open are the paths that need no token: probes and scrapers have none.
var open = []string{"/livez", "/readyz", "/metrics"}

// Refusal is why a request was refused before its handler ran, as a word for metrics.
type Refusal string

// The refusals.
const (
	RefusedCrossSite Refusal = "cross_site" // a web page had the operator's browser send it
	RefusedHost      Refusal = "host"       // there is no token, and the Host is not this machine
	RefusedNoToken   Refusal = "no_token"   // the request has none
	RefusedToken     Refusal = "token"      // the token is wrong
	RefusedGuesses   Refusal = "guesses"    // too many wrong ones came from the address
	RefusedRole      Refusal = "role"       // the proxy that let the person in names no role
)

// Refusals are all of them.
func Refusals() []Refusal {
	return []Refusal{RefusedCrossSite, RefusedHost, RefusedNoToken, RefusedToken, RefusedGuesses, RefusedRole}
}

// At most saidBurst lines about refusals are written at once, and then one each saidEvery.
const (
	saidBurst = 20
	saidEvery = 10 * time.Second
)

// Role is what somebody may do at the operator's listener.
type Role string

// The roles.
const (
	Operator Role = "operator" // everything
	Reader   Role = "reader"   // look, and change nothing
)

// People says how a proxy in front of the listener names the person whom it logged in. Its
// headers count only from Proxies.
type People struct {
	Proxies []netip.Prefix
	// Header has the person's name (`--admin-auth-header`).
	Header string
	// RoleHeader has a Role (`--admin-auth-role-header`). Empty: all are Operator.
	RoleHeader string
}

// maxName bounds the name of a person, in bytes.
const maxName = 200

// person is who a request comes from.
type person struct {
	Role
	// name is that which the proxy gives, if named. Of others it says which token they have,
	// or that they need none.
	name   string
	named  bool
	linked bool // they have a link to a subscription
}

// proxies are those of p, which may be nil.
func (p *People) proxies() ingress.Proxies {
	if p == nil {
		return nil
	}
	return p.Proxies
}

// of returns the person of a request. An empty name: no proxy named one.
func (p *People) of(r *http.Request) (person, *problem) {
	if !p.proxies().Sent(r) {
		return person{}, nil
	}
	name := strings.TrimSpace(r.Header.Get(p.Header))
	if name == "" {
		return person{}, nil
	}
	for _, header := range []string{p.Header, p.RoleHeader} {
		if n := len(r.Header.Values(header)); n > 1 { // one of them may be the client's
			return person{}, refuse(http.StatusForbidden, "The header %s came %d times. The proxy has to replace what a client sends, and not to add to it.", header, n)
		}
	}
	who := person{Role: Operator, name: Readable([]byte(name[:min(len(name), maxName)])), named: true}
	if p.RoleHeader != "" {
		who.Role = Role(strings.ToLower(strings.TrimSpace(r.Header.Get(p.RoleHeader))))
	}
	if who.Role != Operator && who.Role != Reader {
		return person{}, refuse(http.StatusForbidden, "The proxy let you in, but its header %s does not say \"operator\" or \"reader\".", p.RoleHeader)
	}
	return who, nil
}

type personKey struct{}

func personOf(ctx context.Context) person {
	p, _ := ctx.Value(personKey{}).(person)
	return p
}

// PersonOf returns the name that a proxy gives for the person of a request; empty: it has a
// token, or needs none.
func PersonOf(ctx context.Context) string {
	if p := personOf(ctx); p.named {
		return p.name
	}
	return ""
}

// RoleOf returns the role of a request; empty: its path needs none.
func RoleOf(ctx context.Context) Role { return personOf(ctx).Role }

// secure passes requests to next if they have the token or, if there is none, use a host
// name of this machine. It refuses changes that a page of another origin makes the
// operator's browser send.
type secure struct {
	Options
	browsers *browser.Guard
	guesses  *guesses
	sessions *sessions
	quiet    *quiet.Limit
	next     http.Handler
}

func newSecure(o Options, next http.Handler) *secure {
	return &secure{
		Options: o, browsers: browser.NewGuard(slices.Concat(browser.Local, o.Hosts)...), guesses: newGuesses(), sessions: newSessions(), next: next,
		quiet: quiet.New(saidEvery, saidBurst),
	}
}

func (s *secure) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	who, why, problem := s.check(w, r)
	switch {
	case why != RefusedCrossSite && why != RefusedHost && why != RefusedRole && s.page(w, r, who.Role):
	case problem != nil:
		s.report(why, w, r)
		writeRefusal(w, r, problem)
	default:
		s.next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), personKey{}, who)))
	}
}

// check returns who sends a request, or why it is refused. A nil problem: it is not refused.
func (s *secure) check(w http.ResponseWriter, r *http.Request) (person, Refusal, *problem) {
	nobody := person{}
	switch err := s.browsers.Check(r); {
	case errors.Is(err, browser.ErrHost):
		return nobody, RefusedCrossSite, refuse(http.StatusForbidden, "A browser sent this change to a host name that is not known to be this server's. Use 127.0.0.1 or localhost, or the host name of --public-url, or start the hub with --allow-host and this one.")
	case err != nil:
		return nobody, RefusedCrossSite, refuse(http.StatusForbidden, "This change was sent by a page of another origin, and is refused.")
	case s.Token == nil && !browser.IsLocal(r.Host):
		return nobody, RefusedHost, refuse(http.StatusMisdirectedRequest, "Without --admin-token-file this listener answers only to the host names localhost, 127.0.0.1 and [::1]. Use one of these, or start the program with a token.")
	case s.Token == nil:
		return person{Role: Operator, name: "local"}, "", nil
	case slices.Contains(open, r.URL.Path), strings.HasPrefix(r.URL.Path, staticPath):
		return nobody, "", nil
	}
	switch who, problem := s.People.of(r); {
	case problem != nil:
		return nobody, RefusedRole, problem
	case who.name != "":
		return who, "", nil
	}
	if isPage(r) {
		if role := s.session(r); role != "" {
			return person{Role: role, name: tokenName(role)}, "", nil
		}
	}
	if token, ok := ingress.Bearer(r.Header.Get("Authorization")); ok && token != "" {
		role, why, p := s.authorise(r, token)
		if role == "" {
			w.Header().Set("WWW-Authenticate", `Bearer realm="rshub"`)
		}
		return person{Role: role, name: tokenName(role)}, why, p
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="rshub"`)
	return nobody, RefusedNoToken, needed()
}

// session returns the role of the session of a request; empty: it has none. The operator's
// counts before a reader's.
func (s *secure) session(r *http.Request) (role Role) {
	for _, token := range s.sessions.tokensOf(r, time.Now()) {
		if of := s.roleOf(token); role != Operator && of != "" {
			role = of
		}
	}
	return role
}

// tokenName is the name of somebody who has a token of this role.
func tokenName(role Role) string { return string(role) + "'s token" }

func isPage(r *http.Request) bool { return strings.HasPrefix(r.URL.Path+"/", PagePath) }

func needed() *problem {
	return refuse(http.StatusUnauthorized, "This needs the header \"Authorization: Bearer <token>\" with the token of --admin-token-file.")
}

// authorise returns the role of a token. An address that sends too many wrong ones has to
// wait.
func (s *secure) authorise(r *http.Request, token string) (Role, Refusal, *problem) {
	got := sha256.Sum256([]byte(token))
	role := s.roleOf(got)
	if wait := s.guesses.wait(time.Now(), s.network(r), got, role != ""); wait > 0 {
		p := refuse(http.StatusTooManyRequests, "Too many wrong tokens came from your address. For a moment the hub accepts no token from it, not even the right one. Try again later. Other addresses are not affected.")
		p.retryAfter = int((wait + time.Second - 1) / time.Second)
		return "", RefusedGuesses, p
	}
	if role == "" {
		return "", RefusedToken, needed()
	}
	return role, "", nil
}

// roleOf returns the role of the token with this hash; empty: it is no token of this
// listener. The time that it needs does not depend on the right tokens or their lengths.
func (s *secure) roleOf(got [sha256.Size]byte) (role Role) {
	for _, t := range []struct {
		now  func() string
		role Role
	}{{s.ReaderToken, Reader}, {s.Token, Operator}} {
		if t.now == nil {
			continue
		}
		if want := sha256.Sum256([]byte(t.now())); subtle.ConstantTimeCompare(got[:], want[:]) == 1 {
			role = t.role
		}
	}
	return role
}

// page answers requests of a browser without a session: it redirects to the login form, and
// begins and ends sessions. False: the request is none of these.
func (s *secure) page(w http.ResponseWriter, r *http.Request, role Role) bool {
	switch post := r.Method == http.MethodPost; {
	case !isPage(r) || s.Token == nil:
		return false
	case r.URL.Path == LoginPath && post:
		s.login(w, r)
	case r.URL.Path == LoginPath && role == "": // the form itself
		s.next.ServeHTTP(w, r)
	case r.URL.Path == logoutPath && post:
		s.sessions.end(r)
		s.setCookie(w, r, "")
		http.Redirect(w, r, LoginPath, http.StatusSeeOther)
	case role != "" || strings.HasPrefix(r.URL.Path, staticPath) || r.Header.Get("Authorization") != "":
		return false
	default:
		q := url.Values{"next": {r.URL.RequestURI()}}
		if post {
			q = url.Values{"next": {PagePath}, "refused": {"no_session"}}
		}
		http.Redirect(w, r, LoginPath+"?"+q.Encode(), http.StatusSeeOther)
	}
	return true
}

// login begins a session for a client that sends a token.
func (s *secure) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxLogin)
	token, next := strings.TrimSpace(r.PostFormValue("token")), nextOf(r.PostFormValue("next"))
	role, why, problem := Role(""), RefusedNoToken, needed()
	if token != "" {
		role, why, problem = s.authorise(r, token)
	}
	if problem != nil {
		s.report(why, w, r)
		again := url.Values{"next": {next}, "refused": {string(why)}}
		if problem.retryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(problem.retryAfter))
			again.Set("wait", strconv.Itoa(problem.retryAfter))
		}
		http.Redirect(w, r, LoginPath+"?"+again.Encode(), http.StatusSeeOther)
		return
	}
	s.sessions.end(r) // it may belong to another person
	s.setCookie(w, r, s.sessions.begin(role, sha256.Sum256([]byte(token)), time.Now()))
	http.Redirect(w, r, next, http.StatusSeeOther)
}

// report counts and logs a refusal, without what was sent.
func (s *secure) report(why Refusal, w http.ResponseWriter, r *http.Request) {
	if s.Refused != nil {
		s.Refused(why)
	}
	if why == RefusedNoToken {
		return // nobody tried a token
	}
	leftOut, ok := s.quiet.Line(time.Now(), "")
	if !ok {
		return
	}
	s.Log.Warn("the operator's listener refused a request", zap.String("event", "operator_refused"), zap.String("reason", string(why)),
		zap.String("requester", s.network(r)), zap.String("request_id", w.Header().Get("X-Request-Id")), zap.Int("left_out", leftOut))
}

// network returns the requester by its connection; behind a proxy of People, the client, so that
// one client does not shut out the others. The proxy in front of the hub does not count here.
func (s *secure) network(r *http.Request) string {
	return ingress.Network(s.People.proxies().Requester(r))
}

// protect sets the headers of every answer. No cache stores one.
func protect(h http.Header) {
	browser.Protect(h)
	h.Set("Cache-Control", "no-store")
}

// Broken answers 500 to a request whose handler panicked. The answer does not say why.
// Nothing may have been written before.
func Broken(w http.ResponseWriter, _ *http.Request) {
	protect(w.Header())
	writeProblem(w, refuse(http.StatusInternalServerError, "The program failed while it worked on this request. Whether the request had an effect is unknown. Look for the X-Request-Id of this answer in the log."))
}
