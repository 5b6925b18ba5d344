package subscriber

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/base/web"
	"github.com/rshub/rshub/websub"
)

// Doer sends one HTTP request and follows no redirect. An *http.Client follows none here. It may
// be shared between goroutines.
type Doer interface {
	Do(*http.Request) (*http.Response, error)
}

// Options configure a Subscriber. Dir is required, and so is Topic unless there is a
// ChangeList. A zero elsewhere stands for the default that is named.
type Options struct {
	// Dir is the folder of the state: what was received and not committed yet,
	// the subscriptions, the gaps. It belongs to one Subscriber at a time.
	Dir string
	// Topic is where discovery begins: a topic, or an address that leads to one, for
	// instance by a redirect (DST-01, DST-02).
	Topic string
	// Hub is the hub to subscribe at. Empty: the first https one that the topic
	// names, or else its first (DST-03).
	Hub string
	// Hubs are those to choose from if the topic itself names none. A Capability List may
	// name them instead (SRC-11, Set.Hubs).
	Hubs []string
	// Callback is the public URL of Handler. Each subscription gets a path below it that
	// nobody can guess (DST-04).
	Callback string
	// Via is how notifications come while Run runs: ViaAuto.
	Via Via
	// PollEvery is how often the Change List is read where nothing pushes, 5 minutes: with
	// ViaPoll, and with ViaAuto while there is neither a Callback nor a stream that can be read.
	PollEvery time.Duration
	// InsecureStream reads the stream of a hub over plain http also if the hub is not on this
	// machine. Deliveries to a Callback are signed; a stream has only TLS.
	InsecureStream bool
	// Lease is the lease to ask for, 10 days. The hub decides.
	Lease time.Duration
	// InsecureSecret sends a secret also to an http hub that is not on loopback. Without
	// it, such a subscription has none, and its deliveries are unsigned.
	InsecureSecret bool
	// MinSignature is the weakest accepted method of signatures: SHA256.
	MinSignature websub.SignatureMethod

	// MaxBody bounds a notification in bytes, 64 MiB, and MaxBacklog what is on disk and
	// not committed yet, 1 GiB. Over it, the hub is asked to send again later.
	MaxBody, MaxBacklog int64
	// HoldFor is how long a notification that came early waits for those before it, 10 s,
	// and MaxHeld how many can wait: 64. After that the gap is repaired.
	HoldFor time.Duration
	MaxHeld int

	// ChangeList repairs gaps, and ChangeListArchive has older lists. Both empty: those
	// of the Capability List that the topic names, or of its host.
	ChangeList, ChangeListArchive string
	// MaxEntries is how many entries a Change List may have: the 50,000 of the protocol.
	// Log has one line about each list with more. Such a list may have 1 KiB for each
	// entry, and its changes are in memory while it is read.
	MaxEntries int
	// Look, if not nil, replaces a Change List that the Source does not have. It is called
	// when the list would be checked for what was not pushed, so that the application
	// looks by other means. It must not wait. A gap becomes a NeedsBaseline at once.
	Look func()
	// Start is the instant up to which the application has everything already, for
	// instance the time of its baseline. It counts until something is received.
	Start time.Time
	// CheckEvery is how often the Change List is checked for what was not pushed, first
	// when Run begins. An hour; negative: never.
	CheckEvery time.Duration

	// Allow lists ranges that may be called besides public addresses, such as loopback
	// for trials. A Client ignores it.
	Allow []netip.Prefix
	// Client calls hubs, topics and lists. Nil: a guarded one. StreamClient calls hubs for their
	// stream, which stays open, and for what they keep; nil: Client.
	Client, StreamClient Doer
	// Log receives what happens. Nil: nothing is logged.
	Log *slog.Logger

	ownClient bool // Client was made here
}

// Via is how notifications come. All ways lead to the same inbox, and the way may be another one
// at each Open: nothing is lost in between and nothing comes twice.
type Via string

// The ways.
const (
	// ViaAuto is the callback if there is one, else the stream if the hub has one, else
	// polling.
	ViaAuto Via = ""
	// ViaCallback has the hub deliver to Handler.
	ViaCallback Via = "callback"
	// ViaStream reads the stream of the hub, for those that nobody can call.
	ViaStream Via = "stream"
	// ViaPoll reads the Change List again and again.
	ViaPoll Via = "poll"
)

const (
	fetchTimeout   = time.Minute     // of one document or request
	subscribeFirst = 5 * time.Second // between tries to subscribe, doubled up to
	subscribeMax   = 10 * time.Minute
	verifyWithin   = 3 * time.Minute     // for the hub to verify an accepted request
	renewWithin    = 31 * 24 * time.Hour // of a lease that is longer than any hub should give
	beginAfter     = time.Second         // after the first notification, which may have overtaken another
	bodiesAtOnce   = 4                   // of the largest size, in memory
	slowest        = 64 << 10            // bytes a second of a delivery
	repairFirst    = 2 * time.Second     // between tries to repair, doubled up to
	repairMax      = 5 * time.Minute
	repairPatience = 10 * time.Minute // for lists that are behind the hub
	repairGiveUp   = 24 * time.Hour   // for lists that cannot be fetched
	underWay       = time.Minute      // for which a change may be on its way through the hub
	ahead          = 24 * time.Hour   // of our clock that another's may be
	keptGaps       = 100
	keptIDs        = 1024
	maxEdge        = 10_000 // changes at one instant that are distinguished
	maxLists       = 2_000  // Change Lists read in one repair
	batchEntries   = 10_000 // changes of a repair in one batch
)

func (o *Options) setDefaults() error {
	if o.Dir == "" {
		return errors.New("subscriber: Options.Dir is missing: name a folder for the state")
	}
	if o.Topic == "" && (o.ChangeList == "" || o.Callback != "") {
		return errors.New("subscriber: Options.Topic is missing: name the topic, or without a Callback the ChangeList")
	}
	switch o.Via {
	case ViaAuto, ViaPoll:
	case ViaCallback, ViaStream:
		if o.Via == ViaCallback && o.Callback == "" {
			return errors.New("subscriber: Options.Callback is missing: name the public URL of Handler, or use another Options.Via")
		}
		if o.Topic == "" {
			return fmt.Errorf("subscriber: Options.Topic is missing: Options.Via is %q", o.Via)
		}
	default:
		return fmt.Errorf("subscriber: Options.Via is %q; use %q, %q or %q", o.Via, ViaCallback, ViaStream, ViaPoll)
	}
	for _, u := range []struct{ name, url string }{
		{"Topic", o.Topic}, {"Callback", o.Callback}, {"Hub", o.Hub}, {"ChangeList", o.ChangeList}, {"ChangeListArchive", o.ChangeListArchive},
	} {
		if err := websub.CheckURL("Options."+u.name, u.url); u.url != "" && err != nil {
			return fmt.Errorf("subscriber: %w", err)
		}
	}
	if strings.ContainsRune(o.Callback, '?') {
		return errors.New("subscriber: Options.Callback has a query; name the URL that Handler is served at")
	}
	for name, v := range map[string]int64{
		"Lease": int64(o.Lease), "MaxBody": o.MaxBody, "MaxBacklog": o.MaxBacklog, "HoldFor": int64(o.HoldFor), "MaxHeld": int64(o.MaxHeld),
		"MaxEntries": int64(o.MaxEntries), "PollEvery": int64(o.PollEvery),
	} {
		if v < 0 {
			return fmt.Errorf("subscriber: Options.%s is negative; leave it out for its default", name)
		}
	}
	o.MinSignature = cmp.Or(o.MinSignature, websub.SHA256)
	if _, err := websub.ParseSignatureMethod(string(o.MinSignature)); err != nil {
		return fmt.Errorf("subscriber: Options.MinSignature: %w", err)
	}
	o.Lease = cmp.Or(o.Lease, 10*24*time.Hour)
	o.MaxBody = cmp.Or(o.MaxBody, 64<<20)
	o.MaxBacklog = cmp.Or(o.MaxBacklog, 1<<30)
	o.HoldFor = cmp.Or(o.HoldFor, 10*time.Second)
	o.MaxHeld = cmp.Or(o.MaxHeld, 64)
	o.CheckEvery = cmp.Or(o.CheckEvery, time.Hour)
	o.PollEvery = cmp.Or(o.PollEvery, 5*time.Minute)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Client == nil {
		client, err := guarded(o.Allow, egress.AllowedBy("Options.Allow"))
		if err != nil {
			return err
		}
		o.Client, o.ownClient = client, true
	}
	o.Client = web.WithoutRedirects(o.Client)
	o.StreamClient = cmp.Or[Doer](web.WithoutRedirects(o.StreamClient), o.Client)
	return nil
}

// guarded returns the client of those that are given none.
func guarded(allow []netip.Prefix, unless func(netip.Prefix) string) (*egress.Client, error) {
	c, err := egress.New(egress.Options{Allow: allow, Unless: unless, UserAgent: "rssub"})
	if err != nil {
		return nil, fmt.Errorf("subscriber: %w", err)
	}
	return c, nil
}

// clientOr returns the client of a function that is given one; nil stands for a guarded one. End closes the
// connections of that.
func clientOr(d Doer) (client Doer, end func(), err error) {
	if d != nil {
		return web.WithoutRedirects(d), func() {}, nil
	}
	c, err := guarded(nil, func(netip.Prefix) string { return "another client is given" })
	if err != nil {
		return nil, nil, err
	}
	return c, c.CloseIdleConnections, nil
}

// subscribes reports whether a hub is to call the Callback, and streams whether a stream is to be
// read, if the hub has one.
func (o *Options) subscribes() bool {
	return o.Via == ViaCallback || o.Via == ViaAuto && o.Callback != ""
}

func (o *Options) streams() bool {
	return o.Via == ViaStream || o.Via == ViaAuto && o.Callback == "" && o.Topic != ""
}

// way returns Status.Way.
func (o *Options) way(stream *StreamStatus) Via {
	switch {
	case o.subscribes():
		return ViaCallback
	case stream == nil || o.Via == ViaAuto && stream.State == StreamNone:
		return ViaPoll
	}
	return ViaStream
}

// methods are the accepted methods of signatures: MinSignature and the stronger ones.
func (o *Options) methods() []websub.SignatureMethod {
	all := []websub.SignatureMethod{websub.SHA1, websub.SHA256, websub.SHA384, websub.SHA512}
	return all[slices.Index(all, o.MinSignature):]
}
