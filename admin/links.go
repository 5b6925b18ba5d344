package admin

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"github.com/rshub/rshub/internal/base/browser"
	"github.com/rshub/rshub/journal"
)

// LinkLife is how long a link to the page of a subscription is good.
const LinkLife = 7 * 24 * time.Hour

// The names of what links need on the shelf: the key that signs all of them, forever; the series
// of each subscription that has links; and the turns that are taken.
const (
	shelfLinkKey = "link-key"
	beginsSeries = "link/"
	beginsTurn   = "turn/"
)

// A token is the subscription's id, the time of expiry in seconds since 1970, the series, and
// the signature of all that.
const (
	seriesSize = 16
	signedSize = 16 + 8 + seriesSize
	tokenSize  = signedSize + sha256.Size
)

// linkPurpose is signed before each token, so that the key can never sign anything else.
const linkPurpose = "rshub link to a subscription\n"

// turnEvery is how often the holder of a link may do something with the subscription.
var turnEvery = map[string]time.Duration{"retry": time.Minute, "replay": 10 * time.Minute}

// ErrNoLink says that a token opens nothing: it is forged, has expired or was revoked.
var ErrNoLink = errors.New("the link to the subscription is forged, expired or revoked")

// Links makes links to the page of one subscription, and checks them. All hubs on a store have
// the same links. It may be shared between goroutines.
type Links struct {
	Shelf journal.Shelf
	URL   string           // of the pages; the token is appended
	Now   func() time.Time // nil: time.Now
}

// Link is what POST .../link answers.
type Link struct {
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expires_at"`
}

func (l *Links) now() time.Time {
	if l.Now != nil {
		return l.Now()
	}
	return time.Now()
}

// Make returns a link to a subscription.
func (l *Links) Make(ctx context.Context, id uuid.UUID) (Link, error) {
	key, err := l.Shelf.Keep(ctx, shelfLinkKey, random(sha256.Size), 0)
	if err != nil {
		return Link{}, err
	}
	// It is kept a little longer, because the store may have another clock.
	series, err := l.Shelf.Keep(ctx, beginsSeries+id.String(), random(seriesSize), LinkLife+time.Hour)
	if err != nil {
		return Link{}, err
	}
	expires := l.now().Add(LinkLife).UTC().Truncate(time.Second)
	token := binary.BigEndian.AppendUint64(id[:], uint64(expires.Unix())) //nolint:gosec // after 1970
	token = append(token, series...)
	return Link{URL: l.URL + base64.RawURLEncoding.EncodeToString(append(token, signature(key, token)...)), ExpiresAt: expires}, nil
}

// Revoke ends all links to a subscription.
func (l *Links) Revoke(ctx context.Context, id uuid.UUID) error {
	return l.Shelf.Drop(ctx, beginsSeries+id.String())
}

// Open returns the subscription that a token is for, and when it expires. ErrNoLink: it is for
// none. Any other error is the store's.
func (l *Links) Open(ctx context.Context, token string) (id uuid.UUID, expires time.Time, err error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) != tokenSize {
		return id, expires, ErrNoLink
	}
	key, err := l.Shelf.Kept(ctx, shelfLinkKey)
	if err != nil {
		return id, expires, err
	}
	signed := raw[:signedSize]
	if len(key) != sha256.Size || !hmac.Equal(raw[signedSize:], signature(key, signed)) {
		return id, expires, ErrNoLink
	}
	id = uuid.UUID(signed[:16])
	expires = time.Unix(int64(binary.BigEndian.Uint64(signed[16:24])), 0).UTC() //nolint:gosec // signed above
	series, err := l.Shelf.Kept(ctx, beginsSeries+id.String())
	if err == nil && (!hmac.Equal(series, signed[24:]) || !l.now().Before(expires)) {
		err = ErrNoLink
	}
	return id, expires, err
}

// Take takes a turn to do something with a subscription: "retry" or "replay". All links and
// hubs share the turns. If somebody else has the present turn, wait is the time until the next one;
// otherwise wait is zero.
func (l *Links) Take(ctx context.Context, id uuid.UUID, action string) (wait time.Duration, err error) {
	every, now := turnEvery[action], l.now()
	begin := now.Truncate(every)
	name := fmt.Sprintf("%s%s/%s/%d", beginsTurn, action, id, begin.Unix())
	taken, err := l.Shelf.Kept(ctx, name) // look first: a request that has to wait writes nothing
	if mine := random(seriesSize); err == nil && taken == nil {
		if taken, err = l.Shelf.Keep(ctx, name, mine, every); bytes.Equal(taken, mine) {
			return 0, err
		}
	}
	return begin.Add(every).Sub(now), err
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return b
}

func signature(key, signed []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(linkPurpose))
	mac.Write(signed)
	return mac.Sum(nil)
}

func (a *subscriptionCalls) makeLink(r *http.Request, _ Control, id uuid.UUID) (any, error) {
	if err := a.linkable(r); err != nil {
		return nil, err
	}
	return a.Links.Make(r.Context(), id)
}

func (a *subscriptionCalls) revokeLinks(r *http.Request, _ Control, id uuid.UUID) (any, error) {
	if err := a.linkable(r); err != nil {
		return nil, err
	}
	return struct{}{}, a.Links.Revoke(r.Context(), id)
}

// linkable refuses a call about links if the hub makes none, or if the subscription does not exist.
func (a *subscriptionCalls) linkable(r *http.Request) error {
	if err := noBody(r); err != nil {
		return err
	}
	if _, _, err := a.record(r.Context(), mux.Vars(r)["id"]); err != nil {
		return err
	}
	if a.Links == nil {
		return refuse(http.StatusConflict, "This hub has no pages for subscribers. Start all hubs on the store with --subscriber-pages.")
	}
	return nil
}

// linkHolder is the name in the log of somebody with a link to a subscription.
const linkHolder = "holder of a link"

// NewSubscriberPage returns the handler of the pages that links lead to. They use api, which
// has no more calls than the holder of a link may make; which subscription they may name
// there is up to page. Hosts are the host names that browsers may use.
func NewSubscriberPage(o Options, hosts []string, page func(api http.Handler) http.Handler) http.Handler {
	o.Answers, o.Tried, o.Page, o.Metrics = nil, nil, nil, nil // what callbacks and topics answered is for operators
	a := newAPI(o)
	a.routes = slices.DeleteFunc(a.routes, func(rt route) bool {
		_, change := turnEvery[rt.path[strings.LastIndex(rt.path, "/")+1:]]
		return !strings.HasPrefix(rt.path, "/api/v1/subscriptions/{id}") || rt.method != http.MethodGet && !change
	})
	router, browsers := a.router(), browser.NewGuard(hosts...)
	next := page(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := person{Role: Reader, name: linkHolder, linked: true}
		if r.Method == http.MethodPost {
			who.Role = Operator
		}
		router.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), personKey{}, who)))
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protect(w.Header())
		// Referrer-Policy: no-referrer makes browsers send "Origin: null" with the forms of the page
		// itself. Over plain HTTP they send no Sec-Fetch-Site that says more. No other page knows
		// the token.
		own := r.Header.Get("Origin") == "null" && r.Header.Get("Sec-Fetch-Site") == ""
		if err := browsers.Check(r); err != nil && !own {
			writeProblem(w, refuse(http.StatusForbidden, "This change was sent by a page of another origin, and is refused."))
			return
		}
		next.ServeHTTP(w, r)
	})
}
