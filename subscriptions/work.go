package subscriptions

import (
	"bytes"
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"net/http"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/base/fairqueue"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/validate"
	"github.com/rshub/rshub/websub"
)

const (
	// ownRest is the pause after a failure that is the hub's own, such as of its proxy.
	ownRest = 5 * time.Second
	// storeRest is the pause after the store failed, and storeTimeout how long storing the
	// result of a request may take.
	storeRest    = 5 * time.Second
	storeTimeout = 5 * time.Second
	// lentFor is the first pause before checking a request again that another hub owns.
	lentFor = 5 * time.Second
)

// retries are the pauses after the first, second and third try of a
// verification or denial (HUB-26); the fourth is the last.
var retries = fairqueue.Retries{5 * time.Second, 30 * time.Second, 2 * time.Minute}

// enqueue queues the pending request r. Established says that it comes from the subscriber
// of a subscription in force (Subscription.sameSubscriber).
func (s *Service) enqueue(r *Request, established bool) {
	j := newJob(r.SubscriptionID(), egress.HostPortOf(r.Callback))
	j.topicHost = egress.HostPortOf(r.Topic)
	j.check, j.requester, j.established = s.o.needsCheck(r), r.Requester, established
	j.Due, j.slow, j.tries, j.request = due(r, s.o.Clock.Now(), time.Now()), r.Tries > 0, r.Tries, r.ID
	s.queue.add(j)
}

// due returns when r may be tried next, given the monotonic time now and the time of day. A
// time further off than any pause comes from a clock that jumped, and does not count.
func due(r *Request, day, now time.Time) time.Time {
	if d := r.NextAt.Sub(day); d > 0 && d <= 2*retries[len(retries)-1] {
		return now.Add(d) // monotonic, so later jumps of the clock do not matter
	}
	return now
}

// needsCheck reports whether the topic of r has to be checked. That of an unsubscribe never
// is (HUB-20).
func (o *Options) needsCheck(r *Request) bool {
	return o.Check != nil && r.Mode == websub.ModeSubscribe && r.Denied == ""
}

// work does the next step of a job, and reports whether there is another. Each step calls at
// most one host: that of the party for which the job was started.
func (s *Service) work(ctx context.Context, j *job) (keep bool) {
	rec, err := s.o.Store.Get(ctx, j.id)
	if err != nil {
		return s.rest(ctx, j, err)
	}
	r := rec.Request
	if r == nil {
		return false
	}
	now := time.Now()
	if !s.o.owns(j.id) {
		// The request uses its place until its owner has finished it. Check that less and
		// less often.
		if j.lent.IsZero() {
			j.lent = now
		}
		j.Due = now.Add(max(lentFor, now.Sub(j.lent)))
		return true
	}
	j.lent = time.Time{}
	if j.Due = due(r, s.o.Clock.Now(), now); j.Due.After(now) {
		return true
	}
	check, established := s.o.needsCheck(r) && j.checked != r.ID, rec.Subscription.sameSubscriber(r)
	if check != j.check || established != j.established || r.Requester != j.requester {
		j.check, j.established, j.requester = check, established, r.Requester // wait for the turn of these
		return true
	}
	isNew := r.Mode == websub.ModeSubscribe && r.Denied == "" && rec.Subscription == nil
	if isNew && !s.counts.ready() {
		j.Due = now.Add(sweepPause)
		return true
	}
	if isNew {
		if reason := s.counts.refusal(s.counts.tenant(r.Callback, r.Requester)); reason != "" {
			return s.refuse(ctx, j, r, reason)
		}
	}
	switch {
	case r.Denied != "":
		return s.deny(ctx, j, r)
	case j.check:
		return s.checkTopic(ctx, j, r)
	default: // an unsubscribe too, whether there is a subscription or not (HUB-18)
		return s.verify(ctx, j, r, isNew)
	}
}

// checkTopic asks whether the topic may be subscribed to.
func (s *Service) checkTopic(ctx context.Context, j *job, r *Request) (keep bool) {
	err := s.askTopic(j.asker(ctx, r.Topic), r.Topic)
	var denied *validate.DeniedError
	var wait *validate.WaitError
	switch {
	case err == nil:
		s.queue.setFailure(j, "")
		j.checked, j.checks, j.slow = r.ID, 0, r.Tries > 0
		j.check, j.Due = false, time.Now()
		return true
	case errors.As(err, &denied):
		return s.refuse(ctx, j, r, cmp.Or(denied.Reason, "The topic is not served by this hub."))
	case errors.As(err, &wait):
		s.pause(j, wait.After)
		return true
	case ctx.Err() != nil:
		return true
	case j.checks >= len(fairqueue.TopicRetries): // an hour after the first check
		return s.drop(ctx, j, r, "the topic could not be reached")
	}
	const why = "the topic could not be checked"
	e := requestEvent(EventFailed, r, why)
	e.Try, e.Err = j.checks+1, err
	s.o.Event(e)
	s.queue.setFailure(j, why+": "+err.Error())
	j.Due = time.Now().Add(fairqueue.Jitter(fairqueue.TopicRetries[j.checks]))
	j.checks, j.slow = j.checks+1, true
	return true
}

// refuse makes a denial of r (HUB-21).
func (s *Service) refuse(ctx context.Context, j *job, r *Request, reason string) (keep bool) {
	return s.amend(ctx, j, r, func(r Request) *Request {
		r.Denied, r.Tries, r.NextAt = reason, 0, time.Time{}
		return &r
	})
}

// askTopic calls Check within the time of a HEAD and a GET.
func (s *Service) askTopic(ctx context.Context, topic string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*s.o.Timeout)
	defer cancel()
	return s.o.Check.Check(ctx, topic)
}

// verify asks the callback to confirm the request, and carries it out if it does (HUB-22,
// HUB-25). A new subscription needs a place.
func (s *Service) verify(ctx context.Context, j *job, r *Request, isNew bool) (keep bool) {
	challenge, sentAt := websub.NewChallenge(), s.o.Clock.Latest()
	a, sent := s.call(ctx, j, verificationURL(r, challenge), len(challenge)+1)
	if !sent {
		return true
	}
	if confirmed(a.status, a.body, a.err, challenge) {
		s.confirm(j, a)
		if isNew {
			if reason := s.counts.reserve(j.id, s.counts.tenant(r.Callback, r.Requester)); reason != "" {
				return s.refuse(ctx, j, r, reason)
			}
			defer s.counts.release(j.id)
		}
		return s.carryOut(ctx, j, r, sentAt, a)
	}
	if ctx.Err() != nil {
		return true // interrupted by the shutdown: does not count as a try
	}
	if a.err == nil && a.status/100 == 2 {
		a.err = noChallenge(a.body, challenge)
	}
	return s.failed(ctx, j, r, a, a.status == http.StatusNotFound)
}

// noChallenge says why an answer 2xx with this body, of which only the beginning was read, does
// not confirm (HUB-25). It never has the challenge.
func noChallenge(body []byte, challenge string) error {
	after, begins := bytes.CutPrefix(body, []byte(challenge))
	var what string
	switch {
	case len(body) == 0:
		what = "is empty"
	case begins && bytes.IndexAny(after, "\r\n") == 0:
		what = "has a line end after the challenge"
	case begins:
		what = "goes on after the challenge"
	case bytes.HasPrefix(body, []byte(`"`+challenge)):
		what = "has the challenge in quotes, as JSON has"
	case bytes.HasPrefix(body, []byte("\xef\xbb\xbf")):
		what = "has a byte order mark before the challenge"
	case bytes.HasPrefix(body, []byte("\x1f\x8b")):
		what = "is compressed, which this hub did not ask for"
	case bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")):
		what = "begins with a tag, as a page does"
	default:
		what = "is another text"
	}
	return errors.New("the body of the answer " + what + "; it has to be the challenge alone")
}

// confirmed reports whether an answer confirms the request with this challenge (HUB-25).
func confirmed(status int, body []byte, err error, challenge string) bool {
	return err == nil && status/100 == 2 && subtle.ConstantTimeCompare(body, []byte(challenge)) == 1
}

// carryOut puts a verified request into force. An unsubscribe of nothing takes the
// same steps and changes nothing (HUB-18).
func (s *Service) carryOut(ctx context.Context, j *job, r *Request, sentAt time.Time, a answer) (keep bool) {
	ctx, cancel := detached(ctx)
	defer cancel()
	var before *Subscription
	change := func(rec Record) (Record, error) {
		before = rec.Subscription
		return Activate(rec, r.ID, sentAt, s.o.Clock.Latest(), s.o.ResumeWithin)
	}
	e := requestEvent(EventVerified, r, "")
	if r.Mode == websub.ModeUnsubscribe {
		// It ends now. The head is read afterwards, so it has every entry the callback
		// missed.
		now := s.o.Clock.Now()
		head, err := s.o.Heads.Head(ctx, r.Topic)
		if err != nil {
			return s.rest(ctx, j, err)
		}
		change = func(rec Record) (Record, error) {
			before = rec.Subscription
			return Deactivate(rec, r.ID, head, now)
		}
		e = requestEvent(EventEnded, r, EndUnsubscribed)
	}
	rec, err := s.update(ctx, j.id, change)
	if err != nil {
		return s.superseded(ctx, j, err)
	}
	if r.Mode == websub.ModeUnsubscribe && (before == nil || !before.EndedAt.IsZero()) {
		e = requestEvent(EventDropped, r, "there is no subscription to end")
	}
	e.Status, e.Duration, e.Gap = a.status, a.took, newGap(before, rec.Subscription)
	s.o.Event(e)
	return false
}

// deny sends the callback its denial (HUB-21). Any answer below 500 is good; without one,
// it tries again.
func (s *Service) deny(ctx context.Context, j *job, r *Request) (keep bool) {
	a, sent := s.call(ctx, j, denialURL(r), 0)
	switch {
	case !sent:
		return true
	case a.err != nil && ctx.Err() != nil:
		return true
	case a.err != nil, a.status >= http.StatusInternalServerError:
		return s.failed(ctx, j, r, a, false)
	}
	e := requestEvent(EventDenied, r, r.Denied)
	e.Status, e.Duration = a.status, a.took
	return s.remove(ctx, j, r, e)
}

// failed plans the next try of a verification or denial, or drops the
// request after the last one; what was in force before stays as it was (HUB-12,
// HUB-27).
func (s *Service) failed(ctx context.Context, j *job, r *Request, a answer, final bool) (keep bool) {
	e := requestEvent(EventFailed, r, r.Denied)
	e.Status, e.Err, e.Duration = a.status, a.err, a.took
	s.o.Event(e)
	switch {
	case final:
		return s.drop(ctx, j, r, "the callback answered 404: it does not want this")
	case r.Tries >= len(retries) && r.Denied != "":
		return s.drop(ctx, j, r, "denied, but the callback could not be notified, because "+a.failure()+": "+r.Denied)
	case r.Tries >= len(retries):
		return s.drop(ctx, j, r, "the last try failed: "+a.failure())
	}
	s.queue.setFailure(j, a.failure())
	next := s.o.Clock.Now().Add(fairqueue.Jitter(retries[r.Tries]))
	return s.amend(ctx, j, r, func(r Request) *Request {
		r.Tries, r.NextAt = r.Tries+1, next
		return &r
	})
}

// drop removes a request that has no effect.
func (s *Service) drop(ctx context.Context, j *job, r *Request, reason string) (keep bool) {
	return s.remove(ctx, j, r, requestEvent(EventDropped, r, reason))
}

// remove removes a request, and reports e if it was still the pending one.
func (s *Service) remove(ctx context.Context, j *job, r *Request, e Event) (keep bool) {
	keep = s.amend(ctx, j, r, func(Request) *Request { return nil })
	if !keep {
		s.o.Event(e)
	}
	return keep
}

// amend replaces r in the store by the result of change, if r is still the pending request,
// and updates the job. A nil result removes r.
func (s *Service) amend(ctx context.Context, j *job, r *Request, change func(Request) *Request) (keep bool) {
	ctx, cancel := detached(ctx)
	defer cancel()
	rec, err := s.change(ctx, j.id, func(rec Record) (Record, error) {
		if rec.Request == nil || rec.Request.ID != r.ID {
			return rec, ErrSuperseded
		}
		rec.Request = change(*rec.Request)
		return rec, nil
	})
	if err != nil {
		return s.superseded(ctx, j, err)
	}
	if rec.Request == nil {
		return false
	}
	j.check = s.o.needsCheck(rec.Request) && j.checked != r.ID
	j.Due, j.slow, j.tries = due(rec.Request, s.o.Clock.Now(), time.Now()), rec.Request.Tries > 0, rec.Request.Tries
	return true
}

// superseded continues after an Update that changed nothing.
func (s *Service) superseded(ctx context.Context, j *job, err error) (keep bool) {
	if !errors.Is(err, ErrSuperseded) {
		return s.rest(ctx, j, err)
	}
	// The record has a newer request, or none: read it again.
	j.Due, j.slow = time.Now(), false
	return true
}

// rest pauses the queue so that the store can recover; no waiting request is lost. The job of
// a record that cannot be read ends instead, so that others need not wait. A sweep that can
// read the record queues it again.
func (s *Service) rest(ctx context.Context, j *job, err error) (keep bool) {
	if errors.Is(err, journal.ErrPacked) {
		s.trouble(ctx, j.id, err)
		return false
	}
	j.Due = time.Now()
	if s.queue.pauseUntil(j.Due, j.Due.Add(fairqueue.Jitter(storeRest))) { // one event for all that run
		s.trouble(ctx, j.id, err)
	}
	return true
}

// detached returns a context for storing the result of a request, even if ctx has ended
// because the service stops: a callback that confirmed should not be asked again.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
}
