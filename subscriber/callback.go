package subscriber

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/websub"
)

// Handler is what answers at Options.Callback and below it: hubs that verify
// (GET) and deliver (POST). It works as soon as the Subscriber is open, and may
// be mounted in any server; only the last segment of the path counts.
//
// A delivery is answered 204 once it is on disk, was there before, or cannot be
// of use; 503 where there is no room for it now. A verification is answered 404
// unless the subscriber itself asked for it within the last three minutes (DST-07).
func (s *Subscriber) Handler() http.Handler { return http.HandlerFunc(s.receiver.serve) }

// receiver answers hubs.
type receiver struct {
	o        *Options
	log      *slog.Logger
	inbox    *inbox
	repairer *repairer
	logLimit *logLimit

	bodies atomic.Int64 // bytes of deliveries that are being read
}

func (c *receiver) serve(w http.ResponseWriter, r *http.Request) {
	token := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	switch r.Method {
	case http.MethodGet:
		c.verify(w, r, token)
	case http.MethodPost:
		c.receive(w, r, token)
	default:
		w.Header().Set("Allow", "GET, POST")
		http.Error(w, "A WebSub callback takes GET and POST.", http.StatusMethodNotAllowed)
	}
}

// errNotAsked says that a hub wants something confirmed that was not asked for.
var errNotAsked = errors.New("not asked for")

// verify answers a verification of intent, or takes a denial (DST-07 to DST-09).
// What was not asked for costs no more than a look.
func (c *receiver) verify(w http.ResponseWriter, r *http.Request, token string) {
	q, _ := url.ParseQuery(r.URL.RawQuery) // what can't be read was not asked for
	mode, topic, challenge := websub.Mode(q.Get(websub.ParamMode)), q.Get(websub.ParamTopic), q.Get(websub.ParamChallenge)
	lease, _ := strconv.ParseInt(q.Get(websub.ParamLeaseSeconds), 10, 64)
	var sub subscription
	var renewed, again bool
	answer := func(tx *boltfile.Tx) error {
		have, found, err := readSubscription(tx, token)
		if err != nil {
			return err
		}
		if !found || have.Topic != topic || challenge == "" && mode != websub.ModeDenied {
			return errNotAsked
		}
		sub, renewed = have, have.inForce(time.Now())
		again = mode == websub.ModeDenied && !have.DeniedAt.IsZero()
		if !sub.answer(mode, lease, q.Get(websub.ParamReason), time.Now()) {
			return errNotAsked
		}
		return nil
	}
	err := c.inbox.state.view(answer)
	if err == nil && !again {
		err = c.inbox.update(func(tx *boltfile.Tx) error {
			if err := answer(tx); err != nil {
				return err
			}
			return putSubscription(tx, sub)
		})
	}
	switch {
	case errors.Is(err, errNotAsked):
		c.refused(r, "unasked")
		http.Error(w, "This was not asked for.", http.StatusNotFound)
		return
	case err != nil:
		c.unstored(w, err)
		return
	}
	switch {
	case again: // whoever repeats it fills neither log nor disk
	case mode == websub.ModeDenied:
		c.log.Warn("the hub denies the subscription", "event", "subscription_denied", "topic", topic, "hub", sub.Hub, "reason", sub.Denied)
	case mode == websub.ModeSubscribe:
		c.log.Info("the subscription is in force", "event", "subscription_verified", "topic", topic, "hub", sub.Hub, "expires_at", sub.ExpiresAt)
		if !renewed {
			c.repairer.catchUp(GapLease)
		}
	default:
		c.log.Info("the subscription is ended", "event", "subscription_ended", "topic", topic, "hub", sub.Hub)
	}
	c.inbox.wakeUp()
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(challenge)))
	_, _ = io.WriteString(w, challenge) //nolint:gosec // plain text, marked as such, to whoever knows the token
}

// answer takes what a hub asks of a subscription, and reports whether it was asked
// for. A lease that the hub does not tell is a day; it runs from now (DST-08).
//
// A denial is taken at any time (DST-09). It lets nobody in, and the hub is asked again
// an hour after the first, however often it is repeated.
func (b *subscription) answer(mode websub.Mode, lease int64, reason string, now time.Time) bool {
	switch {
	case mode == websub.ModeDenied && b.EndedAt.IsZero() && !b.DeniedAt.IsZero():
	case mode == websub.ModeDenied && b.EndedAt.IsZero():
		b.Denied, b.DeniedAt = egress.Excerpt([]byte(reason), maxText), now
		if b.Denied == "" {
			b.Denied = "no reason given"
		}
		b.Wanted, b.ExpiresAt = "", time.Time{}
	case !b.expects(mode, now):
		return false
	case mode == websub.ModeSubscribe:
		const day = 24 * 3600
		if lease <= 0 {
			lease = day
		}
		d := time.Duration(min(lease, 10*365*day)) * time.Second
		b.Wanted, b.Denied, b.DeniedAt = "", "", time.Time{}
		b.VerifiedAt, b.ExpiresAt = now, now.Add(d)
		b.RenewAt = now.Add(time.Duration(float64(min(d, renewWithin)) * (0.75 + 0.1*rand.Float64()))) //nolint:gosec // spreads load, keeps no secret
	case b.EndedAt.IsZero():
		b.Wanted, b.ExpiresAt, b.EndedAt = "", time.Time{}, now
	}
	return true
}

// expects reports whether the hub may ask now to have mode confirmed (DST-07). That is
// so for verifyWithin after the subscriber asked for it, also if it was confirmed
// already, since the hub may not have got the answer. At any other time somebody else
// asked the hub, with a secret of their own.
func (b *subscription) expects(mode websub.Mode, now time.Time) bool {
	asked := b.AskedAt
	if b.AcceptedAt.After(asked) {
		asked = b.AcceptedAt
	}
	switch {
	case now.Sub(asked).Abs() > verifyWithin: // a clock that was set back does not keep it open
		return false
	case b.Wanted != "":
		return b.Wanted == mode && b.EndedAt.IsZero()
	case mode == websub.ModeSubscribe:
		return b.inForce(now)
	default:
		return mode == websub.ModeUnsubscribe && !b.EndedAt.IsZero()
	}
}

// receive takes a delivery. Which subscription it is for, and with which secret it
// is signed, its callback says and nothing else (DST-12).
func (c *receiver) receive(w http.ResponseWriter, r *http.Request, token string) {
	var sub subscription
	var found, changesOnly bool
	err := c.inbox.state.view(func(tx *boltfile.Tx) (err error) {
		if sub, found, err = readSubscription(tx, token); err != nil {
			return err
		}
		var t tail
		changesOnly, err = getJSON(tx.Bucket(metaBucket), tailKey, &t)
		changesOnly = changesOnly || !c.o.Start.IsZero()
		return err
	})
	switch {
	case err != nil:
		c.unstored(w, err)
		return
	case !found:
		c.refused(r, "unknown callback")
		http.Error(w, "There is no such callback.", http.StatusNotFound)
		return
	case !sub.EndedAt.IsZero():
		c.refused(r, "ended")
		http.Error(w, "The subscription is ended.", http.StatusGone)
		return
	}
	body, done, ok := c.read(w, r)
	if !ok {
		return
	}
	defer done()
	if sub.Secret != "" {
		if err := websub.VerifySignature(r.Header.Get(websub.HeaderSignature), sub.Secret, body, c.o.methods()...); err != nil {
			c.forged(w, r, sub.Secret, body, err)
			return
		}
	}
	b, err := examine(r.Header.Get("Content-Type"), body, changesOnly)
	if err != nil {
		c.refused(r, "invalid")
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	b.ID = r.Header.Get("Webhook-Id")
	c.store(w, b, body)
}

// read reads a delivery, and answers one that can't be read. What all deliveries have
// in memory, and the time that one takes, are bounded; done gives the memory back.
func (c *receiver) read(w http.ResponseWriter, r *http.Request) (body []byte, done func(), ok bool) {
	size := r.ContentLength
	if size < 0 {
		size = c.o.MaxBody
	}
	if size > c.o.MaxBody {
		c.tooLarge(w, r)
		return nil, nil, false
	}
	done = func() { c.bodies.Add(-size) }
	if c.bodies.Add(size) > bodiesAtOnce*c.o.MaxBody {
		done()
		c.postpone(w)
		return nil, nil, false
	}
	wire := http.NewResponseController(w) // not every server can do this; then its own timeouts have to do
	_ = wire.SetReadDeadline(time.Now().Add(time.Minute + time.Duration(size/slowest)*time.Second))
	body, err := egress.ReadBody(r.Body, c.o.MaxBody)
	if err == nil {
		_ = wire.SetReadDeadline(time.Time{})
		return body, done, true
	}
	done()
	if errors.Is(err, egress.ErrTooLarge) {
		c.tooLarge(w, r)
	} else {
		http.Error(w, "The body could not be read.", http.StatusBadRequest)
	}
	return nil, nil, false
}

func (c *receiver) tooLarge(w http.ResponseWriter, r *http.Request) {
	c.refused(r, "too large")
	http.Error(w, "The notification is larger than this subscriber takes.", http.StatusRequestEntityTooLarge)
}

// postpone tells the hub to come again.
func (c *receiver) postpone(w http.ResponseWriter) {
	c.inbox.count(func(c *Counts) { c.Postponed++ })
	w.Header().Set("Retry-After", "10")
	http.Error(w, "There is no room for more notifications now.", http.StatusServiceUnavailable)
}

// forged answers what is not signed, or not rightly (DST-13). A right signature by a
// method that is too weak is told apart: its hub gets nothing through until
// MinSignature allows it, and people have to learn why.
func (c *receiver) forged(w http.ResponseWriter, r *http.Request, secret string, body []byte, err error) {
	header := r.Header.Get(websub.HeaderSignature)
	switch {
	case errors.Is(err, websub.ErrSignatureMissing):
		c.refused(r, "unsigned")
		http.Error(w, "The notification is not signed.", http.StatusUnauthorized)
		return
	case errors.Is(err, websub.ErrSignatureMethod) && websub.VerifySignature(header, secret, body) == nil:
		method, _, _ := strings.Cut(header, "=")
		c.refused(r, fmt.Sprintf("weak signature: the hub signs with %s, and Options.MinSignature is %s", method, c.o.MinSignature))
	default:
		c.refused(r, "wrong signature")
	}
	http.Error(w, "The signature is not accepted: "+err.Error(), http.StatusForbidden)
}

// store makes a delivery durable and answers it.
func (c *receiver) store(w http.ResponseWriter, b batch, body []byte) {
	var became outcome
	err := c.inbox.update(func(tx *boltfile.Tx) (err error) {
		became, err = c.inbox.accept(tx, b, body)
		return err
	})
	if err != nil {
		c.unstored(w, err)
		return
	}
	log := c.log.With("notification_id", b.ID, "bytes", len(body), "from", b.From, "until", b.Until)
	switch became {
	case noRoom:
		c.inbox.wakeUp()
		c.postpone(w)
		return
	case duplicate:
		c.inbox.count(func(c *Counts) { c.Duplicates++ })
		log.Debug("a notification that was there came again", "event", "notification_received")
	case held:
		c.inbox.count(func(c *Counts) { c.Received++; c.Early++; c.LastReceived = b.Received })
		log.Info("a notification came before the one that it follows, and waits", "event", "notification_received")
		c.inbox.wakeUp()
	case first:
		c.inbox.count(func(c *Counts) { c.Received++; c.LastReceived = b.Received })
		log.Info("the first notification came, and waits a moment for one that it may have overtaken", "event", "notification_received")
		c.inbox.wakeUp()
	case appended:
		c.inbox.count(func(c *Counts) { c.Received++; c.LastReceived = b.Received })
		log.Debug("a notification came", "event", "notification_received")
		c.inbox.more.tell()
	}
	w.WriteHeader(http.StatusNoContent)
}

func (c *receiver) unstored(w http.ResponseWriter, err error) {
	if c.logLimit.allows("state_failed") {
		c.log.Error("what a hub sent could not be stored; it is told to come again", "event", "state_failed", "error", err)
	}
	w.Header().Set("Retry-After", "10")
	http.Error(w, "It could not be stored.", http.StatusServiceUnavailable)
}

// refused counts and logs what was not let in.
func (c *receiver) refused(r *http.Request, why string) {
	c.inbox.count(func(c *Counts) {
		if c.Refused == nil {
			c.Refused = map[string]uint64{}
		}
		c.Refused[why]++
	})
	if c.logLimit.allows(why) {
		c.log.Warn("a request to the callback was refused; more of the kind are only counted for a minute",
			"event", "refused", "reason", why, "method", r.Method, "remote", r.RemoteAddr)
	}
}
