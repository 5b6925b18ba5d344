package subscriber

import (
	"cmp"
	"context"
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
	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/base/excerpt"
	"github.com/rshub/rshub/internal/base/quiet"
	"github.com/rshub/rshub/websub"
)

// Handler answers hubs at Options.Callback and below it. They verify (GET) and deliver
// (POST). It works as soon as the Subscriber is open, and any server can mount it: only
// the last segment of the path counts.
//
// A delivery is answered 204 once it is on disk, was there before, or cannot be of use;
// 503 if there is no room for it now. A verification is answered 404 unless the subscriber
// itself asked for it within the last three minutes (DST-07).
func (s *Subscriber) Handler() http.Handler { return http.HandlerFunc(s.receiver.serve) }

// receiver answers hubs.
type receiver struct {
	o        *Options
	log      *slog.Logger
	inbox    *inbox
	repairer *repairer
	quiet    *quiet.Limit

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
		http.Error(w, "A WebSub callback answers GET and POST.", http.StatusMethodNotAllowed)
	}
}

// errNotAsked says that a hub verifies a request that the subscriber did not make.
var errNotAsked = errors.New("not asked for")

// verify answers a verification of intent or a denial (DST-07 to DST-09). Only a request
// that the subscriber made is worth a write to the disk.
func (c *receiver) verify(w http.ResponseWriter, r *http.Request, token string) {
	q, _ := url.ParseQuery(r.URL.RawQuery) // a query that cannot be read names no request
	mode, topic, challenge := websub.Mode(q.Get(websub.ParamMode)), q.Get(websub.ParamTopic), q.Get(websub.ParamChallenge)
	lease, _ := strconv.ParseInt(q.Get(websub.ParamLeaseSeconds), 10, 64)
	var sub subscription
	var renewed, again bool
	answer := func(tx *boltfile.Tx) error {
		have, found := readSubscription(tx, token)
		if !found || have.Topic != topic || challenge == "" && mode != websub.ModeDenied {
			return errNotAsked
		}
		sub, renewed = have, have.inForce(time.Now()) && !have.Lost
		again = mode == websub.ModeDenied && !have.DeniedAt.IsZero()
		if !sub.answer(mode, lease, q.Get(websub.ParamReason), time.Now()) {
			return errNotAsked
		}
		return nil
	}
	err := c.inbox.db.View(answer)
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
		c.refuse(w, r, "unasked", "This was not asked for.", http.StatusNotFound)
		return
	case err != nil:
		c.unstored(w, err)
		return
	}
	switch {
	case again: // repeated denials fill neither the log nor the disk
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
	c.inbox.wake.Broadcast()
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(challenge)))
	_, _ = io.WriteString(w, challenge) //nolint:gosec // plain text, marked as such, for a client that knows the token
}

// answer changes a subscription as a hub verifies it, and reports whether the subscriber
// asked for that. A lease without a length is a day. It runs from now (DST-08).
//
// A denial counts at any time (DST-09). It lets nobody in, and the subscriber asks the hub
// again an hour after the first one, however often the hub repeats it.
func (b *subscription) answer(mode websub.Mode, lease int64, reason string, now time.Time) bool {
	switch {
	case mode == websub.ModeDenied && b.EndedAt.IsZero() && !b.DeniedAt.IsZero():
		// It is repeated.
	case mode == websub.ModeDenied && b.EndedAt.IsZero():
		b.Denied, b.DeniedAt = cmp.Or(excerpt.Of([]byte(reason), maxText), "no reason given"), now
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
		b.VerifiedAt, b.ExpiresAt, b.Lost = now, now.Add(d), false
		b.RenewAt = now.Add(time.Duration(float64(min(d, renewWithin)) * (0.75 + 0.1*rand.Float64()))) //nolint:gosec // spreads load, keeps no secret
	case b.EndedAt.IsZero():
		b.Wanted, b.ExpiresAt, b.EndedAt = "", time.Time{}, now
	}
	return true
}

// expects reports whether the hub may verify mode now (DST-07). It may for verifyWithin
// after the subscriber asked for it, and more than once, since the hub may not have got the
// answer. At any other time somebody else asked the hub, with another secret.
func (b *subscription) expects(mode websub.Mode, now time.Time) bool {
	asked := clock.Later(b.AskedAt, b.AcceptedAt)
	switch {
	case now.Sub(asked).Abs() > verifyWithin: // also if the clock was set back
		return false
	case b.Wanted != "":
		return b.Wanted == mode && b.EndedAt.IsZero()
	case mode == websub.ModeSubscribe:
		return b.inForce(now)
	default:
		return mode == websub.ModeUnsubscribe && !b.EndedAt.IsZero()
	}
}

// receive stores and answers a delivery. Its callback alone says which subscription it is
// for, and with which secret it is signed (DST-12).
func (c *receiver) receive(w http.ResponseWriter, r *http.Request, token string) {
	var sub subscription
	var found bool
	until, err := boltfile.Read(c.inbox.db, func(tx *boltfile.Tx) time.Time {
		sub, found = readSubscription(tx, token)
		return c.inbox.tail(tx).Until
	})
	switch {
	case err != nil:
		c.unstored(w, err)
		return
	case !found:
		c.refuse(w, r, "unknown callback", "There is no such callback.", http.StatusNotFound)
		return
	case !sub.EndedAt.IsZero():
		c.refuse(w, r, "ended", "The subscription is ended.", http.StatusGone)
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
	b, err := examine(r.Header.Get("Content-Type"), body, !until.IsZero())
	if err != nil {
		c.refuse(w, r, "invalid", err.Error(), http.StatusUnprocessableEntity)
		return
	}
	b.ID = r.Header.Get("Webhook-Id")
	c.store(w, r, b, body)
}

// read reads a delivery, and answers one that it cannot read. The memory of all deliveries
// and the time of one are bounded. Done releases the memory.
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
	wire := http.NewResponseController(w) // a server without deadlines has its own timeouts
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
	c.refuse(w, r, "too large", "The notification is larger than this subscriber accepts.", http.StatusRequestEntityTooLarge)
}

// postpone asks the hub to send a notification again later, since there is no room for it.
func (c *receiver) postpone(w http.ResponseWriter) {
	c.inbox.count(func(c *Counts) { c.Postponed++ })
	unavailable(w, "There is no room for more notifications now.")
}

func unavailable(w http.ResponseWriter, why string) {
	w.Header().Set("Retry-After", "10")
	http.Error(w, why, http.StatusServiceUnavailable)
}

// forged answers a delivery without a signature, or with a wrong one (DST-13). It names
// the method of a right signature that is too weak: that hub gets nothing through until
// MinSignature allows the method, so its operator has to learn why.
func (c *receiver) forged(w http.ResponseWriter, r *http.Request, secret string, body []byte, err error) {
	header := r.Header.Get(websub.HeaderSignature)
	why, text, status := "wrong signature", "The signature is not accepted: "+err.Error(), http.StatusForbidden
	switch {
	case errors.Is(err, websub.ErrSignatureMissing):
		why, text, status = "unsigned", "The notification is not signed.", http.StatusUnauthorized
	case errors.Is(err, websub.ErrSignatureMethod) && websub.VerifySignature(header, secret, body) == nil:
		method, _, _ := strings.Cut(header, "=")
		why = fmt.Sprintf("weak signature: the hub signs with %s, and Options.MinSignature is %s", method, c.o.MinSignature)
	}
	c.refuse(w, r, why, text, status)
}

// received says what is logged about each outcome of a delivery.
var received = map[outcome]struct {
	level slog.Level
	text  string
}{
	appended:  {slog.LevelDebug, "a notification came"},
	duplicate: {slog.LevelDebug, "a notification that was there came again"},
	early:     {slog.LevelInfo, "a notification came before the one that it follows, and waits"},
	first:     {slog.LevelInfo, "the first notification came, and waits a moment for one that it may have overtaken"},
}

// store makes a delivery durable and answers it.
func (c *receiver) store(w http.ResponseWriter, r *http.Request, b batch, body []byte) {
	switch became, err := c.inbox.receive(r.Context(), c.log, b, body, nil); {
	case err != nil:
		c.unstored(w, err)
	case became == noRoom:
		c.postpone(w)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// receive makes a notification durable, whatever way it came, and counts it. Also, if not nil, is
// stored together with it, unless there is no room.
func (in *inbox) receive(ctx context.Context, log *slog.Logger, b batch, body []byte, also func(*boltfile.Tx) error) (outcome, error) {
	var became outcome
	err := in.update(func(tx *boltfile.Tx) (err error) {
		if became, err = in.accept(tx, b, body); err == nil && became != noRoom && also != nil {
			err = also(tx)
		}
		return err
	})
	switch {
	case err != nil || became == noRoom:
		return became, err
	case became == appended:
		in.more.Broadcast()
	case became != duplicate:
		in.wake.Broadcast()
	}
	in.count(func(c *Counts) {
		if became == duplicate {
			c.Duplicates++
			return
		}
		if became == early {
			c.Early++
		}
		c.Received++
		c.LastReceived = b.Received
	})
	log.Log(ctx, received[became].level, received[became].text, "event", "notification_received",
		"notification_id", b.ID, "bytes", len(body), "from", b.From, "until", b.Until)
	return became, nil
}

func (c *receiver) unstored(w http.ResponseWriter, err error) {
	if _, ok := c.quiet.Line(time.Now(), "state_failed"); ok {
		c.log.Error("what a hub sent could not be stored; it is asked to send it again", "event", "state_failed", "error", err)
	}
	unavailable(w, "It could not be stored.")
}

// refuse answers, counts and logs a request that the subscriber does not accept.
func (c *receiver) refuse(w http.ResponseWriter, r *http.Request, why, text string, status int) {
	c.inbox.count(func(c *Counts) { c.Refused[why]++ })
	if _, ok := c.quiet.Line(time.Now(), why); ok {
		c.log.Warn("a request to the callback was refused; more of the kind are only counted for a minute",
			"event", "refused", "reason", why, "method", r.Method, "remote", r.RemoteAddr)
	}
	http.Error(w, text, status)
}
