package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/rshub/rshub/internal/base/browser"
	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/validate"
	"github.com/rshub/rshub/websub"
)

// Accepter takes subscription requests, as subscriptions.Service does.
type Accepter interface {
	// Accept stores a request durably, to be verified later. Requester is what
	// counts as one: an IPv4 address or an IPv6 /64. A *subscriptions.LimitError
	// says that it was refused by a limit.
	Accept(ctx context.Context, r websub.SubscribeRequest, requester string) error
}

// Topics asks topic URIs, as validate.TopicChecker does.
type Topics interface {
	Check(ctx context.Context, topic string) error
	Content(ctx context.Context, topic, location string, body []byte) error
	Fetch(ctx context.Context, topic string) (validate.Fetched, error)
}

// Callbacks tells which callbacks, and topics, may not be called, as egress.Client
// does.
type Callbacks interface {
	// CheckLiteral refuses a URL whose host is an address that is never called.
	CheckLiteral(rawURL string) error
}

// PublishAuth says what lets a publish in (`--publish-auth`, HUB-53). Any one
// that is set is enough.
type PublishAuth struct {
	Content bool // the topic's URL, or a copy below it, serves what was posted
	Token   bool // a publisher's bearer token or signature
	Open    bool // nothing is asked for
}

// ParsePublishAuth reads a list of content, token and open.
func ParsePublishAuth(names []string) (PublishAuth, error) {
	var a PublishAuth
	for _, name := range names {
		switch name {
		case "content":
			a.Content = true
		case "token":
			a.Token = true
		case "open":
			a.Open = true
		default:
			return PublishAuth{}, fmt.Errorf("publish auth %q: it can be content, token and open", name)
		}
	}
	return a, nil
}

// Options are what a Handler needs. HubURL, Journal, Marks, Subscriptions and
// Topics are required.
type Options struct {
	// HubURL is the hub's public URL; its path is where the Handler answers.
	HubURL        string
	Journal       journal.Appender
	Marks         journal.Marks
	Subscriptions Accepter
	Topics        Topics
	Publishers    *validate.Publishers // nil: there are none
	Callbacks     Callbacks            // nil: every callback and topic may be called

	Auth PublishAuth
	// AcceptGaps is `--continuity=flag`.
	AcceptGaps bool
	// TopicAllow and TopicDeny say which topics are served; none allowed means
	// all, and what is denied is denied, however its server reads an encoded slash.
	// Unsubscribing is always possible.
	TopicAllow, TopicDeny []validate.Pattern
	// RequireHTTPSForSecrets refuses a hub.secret that came over plain HTTP, or
	// whose callback is not https (HUB-08).
	RequireHTTPSForSecrets bool
	// PublishRate is for each publisher and for each topic host, SubscribeRate
	// for each requester. Zero: no limit.
	PublishRate, SubscribeRate Rate
	// PublishBytes is PublishRate in bytes of bodies, where Rate.Events are bytes;
	// at least MaxBody, or nobody could send one so long. Zero: no limit.
	PublishBytes Rate

	// MaxBody is the longest notification in bytes. Zero: 50 MiB.
	MaxBody int64
	// MaxPublishBytes bounds the bodies of all publishes in progress together, in
	// bytes. Zero: 256 MiB. MaxFetchBytes is the same for what is fetched, which so
	// leaves publishes their room however slowly it comes. Zero: a quarter of it.
	// Both are raised to twice MaxBody if they are less.
	MaxPublishBytes, MaxFetchBytes int64

	// AllowHosts are the host names that browsers may use besides HubURL's.
	AllowHosts []string
	// TrustedProxies says whose X-Forwarded-For and X-Forwarded-Proto count.
	TrustedProxies []netip.Prefix
	// Owns tells whether this hub fetches the topics of a partition. A ping of
	// another is marked, and found by whoever does. It must be cheap; nil: of all.
	Owns func(partition int) bool
	// Live is the number of hubs that share the rates above: each lets its part of
	// them through. Nil: 1.
	Live func() int
	// Event is told of each request and each fetch, to count and trace them; nil:
	// nobody is. It must not wait, and is called from many goroutines.
	Event func(Event)
	Log   *zap.Logger      // nil: no log
	Now   func() time.Time // nil: time.Now
	// Clock tells the time of day that is stored, and that documents are judged by.
	// Nil: that of Now, with clock.New.
	Clock *clock.Clock
}

// Handler answers at the hub URI. It may be shared between goroutines.
type Handler struct {
	o        Options
	path     string
	log      *zap.Logger
	draining atomic.Bool
	page     landing
	fetches  *fetchQueue
	own      ownURL
	quiet    quiet
	browsers *browser.Guard

	memory, fetchMemory                   *semaphore.Weighted
	byPublisher, byTopicHost, byRequester *limiters
	bytesByPublisher, bytesByTopicHost    *limiters
	hashedByRequester                     *limiters // bytes, for signatures that turn out wrong
}

var _ http.Handler = (*Handler)(nil)

// New returns a Handler. It fails if a required option is missing or HubURL can't
// be a hub's.
func New(o Options) (*Handler, error) {
	if err := websub.CheckURL("the hub URL", o.HubURL); err != nil {
		return nil, err
	}
	if o.Journal == nil || o.Marks == nil || o.Subscriptions == nil || o.Topics == nil {
		return nil, errors.New("hub: Journal, Marks, Subscriptions and Topics have to be given")
	}
	u, err := url.Parse(o.HubURL)
	if err != nil {
		return nil, fmt.Errorf("the hub URL: %w", err)
	}
	if o.Publishers == nil {
		o.Publishers = validate.NewPublishers(nil)
	}
	if o.MaxBody <= 0 {
		o.MaxBody = 50 << 20
	}
	if o.MaxPublishBytes <= 0 {
		o.MaxPublishBytes = 256 << 20
	}
	if o.MaxFetchBytes <= 0 {
		o.MaxFetchBytes = o.MaxPublishBytes / 4
	}
	o.MaxPublishBytes = max(o.MaxPublishBytes, 2*o.MaxBody)
	o.MaxFetchBytes = max(o.MaxFetchBytes, 2*o.MaxBody)
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Clock == nil {
		o.Clock = clock.New(o.Now)
	}
	if o.Owns == nil {
		o.Owns = func(int) bool { return true }
	}
	if o.Live == nil {
		o.Live = func() int { return 1 }
	}
	h := &Handler{
		o: o, path: orSlash(u.EscapedPath()), log: o.Log.Named("hub"),
		own:         ownURLOf(u),
		browsers:    browser.NewGuard(append([]string{u.Host}, o.AllowHosts...)...),
		memory:      semaphore.NewWeighted(o.MaxPublishBytes),
		fetchMemory: semaphore.NewWeighted(o.MaxFetchBytes),
		fetches:     newFetchQueue(),
		byPublisher: newLimiters(o.PublishRate, 1, o.Live),
		byTopicHost: newLimiters(o.PublishRate, 1, o.Live),
		byRequester: newLimiters(o.SubscribeRate, 1, o.Live),

		bytesByPublisher: newLimiters(o.PublishBytes, int(o.MaxBody), o.Live),
		bytesByTopicHost: newLimiters(o.PublishBytes, int(o.MaxBody), o.Live),

		hashedByRequester: newLimiters(Rate{Events: hashedBodies * int(o.MaxBody), Per: time.Minute}, int(o.MaxBody), o.Live),
	}
	h.page, err = newLanding(o.HubURL, o.Auth)
	return h, err
}

// SetDraining makes the Handler refuse new publishes and pings with 503, or take
// them again. Those in progress go on.
func (h *Handler) SetDraining(on bool) { h.draining.Store(on) }

// ServeHTTP answers one request. An X-Request-Id that the answer's header has by
// then goes into the log line.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	if orSlash(r.URL.EscapedPath()) != h.path {
		_ = h.refuse(w, r, refuse(notFound, "There is nothing here; this hub answers at %s.", h.o.HubURL))
		return
	}
	switch r.Method {
	case http.MethodPost:
		h.post(w, r)
	case http.MethodGet, http.MethodHead:
		h.page.serve(w, r)
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		_ = h.refuse(w, r, refuse(methodNotAllowed, "POST a notification or a subscription request here, or GET a description of this hub."))
	}
}

// post tells a publish from a subscription request by the media type. What a web page
// had a browser send is neither.
func (h *Handler) post(w http.ResponseWriter, r *http.Request) {
	media, err := mediaType(r.Header)
	if refused := h.browsers.Check(r); refused != nil {
		err = refused
	}
	switch {
	case err != nil:
		start := time.Now()
		e := h.refuse(w, r, err)
		h.tell(Event{
			Name: EventPost, Outcome: e.kind.slug, Status: e.kind.status, Err: e,
			TraceParent: traceParent(r), RequestID: requestID(w), Start: start, Duration: time.Since(start),
		}, zap.Stringer("requester", h.requester(r)))
	case media == mediaXML:
		h.servePublish(w, r)
	default:
		h.serveForm(w, r)
	}
}

// allowed reports whether this hub serves a topic (HUB-16).
func (h *Handler) allowed(topic string) bool {
	if validate.TouchesAny(h.o.TopicDeny, topic) {
		return false
	}
	return len(h.o.TopicAllow) == 0 || validate.MatchAny(h.o.TopicAllow, topic)
}

func orSlash(path string) string {
	if path == "" {
		return "/"
	}
	return path
}
