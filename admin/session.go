package admin

import (
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// sessionCookie holds the id of a session of the operator's page.
	sessionCookie = "rshub_session"
	// sessionLife is how long a session lasts at most, and sessionIdle how long without
	// a request.
	sessionLife = 12 * time.Hour
	sessionIdle = time.Hour
	// maxSessions is how many sessions of one role a hub remembers, so that a reader cannot
	// end those of the operator.
	maxSessions = 1000
	// maxLogin bounds the form of a login, in bytes.
	maxLogin = 4 << 10
)

// The paths of the operator's page. What is below static needs no session.
const (
	PagePath   = "/ui/"
	LoginPath  = PagePath + "login"
	logoutPath = PagePath + "logout"
	staticPath = PagePath + "static/"
)

// sessions has the sessions of browsers that sent a token by the login form, of each role by
// the hash of their id. They are only in memory, and end with the hub or with the token. It
// may be shared between goroutines.
type sessions struct {
	mu sync.Mutex
	of map[Role]*simplelru.LRU[[sha256.Size]byte, *session]
}

// session is one browser.
type session struct {
	token       [sha256.Size]byte // the hash of the token with which it began
	begun, used time.Time
}

func newSessions() *sessions {
	s := &sessions{of: map[Role]*simplelru.LRU[[sha256.Size]byte, *session]{}}
	for _, role := range []Role{Operator, Reader} {
		s.of[role], _ = simplelru.NewLRU[[sha256.Size]byte, *session](maxSessions, nil) // fails for a size below 1 only
	}
	return s
}

// begin starts a session and returns its id, which is always new.
func (s *sessions) begin(role Role, token [sha256.Size]byte, now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := rand.Text()
	s.of[role].Add(sha256.Sum256([]byte(id)), &session{token: token, begun: now, used: now})
	return id
}

// tokensOf returns the hashes of the tokens with which the sessions of a request began, without
// sessions that have ended. A browser sends one session, except where another site on the host
// has set a cookie of this name, too: cookies know no ports.
func (s *sessions) tokensOf(r *http.Request, now time.Time) (tokens [][sha256.Size]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cookie := range r.CookiesNamed(sessionCookie) {
		id := sha256.Sum256([]byte(cookie.Value))
		for _, byID := range s.of {
			found, ok := byID.Get(id)
			switch {
			case !ok:
			case now.Sub(found.begun) > sessionLife || now.Sub(found.used) > sessionIdle:
				byID.Remove(id)
			default:
				found.used = now
				tokens = append(tokens, found.token)
			}
		}
	}
	return tokens
}

// end forgets the sessions of a request.
func (s *sessions) end(r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cookie := range r.CookiesNamed(sessionCookie) {
		for _, byID := range s.of {
			byID.Remove(sha256.Sum256([]byte(cookie.Value)))
		}
	}
}

// setCookie sends a browser the id of its session. An empty id deletes the cookie.
func (s *secure) setCookie(w http.ResponseWriter, r *http.Request, id string) {
	c := &http.Cookie{Name: sessionCookie, Value: id, Path: PagePath, HttpOnly: true, Secure: s.People.proxies().HTTPS(r), SameSite: http.SameSiteStrictMode} //nolint:gosec // Secure wherever the browser speaks https
	if id == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

// nextOf returns the page after a login. It is always one of this listener.
func nextOf(next string) string {
	if !strings.HasPrefix(next, PagePath) || strings.HasPrefix(next, LoginPath) || strings.ContainsAny(next, "\\\r\n") {
		return PagePath
	}
	return next
}
