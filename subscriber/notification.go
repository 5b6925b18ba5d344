package subscriber

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"net/netip"
	"time"

	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/resourcesync"
)

// Notification is what comes next in the stream of a hub: a notification as it was published,
// or a gap.
type Notification struct {
	ID    string // as Webhook-Id of a delivery
	Topic string
	// From and Until are the interval; zero: there is none, or it is not known.
	From, Until time.Time
	ReceivedAt  time.Time // by the hub
	MediaType   string
	Links       []string // as in the Link header of a delivery, without self and hub
	// Document is what was published, byte for byte. Its length and SHA-256 are checked.
	Document []byte
	// Gap says that this is a gap, and why: notifications of the interval do not come. Then
	// there is no Document. After "rolled_back", some that came may come again.
	Gap string
	// Position is the place behind it, for StreamOptions.After.
	Position string
}

// Entries are the changes of a change notification. After an error there are none.
func (n *Notification) Entries() iter.Seq2[resourcesync.Entry, error] {
	return func(yield func(resourcesync.Entry, error) bool) {
		r := resourcesync.NewNotificationReader(bytes.NewReader(n.Document), resourcesync.Limits{Bytes: int64(len(n.Document)) + 1})
		for {
			e, err := r.Next()
			if errors.Is(err, io.EOF) || !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// isEvent reports whether n is more than a new Position.
func (n *Notification) isEvent() bool { return n.ID != "" || n.Gap != "" }

// StreamOptions say which stream Notifications reads. Topic is required.
type StreamOptions struct {
	// Topic is the topic, or an address that leads to it if there is no Hub.
	Topic string
	// Hub is the URL of the hub. Empty: the one that the topic names.
	Hub string
	// After is where it begins: the Position of a Notification, an instant such as
	// 2026-01-31T12:00:00Z, or "earliest" for all that the hub has. Empty: what comes from
	// now on.
	After string
	// Token is sent to the hub as a bearer token, if it is not empty.
	Token string
	// Insecure reads a stream over plain http also from a hub that is not on this machine.
	// Anyone on the way can change it.
	Insecure bool
	// Opened, if not nil, is called each time that a hub begins with the stream of a topic, by
	// the goroutine of the range.
	Opened func(topic, hub string)
	// MaxBody bounds a notification in bytes: 64 MiB.
	MaxBody int64
	// Allow lists ranges that may be called besides public addresses. A Client ignores it.
	Allow []netip.Prefix
	// Client calls the hub and the topic. Nil: a guarded one.
	Client Doer
}

// Notifications yields what the stream of a hub has, in order, until ctx ends or the caller
// leaves the range. It comes again by itself when the stream ends or breaks, at the place where
// it was, and skips nothing. It yields an error, with a nil Notification, each time that the
// stream breaks or cannot be read, and tries again if the caller stays in the range: after the
// time that the hub asks for, then at longer and longer intervals. ErrNoStream is wrapped where
// the hub has none, and ErrInsecure where it would come over plain http. Nothing is stored: to go
// on after a restart, store Position. A Subscriber with ViaStream does that.
func Notifications(ctx context.Context, o StreamOptions) iter.Seq2[*Notification, error] {
	return func(yield func(*Notification, error) bool) {
		h, end, err := o.stream()
		if err != nil {
			yield(nil, err)
			return
		}
		defer end()
		for ctx.Err() == nil {
			left := false
			err := h.read(ctx, func(n *Notification) error {
				if left = n.isEvent() && !yield(n, nil); left {
					return errLeft
				}
				h.after = n.Position
				return nil
			})
			if left || ctx.Err() != nil {
				return
			}
			wait := h.pause(err)
			if err != nil && !yield(nil, err) {
				return
			}
			clock.Sleep(ctx, wait)
		}
	}
}

// errLeft says that the caller left the range.
var errLeft = errors.New("the range was left")

// stream returns the reader that the options describe.
func (o *StreamOptions) stream() (h *hubStream, end func(), err error) {
	s := Options{Dir: "-", Topic: o.Topic, Hub: o.Hub, MaxBody: o.MaxBody, Allow: o.Allow, Client: o.Client}
	if err := s.setDefaults(); err != nil {
		return nil, nil, err
	}
	end = func() {}
	if c, ok := s.Client.(*egress.Client); ok && s.ownClient {
		end = c.CloseIdleConnections
	}
	find := func(ctx context.Context) (topic, hub string, err error) {
		if o.Hub != "" {
			return o.Topic, o.Hub, nil
		}
		d, err := Discover(ctx, s.Client, o.Topic)
		if err != nil {
			return "", "", err
		}
		return d.Topic, choose(d.Hubs, ""), nil
	}
	return &hubStream{client: s.Client, find: find, after: o.After, token: o.Token, insecure: o.Insecure, maxBody: s.MaxBody, opened: o.Opened}, end, nil
}
