package subscriber

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/internal/base/web"
	"github.com/rshub/rshub/websub"
)

var currentKey = []byte("current") // the token of the current subscription

const (
	deniedRest  = time.Hour          // after a hub said no
	lookAgain   = time.Hour          // at the subscription, if nothing else is due
	forgetEnded = 7 * 24 * time.Hour // in which an ended callback answers 410
)

// renewal subscribes, and renews the lease.
type renewal struct {
	o        *Options
	log      *slog.Logger
	inbox    *inbox
	troubles *troubles
}

// keepSubscribed subscribes and renews until ctx ends.
func (r *renewal) keepSubscribed(ctx context.Context) {
	rest := subscribeFirst
	for {
		woken := r.inbox.wake.Wait()
		wait, err := r.subscribe(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			wait = rest
			var status *StatusError
			if errors.As(err, &status) {
				wait = max(wait, min(status.RetryAfter, time.Hour))
			}
			rest = min(2*rest, subscribeMax)
			r.log.Warn("subscribing failed; it is tried again", "event", "subscribe_failed", "topic", r.o.Topic, "error", err, "wait", wait)
			r.troubles.set(subscribing, err)
			woken = nil // nothing shortens this wait
		default:
			rest = subscribeFirst
		}
		if !clock.Wait(ctx, wait, woken) {
			return
		}
	}
}

// subscribe takes the next step and returns how long there is nothing to do.
func (r *renewal) subscribe(ctx context.Context) (time.Duration, error) {
	current, others, err := r.subscriptions()
	if err != nil {
		return 0, err
	}
	now := time.Now()
	if due := current.due(now); due > 0 && !r.o.moved(&current) {
		if current.inForce(now) && current.Wanted == "" {
			r.troubles.set(subscribing, nil)
			if err := r.endOthers(ctx, others); err != nil {
				r.log.Warn("an old subscription could not be ended; it is tried again", "event", "unsubscribe_failed", "error", err)
				due = min(due, subscribeMax)
			}
		}
		return due, nil
	}
	if current.Wanted == websub.ModeSubscribe && !current.AcceptedAt.IsZero() {
		err := fmt.Errorf("the hub %s accepted the request and did not verify it within %s: can it reach %s?", current.Hub, verifyWithin, r.o.Callback)
		r.log.Warn("a subscription was not verified; it is asked for again", "event", "not_verified", "topic", current.Topic, "hub", current.Hub)
		r.troubles.set(subscribing, err)
	}
	found, err := r.discover(ctx)
	if err != nil {
		return 0, err
	}
	hub := choose(found.Hubs, current.Hub)
	if current.Topic != found.Topic || !sameHub(current.Hub, hub) || current.Callback != r.o.callbackOf(current.Token) || !current.EndedAt.IsZero() {
		current = r.o.newSubscription(found.Topic, hub)
	}
	return 2 * time.Second, r.request(ctx, current, websub.ModeSubscribe)
}

// due is how long there is nothing to do for a subscription. A clock that was set back
// does not make it longer than its usual limit.
func (b *subscription) due(now time.Time) time.Duration {
	switch {
	case b.Token == "" || !b.EndedAt.IsZero():
		return 0
	case !b.DeniedAt.IsZero():
		return min(b.DeniedAt.Add(deniedRest).Sub(now), deniedRest)
	case b.Wanted == websub.ModeSubscribe && !b.AcceptedAt.IsZero():
		return min(b.AcceptedAt.Add(verifyWithin).Sub(now), verifyWithin)
	case b.Wanted == websub.ModeSubscribe || !b.inForce(now):
		return 0
	case b.VerifiedAt.Sub(now) > verifyWithin: // the clock was set back, so the end of the lease is unknown
		return 0
	default:
		return min(b.RenewAt.Sub(now), lookAgain)
	}
}

// renewNow renews the current subscription at once, since the hub may have lost it.
func (r *renewal) renewNow() error {
	current, _, err := r.subscriptions()
	if err != nil {
		return err
	}
	defer r.inbox.wake.Broadcast()
	return r.inbox.changeSubscription(current.Token, func(sub *subscription) bool {
		sub.RenewAt = time.Now()
		return true
	})
}

// subscriptions reads the current subscription, and the ones that it replaced.
func (r *renewal) subscriptions() (current subscription, others []subscription, err error) {
	err = r.inbox.db.View(func(tx *boltfile.Tx) error {
		current, _ = readSubscription(tx, string(tx.Bucket(metaBucket).Get(currentKey)))
		others = slices.DeleteFunc(readSubscriptions(tx), func(sub subscription) bool { return sub.Token == current.Token })
		return nil
	})
	return current, others, err
}

// discover finds the topic and its hubs. With Options.Hub, the topic need not answer. With
// Options.Hubs, it need not have a page or name a hub. Then the topic is the one of
// Options.
func (r *renewal) discover(ctx context.Context) (Discovery, error) {
	d, err := Discover(ctx, r.o.Client, r.o.Topic)
	if r.o.Hub != "" {
		d.Topic, d.Hubs = cmp.Or(d.Topic, r.o.Topic), []string{r.o.Hub}
		return d, nil
	}
	if err != nil && len(r.o.Hubs) > 0 && !Away(err) {
		d.Topic, d.Hubs = cmp.Or(d.Topic, r.o.Topic), r.o.Hubs
		return d, nil
	}
	return d, err
}

// request sends a request to subscribe or unsubscribe. It is on disk before, since the hub
// may verify it before it answers (DST-07).
func (r *renewal) request(ctx context.Context, sub subscription, mode websub.Mode) error {
	err := r.inbox.update(func(tx *boltfile.Tx) error {
		if have, found := readSubscription(tx, sub.Token); found { // a hub may have changed it meanwhile
			sub = have
		}
		sub.Wanted, sub.AskedAt, sub.AcceptedAt = mode, time.Now(), time.Time{}
		sub.Denied, sub.DeniedAt = "", time.Time{}
		if mode == websub.ModeSubscribe {
			sub.Asked = r.o.asked()
			if err := tx.Bucket(metaBucket).Put(currentKey, []byte(sub.Token)); err != nil {
				return err
			}
		}
		return putSubscription(tx, sub)
	})
	if err != nil {
		return err
	}
	form := url.Values{
		websub.ParamMode: {string(mode)}, websub.ParamTopic: {sub.Topic}, websub.ParamCallback: {sub.Callback},
	}
	if mode == websub.ModeSubscribe {
		form.Set(websub.ParamLeaseSeconds, strconv.FormatInt(int64(r.o.Lease/time.Second), 10))
		if sub.Secret != "" {
			form.Set(websub.ParamSecret, sub.Secret)
		} else {
			r.log.Warn("the hub is reached over plain http, so its deliveries will not be signed; set InsecureSecret to send it a secret all the same",
				"event", "unsigned", "hub", sub.Hub)
		}
	}
	err = r.post(ctx, sub.Hub, form.Encode())
	var status *StatusError
	if form.Has(websub.ParamLeaseSeconds) && errors.As(err, &status) && status.Status == http.StatusBadRequest {
		// Some hubs refuse any lease in a request. If the hub refuses something else, its
		// second answer says so again.
		r.log.Info("the hub answered 400, and is asked again without a lease", "event", "lease_refused", "hub", sub.Hub, "lease", r.o.Lease, "error", err)
		form.Del(websub.ParamLeaseSeconds)
		err = r.post(ctx, sub.Hub, form.Encode())
	}
	if err != nil {
		return fmt.Errorf("asking the hub to %s: %w", mode, err)
	}
	r.log.Info("the hub accepted the request and will verify it", "event", "accepted", "mode", string(mode), "topic", sub.Topic, "hub", sub.Hub)
	return r.inbox.changeSubscription(sub.Token, func(sub *subscription) bool {
		sub.AcceptedAt = time.Now()
		return sub.Wanted == mode // otherwise it was verified or denied meanwhile
	})
}

// post sends a form to a hub, and follows 307 and 308 (DST-05, DST-06). It sends a secret
// only to URLs that may have one.
func (r *renewal) post(ctx context.Context, hub, form string) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	answer, err := web.Ask(ctx, r.o.Client, web.Request{
		Method: http.MethodPost, URL: hub, Body: form,
		Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}},
		Allow: func(next string) error {
			if strings.Contains(form, url.QueryEscape(websub.ParamSecret)+"=") && !web.Confidential(next) && !r.o.InsecureSecret {
				return errors.New("a secret would be read on the way there")
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	return failure(answer)
}

// endOthers ends the subscriptions that were replaced, and deletes those that ended long
// ago.
func (r *renewal) endOthers(ctx context.Context, others []subscription) error {
	now := time.Now()
	var failed error
	for _, sub := range others {
		gone := !sub.EndedAt.IsZero() && now.Sub(sub.EndedAt) > forgetEnded || sub.EndedAt.IsZero() && !sub.inForce(now) && now.Sub(sub.AskedAt) > forgetEnded
		switch {
		case gone:
			failed = errors.Join(failed, r.inbox.update(func(tx *boltfile.Tx) error { return tx.Bucket(subsBucket).Delete([]byte(sub.Token)) }))
		case sub.inForce(now) && (sub.Wanted != websub.ModeUnsubscribe || now.Sub(sub.AskedAt) > verifyWithin):
			failed = errors.Join(failed, r.request(ctx, sub, websub.ModeUnsubscribe))
		}
	}
	return failed
}

// leave ends what an earlier Run subscribed to, now that notifications come in another way, until nothing is
// in force or ctx ends. Without a Callback no hub could verify that.
func (r *renewal) leave(ctx context.Context) {
	for {
		woken := r.inbox.wake.Wait()
		current, others, err := r.subscriptions()
		left := slices.DeleteFunc(append(others, current), func(sub subscription) bool { return !sub.inForce(time.Now()) })
		switch {
		case err == nil && len(left) == 0:
			return
		case err == nil && r.o.Callback == "":
			for _, sub := range left {
				r.log.Warn("an earlier subscription stays until its lease ends, and what the hub delivers to its callback is lost; to have it ended, name a Callback at which this hub can verify that",
					"event", "subscription_left", "topic", sub.Topic, "hub", sub.Hub, "callback", sub.Callback, "expires_at", sub.ExpiresAt)
			}
			return
		case err == nil:
			err = r.endOthers(ctx, left)
		}
		wait := verifyWithin
		if err != nil && ctx.Err() == nil {
			r.log.Warn("an old subscription could not be ended; it is tried again", "event", "unsubscribe_failed", "error", err)
			wait, woken = subscribeMax, nil
		}
		if !clock.Wait(ctx, wait, woken) {
			return
		}
	}
}

// Unsubscribe asks the hub to end every subscription that is in force (DST-14).
// The hub verifies that at Handler, so keep serving it. Until then, deliveries may come.
// It must not be called while Run runs, which would subscribe again.
func (s *Subscriber) Unsubscribe(ctx context.Context) error {
	all, err := boltfile.Read(s.inbox.db, readSubscriptions)
	for _, sub := range all {
		if sub.inForce(time.Now()) {
			err = errors.Join(err, s.renewal.request(ctx, sub, websub.ModeUnsubscribe))
		}
	}
	return err
}
