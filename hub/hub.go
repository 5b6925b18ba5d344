package hub

import (
	"cmp"
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

	"github.com/rshub/rshub/hub/history"
	"github.com/rshub/rshub/internal/base/browser"
	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/internal/base/ingress"
	"github.com/rshub/rshub/internal/base/quiet"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/validate"
	"github.com/rshub/rshub/websub"
)

// Accepter accepts subscription requests, as subscriptions.Service does.
type Accepter interface {
	// Accept stores a request durably; it is verified later. Requester is an IPv4
	// address or an IPv6 /64. A *subscriptions.LimitError says which limit refuses the
	// request.
	Accept(ctx context.Context, r websub.SubscribeRequest, requester string) error
}

// Topics asks topic URIs, as validate.TopicChecker does.
type Topics interface {
	Check(ctx context.Context, topic string) error
	Content(ctx context.Context, topic, location string, body []byte) error
	Fetch(ctx context.Context, topic string) (validate.Fetched, error)
}

// Callbacks says which callbacks and topics may not be called, as egress.Client does.
type Callbacks interface {
	// CheckLiteral refuses a URL whose host is an address that the hub never calls.
	CheckLiteral(rawURL string) error
}

// PublishAuth says what authorises a publish (`--publish-auth`, HUB-53). One of those
// that are set is enough.
type PublishAuth struct {
	Content bool // the topic's URL, or a copy below it, serves what was posted
	Token   bool // a publisher's bearer token or signature
	Open    bool // everyone may publish
}

// ParsePublishAuth reads a list of content, token and open.
func ParsePublishAuth(names []string) (PublishAuth, error) {
	var a PublishAuth
	flags := map[string]*bool{"content": &a.Content, "token": &a.Token, "open": &a.Open}
	for _, name := range names {
		flag := flags[name]
		if flag == nil {
			return PublishAuth{}, fmt.Errorf("publish auth %q: it can be content, token and open", name)
		}
		*flag = true
	}
	return a, nil
}

// Options are what a Handler needs. HubURL, Journal, Pings, Subscriptions and
// Topics are required.
type Options struct {
	// HubURL is the hub's public URL; its path is where the Handler answers.
	HubURL        string
	Journal       journal.Appender
	Pings         journal.Pings
	Subscriptions Accepter
	Topics        Topics
	Publishers    *validate.Publishers // nil: there are none
	Callbacks     Callbacks            // nil: every callback and topic may be called

	Auth PublishAuth
	// AcceptGaps is `--continuity=flag`.
	AcceptGaps bool
	// TopicAllow and TopicDeny say which topics the hub serves. An empty TopicAllow
	// allows all. TopicDeny wins, whichever way a server reads an encoded slash.
	// Unsubscribing is always possible.
	TopicAllow, TopicDeny []validate.Pattern
	// RequireHTTPSForSecrets refuses a hub.secret that came over plain HTTP, or that is
	// for a callback without https (HUB-08).
	RequireHTTPSForSecrets bool
	// PublishRate limits each publisher and each topic host, SubscribeRate each
	// requester. Zero: no limit.
	PublishRate, SubscribeRate Rate
	// PublishBytes is PublishRate in bytes of bodies: Rate.Events are bytes. It is at
	// least MaxBody, else nobody could send a body of that length. Zero: no limit.
	PublishBytes Rate

	// MaxBody is the longest notification in bytes. Zero: 50 MiB.
	MaxBody int64
	// MaxPublishBytes limits the bodies of all publishes in progress together, in
	// bytes. Zero: 256 MiB. MaxFetchBytes is the same for fetched topics, so that slow
	// ones take no memory from publishes. Zero: a quarter of MaxPublishBytes. Both are
	// raised to twice MaxBody if they are less.
	MaxPublishBytes, MaxFetchBytes int64

	// History answers readers who ask for what the journal has. Nil: there is none.
	History *history.Service
	// Read says who may ask. Readers with a token are among Publishers. Empty: ReadOpen.
	Read ReadAccess
	// ReadOrigins are the origins whose web pages may read; "*": all.
	ReadOrigins []string
	// ReadBytes limits what each requester reads, and ReadTotal what all read together: as
	// notifications, in bytes. Zero: no limit.
	ReadBytes, ReadTotal Rate

	// AllowHosts are the host names that browsers may use, besides that of HubURL.
	AllowHosts []string
	// TrustedProxies says whose X-Forwarded-For and X-Forwarded-Proto count.
	TrustedProxies []netip.Prefix
	// Owns reports whether this hub fetches the topics of a partition. A ping of any
	// other topic is stored, and the owner finds it. Owns must be cheap; nil: all are owned.
	Owns func(partition int) bool
	// Live is the number of hubs that share the rates above: each hub allows its fraction.
	// Nil: 1.
	Live func() int
	// Event is called with each request and each fetch, to count and trace them. It must
	// not block, and is called from many goroutines. Nil: nothing is called.
	Event func(Event)
	Log   *zap.Logger      // nil: no log
	Now   func() time.Time // nil: time.Now
	// Clock is the time of day that is stored, and by which documents are checked. Nil:
	// that of Now, with clock.New.
	Clock journal.Clock
}

// Handler answers at the hub URI. It may be shared between goroutines.
type Handler struct {
	o        Options
	path     string
	log      *zap.Logger
	draining atomic.Bool
	page     landing
	reads    reads
	fetches  *fetchQueue
	own      ownURL
	heads    heads
	quiet    *quiet.Limit
	browsers *browser.Guard
	proxies  ingress.Proxies

	memory, fetchMemory                   *semaphore.Weighted
	byPublisher, byTopicHost, byRequester *limiters
	bytesByPublisher, bytesByTopicHost    *limiters
	hashedByRequester                     *limiters // bytes hashed for wrong signatures
}

var _ http.Handler = (*Handler)(nil)

// check checks the limits.
func (o *Options) check() error {
	switch o.Read {
	case "", ReadOpen, ReadToken, ReadOff:
	default:
		return fmt.Errorf("hub: Read is %q; it can be open, token and off", o.Read)
	}
	if min(o.MaxBody, o.MaxPublishBytes, o.MaxFetchBytes) < 0 {
		return errors.New("hub: a number of bytes in Options is negative; zero is the default")
	}
	for _, r := range []Rate{o.PublishRate, o.SubscribeRate, o.PublishBytes, o.ReadBytes, o.ReadTotal} {
		if r.Events < 0 || r.Per < 0 || r.Events > 0 && r.Per == 0 {
			return fmt.Errorf("hub: a rate in Options is %d per %v; the zero Rate is no limit", r.Events, r.Per)
		}
	}
	return nil
}

// New returns a Handler. It fails if a required option is missing, if HubURL cannot be the
// URL of a hub, or if a limit makes no sense.
func New(o Options) (*Handler, error) {
	if err := websub.CheckURL("the hub URL", o.HubURL); err != nil {
		return nil, err
	}
	if o.Journal == nil || o.Pings == nil || o.Subscriptions == nil || o.Topics == nil {
		return nil, errors.New("hub: Journal, Pings, Subscriptions and Topics have to be given")
	}
	u, err := url.Parse(o.HubURL)
	if err != nil {
		return nil, fmt.Errorf("the hub URL: %w", err)
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	o.MaxBody = cmp.Or(o.MaxBody, 50<<20)
	o.MaxPublishBytes = cmp.Or(o.MaxPublishBytes, 256<<20)
	o.MaxFetchBytes = max(cmp.Or(o.MaxFetchBytes, o.MaxPublishBytes/4), 2*o.MaxBody)
	o.MaxPublishBytes = max(o.MaxPublishBytes, 2*o.MaxBody)
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
		quiet: quiet.OfStrangers(),
		o:     o, path: cmp.Or(u.EscapedPath(), "/"), log: o.Log.Named("hub"),
		own:         ownURLOf(u),
		heads:       newHeads(),
		proxies:     o.TrustedProxies,
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
	h.reads = reads{
		h: h, byRequester: newLimiters(o.ReadBytes, int(o.MaxBody), o.Live),
		byAll: newLimiters(o.ReadTotal, int(o.MaxBody), func() int { return 1 }), // of this hub's processor
	}
	h.page, err = newLanding(o.HubURL, o.Auth)
	return h, err
}

// SetDraining makes the Handler refuse new publishes and pings with 503, or accept them
// again. Those in progress go on.
func (h *Handler) SetDraining(on bool) { h.draining.Store(on) }

// ServeHTTP answers one request. If the answer's header has an X-Request-Id, the log line
// has it too.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	if cmp.Or(r.URL.EscapedPath(), "/") != h.path {
		_ = h.refuse(w, r, refuse(notFound, "There is nothing here; this hub answers at %s.", h.o.HubURL))
		return
	}
	r, done := outliving(r)
	defer done()
	switch r.Method {
	case http.MethodPost:
		h.post(w, r)
	case http.MethodGet, http.MethodHead:
		if history.Asks(r.URL) {
			h.reads.serve(w, r)
			return
		}
		h.page.serve(w, r)
	default:
		if h.reads.preflight(w, r) {
			return
		}
		w.Header().Set("Allow", "GET, HEAD, POST")
		_ = h.refuse(w, r, refuse(methodNotAllowed, "POST a notification or a subscription request here, or GET a description of this hub."))
	}
}

// afterClient is how long a request goes on after its client is gone. It is longer than asking a
// topic takes.
const afterClient = time.Minute

// outliving returns r with a context that ends afterClient later than its own, or with done. A
// client may close its sending side after the request and wait for the answer. Net/http takes
// that for the end of the client, and the store would not be asked.
func outliving(r *http.Request) (_ *http.Request, done func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	stop := context.AfterFunc(r.Context(), func() {
		clock.Sleep(ctx, afterClient)
		cancel()
	})
	return r.WithContext(ctx), func() { stop(); cancel() }
}

// post distinguishes a publish from a subscription request by the media type. It refuses
// what a web page had a browser send.
func (h *Handler) post(w http.ResponseWriter, r *http.Request) {
	media, err := mediaType(r.Header)
	if refused := h.browsers.Check(r); refused != nil {
		err = refused
	}
	switch {
	case err != nil:
		start, e := time.Now(), Event{Name: EventPost}
		h.refused(w, r, &e, err)
		h.reportRequest(w, r, start, e)
	case media == mediaXML:
		h.servePublish(w, r)
	default:
		h.serveForm(w, r)
	}
}
