package admin

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"
	"go.uber.org/zap"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/validate"
)

const (
	// changeTimeout is how long a change may take. It goes on if the client disconnects, so
	// that the log has the result.
	changeTimeout = 30 * time.Second
	// startingRetry is the Retry-After, in seconds, of a hub that is starting.
	startingRetry = 2
	// maxResets is how often a reset is tried while notifications arrive for the topic.
	maxResets = 100
)

// The events of the log that say who asked for a change, and what came of it.
const (
	EventOperatorAction   = "operator_action"
	EventSubscriberAction = "subscriber_action" // with a link to a subscription
)

// endNotice is the reason in the denial when the operator ends a subscription.
const endNotice = "The operator of the hub has ended the subscription."

// change is the handler of a call that changes something. Do returns the answer, and the
// log field that names what it changed. Each call writes one log line, also if it fails.
func (a *Options) change(action string, do func(r *http.Request) (answer any, what zap.Field, err error)) func(http.ResponseWriter, *http.Request) error {
	handle := a.logged(action, func(r *http.Request) (any, zap.Field, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), changeTimeout)
		defer cancel()
		return do(r.WithContext(subscriptions.AskedBy(ctx, personOf(ctx).name)))
	})
	return func(w http.ResponseWriter, r *http.Request) error {
		// The body has to arrive in the same time. Not every ResponseWriter of a test
		// supports that.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(changeTimeout))
		return handle(w, r)
	}
}

// logged is change without a time limit: the context ends if the client disconnects. There is no
// limit for reading either, because package http ends the context when that has passed.
func (a *Options) logged(action string, do func(r *http.Request) (answer any, what zap.Field, err error)) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		if RoleOf(r.Context()) != Operator {
			return refuse(http.StatusForbidden, "A reader, such as one with the token of --admin-readonly-token-file, may change nothing. Use the token of --admin-token-file, or the role operator.")
		}
		began := time.Now()
		answer, what, err := do(r)

		status, outcome, reason := http.StatusOK, "done", zap.Skip()
		if part, ok := answer.(interface{ unfinished() bool }); ok && part.unfinished() {
			status, outcome = http.StatusAccepted, "begun"
		}
		write := func() error { return writeAs(w, status, answer) }
		if file, ok := answer.(*Backup); ok {
			write = func() error { return file.write(w) }
		}
		log := a.Log.Info
		if err != nil {
			p := problemOf(err)
			status, outcome, reason = p.status, "refused", zap.String("reason", p.detail)
			write = func() error { writeProblem(w, p); return nil }
			if status >= http.StatusInternalServerError {
				outcome, log = "failed", a.Log.Warn
			}
		}
		who, message, event := personOf(r.Context()), "the operator asked for a change", EventOperatorAction
		if who.linked {
			message, event = "the holder of a link asked for a change", EventSubscriberAction
		}
		log(message, zap.String("event", event), zap.String("action", action), what,
			zap.String("outcome", outcome), zap.Int("status", status), reason,
			zap.String("who", who.name), zap.String("requester", a.requester(r)), requestID(w), zap.Duration("duration", time.Since(began)))
		return write()
	}
}

// requestID is the log field for the X-Request-Id of an answer. There is none if the server
// did not set it.
func requestID(w http.ResponseWriter) zap.Field {
	if id := w.Header().Get("X-Request-Id"); id != "" {
		return zap.String("request_id", id)
	}
	return zap.Skip()
}

// requester is the address that a request came from; behind a proxy of People, that of the
// person.
func (a *Options) requester(r *http.Request) string {
	if addr := a.People.proxies().Requester(r); addr.IsValid() {
		return addr.String()
	}
	return r.RemoteAddr
}

// control returns the Control, or a problem while the hub is starting.
func (a *Options) control() (Control, error) {
	if a.Control != nil {
		if c := a.Control(); c != nil {
			return c, nil
		}
	}
	p := refuse(http.StatusServiceUnavailable, "The hub is starting; try again in a moment.")
	p.retryAfter = startingRetry
	return nil, p
}

func (a *topicCalls) resetTopic(r *http.Request) (any, zap.Field, error) {
	id := mux.Vars(r)["id"]
	what := zap.String("topic", id)
	if err := noBody(r); err != nil {
		return nil, what, err
	}
	t, err := a.topicState(r.Context(), id)
	if err != nil {
		return nil, what, err
	}
	what = zap.String("topic", t.head.Topic)
	// A topic without notifications may start anywhere, with any kind: it needs no reset.
	for range maxResets {
		if t.head.Version == "" || t.head.Reset && t.head.Kind == "" || t.head.IsTombstone() {
			return a.topic(t), what, nil
		}
		switch err := a.Topics.Reset(r.Context(), t.head.Topic, t.head.Version); {
		case err == nil:
			t.head.Reset, t.head.Kind = true, ""
			return a.topic(t), what, nil
		case !errors.Is(err, journal.ErrHeadMoved):
			return nil, what, err
		default:
			if t.head, err = a.Topics.Head(r.Context(), t.head.Topic); err != nil {
				return nil, what, err
			}
		}
	}
	return nil, what, refuse(http.StatusConflict, "The topic is being published to so fast that it could not be reset; stop its Source first, or try again.")
}

// reload refuses if one thing cannot be used. The answer also names what was read again.
func (a *api) reload(r *http.Request) (any, zap.Field, error) {
	if err := noBody(r); err != nil {
		return nil, zap.Skip(), err
	}
	all := a.Reload()
	var failed, read []string
	for _, item := range all {
		if item.Error != "" {
			failed = append(failed, item.What+": "+item.Error)
		} else {
			read = append(read, item.What)
		}
	}
	if len(failed) == 0 {
		return ReloadAnswer{all}, zap.Strings("read", read), nil
	}
	also := ""
	if len(read) > 0 {
		also = " Read again: " + strings.Join(read, ", ") + "."
	}
	return nil, zap.Strings("read", read), refuse(http.StatusUnprocessableEntity, "Some files could not be read, so the earlier content stays in force: %s.%s", strings.Join(failed, "; "), also)
}

// ofSubscription is the change that do makes of one subscription.
func (a *subscriptionCalls) ofSubscription(do func(r *http.Request, c Control, id uuid.UUID) (any, error)) func(*http.Request) (any, zap.Field, error) {
	return func(r *http.Request) (any, zap.Field, error) {
		raw := mux.Vars(r)["id"]
		what := zap.String("subscription_id", raw)
		id, err := subscriptionID(raw)
		if err != nil {
			return nil, what, err
		}
		c, err := a.control()
		if err != nil {
			return nil, what, err
		}
		answer, err := do(r, c, id)
		var wait *validate.WaitError
		switch {
		case errors.Is(err, subscriptions.ErrNotFound):
			err = noSubscription(id)
		case errors.Is(err, subscriptions.ErrPaused):
			err = refuse(http.StatusConflict, "Subscription %s is paused, so nothing is tried. Resume it first.", id)
		case errors.As(err, &wait):
			p := refuse(http.StatusTooManyRequests, "The callback's host was asked too often lately (--verify-budget). Try again later.")
			p.retryAfter = int(wait.After.Seconds()) + 1
			err = p
		case errors.Is(err, subscriptions.ErrEnded):
			err = a.notInForce(r.Context(), id)
		}
		return answer, what, err
	}
}

// notInForce says why a subscription gets nothing.
func (a *subscriptionCalls) notInForce(ctx context.Context, id uuid.UUID) error {
	_, rec, err := a.record(ctx, id.String())
	if err != nil {
		return err
	}
	if rec.State(a.Now()) == subscriptions.StatePending {
		return refuse(http.StatusConflict, "Subscription %s is not in force yet: its callback has not confirmed it. Retry the subscription to ask it now.", id)
	}
	return refuse(http.StatusConflict, "Subscription %s gets nothing: it has ended, or its lease ran out. Its subscriber has to subscribe again.", id)
}

func (a *subscriptionCalls) retry(r *http.Request, c Control, id uuid.UUID) (any, error) {
	return a.plain(r, id, c.Retry)
}

func (a *subscriptionCalls) pause(r *http.Request, c Control, id uuid.UUID) (any, error) {
	return a.plain(r, id, c.Pause)
}

func (a *subscriptionCalls) resume(r *http.Request, c Control, id uuid.UUID) (any, error) {
	return a.plain(r, id, c.Resume)
}

// plain makes a change that needs nothing but the id.
func (a *subscriptionCalls) plain(r *http.Request, id uuid.UUID, do func(context.Context, uuid.UUID) (subscriptions.Record, error)) (any, error) {
	if err := noBody(r); err != nil {
		return nil, err
	}
	rec, err := do(r.Context(), id)
	if err != nil && !errors.Is(err, subscriptions.ErrUnchanged) {
		return nil, err
	}
	return a.changed(r, rec)
}

func (a *subscriptionCalls) verify(r *http.Request, c Control, id uuid.UUID) (any, error) {
	if err := noBody(r); err != nil {
		return nil, err
	}
	v, err := c.Verify(r.Context(), id)
	if err != nil {
		return nil, err
	}
	out := Verification{Confirmed: v.Confirmed, Status: v.Status, Answer: Readable(v.Answer), Duration: v.Took.Seconds()}
	if v.Err != nil {
		out.Error = v.Err.Error()
	}
	return out, nil
}

func (a *subscriptionCalls) replay(r *http.Request, c Control, id uuid.UUID) (any, error) {
	req, err := readReplay(r)
	if err != nil {
		return nil, err
	}
	n, rec, err := c.Replay(req.Since)(r.Context(), id)
	if err != nil {
		return nil, err
	}
	s, err := a.changed(r, rec)
	return Replay{Notifications: n, Subscription: s}, err
}

func (a *subscriptionCalls) endSubscription(r *http.Request, c Control, id uuid.UUID) (any, error) {
	if err := noBody(r); err != nil {
		return nil, err
	}
	_, before, err := a.record(r.Context(), id.String())
	if err != nil {
		return nil, err
	}
	if err := c.End(r.Context(), id, subscriptions.EndRemoved, endNotice); err != nil {
		return nil, err
	}
	rec, err := a.Subscriptions.Get(r.Context(), id)
	if err != nil {
		return nil, err
	}
	if rec.Subscription == nil && rec.Request == nil {
		// It was only requested and the callback has the denial already, or it ended long
		// ago and was deleted just now.
		if rec = before; rec.Request != nil {
			rec.Request.Denied = endNotice
		}
	}
	return a.changed(r, rec)
}

// changed is a subscription after its change.
func (a *subscriptionCalls) changed(r *http.Request, rec subscriptions.Record) (Subscription, error) {
	return subscription(r.Context(), rec, a.Now(), a.heads())
}
