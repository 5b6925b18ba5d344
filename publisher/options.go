package publisher

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rshub/rshub/internal/base/web"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/websub"
)

// Kind is the kind of notifications of a topic. A topic has only one kind (SRC-01).
type Kind string

// The kinds.
const (
	Changes   Kind = resourcesync.ChangeNotification    // resources that changed
	Framework Kind = resourcesync.FrameworkNotification // documents of ResourceSync that appeared or changed
)

// Hub is a hub to post notifications to. With neither Token nor Secret, it compares what is
// posted with what the topic's URL serves.
type Hub struct {
	URL    string // as the hub calls itself; without a path it may end in "/" or not (websub.HubURL)
	Token  string // sent as a bearer token
	Secret string // signs the body (X-Hub-Signature, sha256); not beside a Token
	// Credential, if not nil, returns the Token and Secret before each POST. Several
	// goroutines may call it.
	Credential func() (token, secret string)
}

// String is the URL alone, so that no credential is printed by accident.
func (h Hub) String() string { return h.URL }

// LogValue is String, for log/slog.
func (h Hub) LogValue() slog.Value { return slog.StringValue(h.URL) }

// InClear reports whether the Token goes over the network unencrypted: the URL is neither
// https nor on this machine. A Secret only signs.
func (h Hub) InClear() bool {
	_, err := url.Parse(h.URL)
	return h.Token != "" && err == nil && !web.Confidential(h.URL)
}

// The defaults of Options.
const (
	DefaultEvery      = time.Second
	DefaultMaxEntries = 10_000
	DefaultMaxBytes   = 10 << 20
	DefaultKeep       = 72 * time.Hour
	DefaultMaxStored  = 8 << 30
	DefaultTimeout    = 30 * time.Second // of an empty POST; each 128 KiB add a second
)

// Options configure a Publisher. Dir and Topic are required.
type Options struct {
	// Dir is the folder of the outbox. It is created if it is missing, and belongs to one
	// Publisher at a time.
	Dir string
	// Topic is the topic URI: the public URL of Handler, without a query.
	Topic string
	// Kind is Changes if empty.
	Kind Kind
	// Hubs get POSTs and stand in the Link header of the topic. A hub that is new to the
	// outbox gets what is cut from then on. Without any, intervals are cut and served
	// all the same.
	Hubs []Hub
	// CapabilityList is the URL of the Capability List that the topic is in: rel="up" of
	// each notification and rel="resourcesync" of each POST and answer. Empty: neither.
	CapabilityList string
	// SourceDescription is rel="up" of framework notifications about Capability
	// Lists and Source Descriptions alone (DOC-20). Empty: CapabilityList is.
	SourceDescription string

	// Every is how long a change waits at most for others to share its interval, while
	// some hub has everything before it.
	Every time.Duration
	// MaxEntries and MaxBytes bound an interval. They never exceed 50,000 entries and
	// 50 MiB (DOC-60).
	MaxEntries int
	MaxBytes   int64
	// Heartbeat publishes an empty interval after this time without any. Zero: never.
	Heartbeat time.Duration
	// Keep is how long an interval is kept after every hub acknowledged it.
	Keep time.Duration
	// MaxStored bounds the outbox, in bytes of notifications, except the newest, and queued changes. From
	// three quarters of it on, the oldest intervals that every hub has are deleted
	// early. If that is not enough, Record returns ErrFull.
	MaxStored int64

	// From is where the first interval of a new outbox begins: the time of the baseline
	// that goes with it. Zero: when the outbox was made. A first change before it moves
	// it back.
	From time.Time
	// Client makes the requests to hubs. Nil: a client that calls public and private addresses
	// and this machine, but no link-local addresses, and uses no proxy.
	Client Doer
	// Timeout bounds one POST. Each 128 KiB of its body add a second.
	Timeout time.Duration
	// Log receives what happens. Nil: nothing is logged.
	Log *slog.Logger
	// Posted, if not nil, is called after each POST. It must not wait, and several
	// goroutines may call it at once.
	Posted func(Posted)
}

// Doer sends one HTTP request and follows no redirect. An *http.Client follows none here. It may
// be shared between goroutines.
type Doer interface {
	Do(req *http.Request) (*http.Response, error)
}

// withDefaults checks o and sets the fields that are zero.
func (o Options) withDefaults() (Options, error) {
	switch {
	case o.Dir == "":
		return o, errors.New("the publisher needs a folder for its outbox (Dir)")
	case o.Kind == "":
		o.Kind = Changes
	case o.Kind != Changes && o.Kind != Framework:
		return o, fmt.Errorf("there is no kind of notification %q: use %q or %q", o.Kind, Changes, Framework)
	}
	if err := checkTopic(o.Topic); err != nil {
		return o, err
	}
	o.Hubs = slices.Clone(o.Hubs)
	for i, h := range o.Hubs {
		if err := checkHub(h); err != nil {
			return o, err
		}
		if slices.ContainsFunc(o.Hubs[:i], func(other Hub) bool { return websub.HubURL(other.URL) == websub.HubURL(h.URL) }) {
			return o, fmt.Errorf("the hub %s is named twice", h.URL)
		}
	}
	for _, link := range []string{o.CapabilityList, o.SourceDescription} {
		if link == "" {
			continue
		}
		if err := websub.CheckURL("a document's URL", link); err != nil {
			return o, err
		}
	}
	o.Every = cmp.Or(max(o.Every, 0), DefaultEvery)
	o.Keep = cmp.Or(max(o.Keep, 0), DefaultKeep)
	o.Timeout = cmp.Or(max(o.Timeout, 0), DefaultTimeout)
	o.MaxEntries = min(cmp.Or(max(o.MaxEntries, 0), DefaultMaxEntries), resourcesync.DefaultLimits.Entries)
	o.MaxBytes = min(cmp.Or(max(o.MaxBytes, 0), DefaultMaxBytes), resourcesync.DefaultLimits.Bytes)
	o.MaxStored = cmp.Or(max(o.MaxStored, 0), DefaultMaxStored)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// checkTopic refuses a topic below which there cannot be immutable copies.
func checkTopic(topic string) error {
	if err := websub.CheckURL("the topic", topic); err != nil {
		return err
	}
	u, err := url.Parse(topic)
	if err != nil || strings.Contains(topic, "?") {
		return fmt.Errorf("the topic %s has a query: use a path without a query, below which copies of its notifications can lie", topic)
	}
	if web.HasDotSegment(u) {
		return fmt.Errorf("the topic %s has a dot segment: write the path without", topic)
	}
	return nil
}
