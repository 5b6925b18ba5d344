package subscriptions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/base/fairqueue"
	"github.com/rshub/rshub/websub"
)

// verificationURL returns the callback of a request with the query of HUB-22 appended
// (HUB-23). The lease is the granted one.
func verificationURL(r *Request, challenge string) string {
	params := []websub.Param{
		{Name: websub.ParamMode, Value: string(r.Mode)},
		{Name: websub.ParamTopic, Value: r.Topic},
		{Name: websub.ParamChallenge, Value: challenge},
	}
	if r.Mode == websub.ModeSubscribe {
		seconds := strconv.FormatInt(int64(r.Lease/time.Second), 10)
		params = append(params, websub.Param{Name: websub.ParamLeaseSeconds, Value: seconds})
	}
	return websub.AppendQuery(r.Callback, params...)
}

// denialURL returns the callback of a request with the query of its denial (HUB-21).
func denialURL(r *Request) string {
	return websub.AppendQuery(r.Callback,
		websub.Param{Name: websub.ParamMode, Value: string(websub.ModeDenied)},
		websub.Param{Name: websub.ParamTopic, Value: r.Topic},
		websub.Param{Name: websub.ParamReason, Value: r.Denied})
}

// answer is the result of one GET.
type answer struct {
	status int    // 0: there was no answer
	body   []byte // its first bytes
	err    error
	took   time.Duration
	// confirm returns to the budget what the request used.
	confirm func()
}

// failure says why the answer confirms nothing.
func (a *answer) failure() string {
	switch {
	case a.err == nil:
		return fmt.Sprintf("the callback answered %d", a.status)
	case a.status != 0:
		return fmt.Sprintf("the callback answered %d: %v", a.status, a.err)
	case egress.Classify(a.err) == egress.FailureTimeout:
		return "the callback did not answer in time"
	}
	return a.err.Error()
}

// call sends one GET to the callback of a job's request and reads the first limit bytes
// of the answer. If the budget has no place for it, sent is false and the party is paused
// until there is one. If the hub's proxy fails, sent is false too, and the queue is paused.
func (s *Service) call(ctx context.Context, j *job, rawURL string, limit int) (a answer, sent bool) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	start := time.Now()
	ctx, confirm, wait := s.o.Budget.Begin(j.asker(ctx, j.id.String()), start, j.host)
	if wait > 0 {
		s.pause(j, wait)
		return answer{}, false
	}
	a.status, a.body, a.err = get(ctx, s.o.Client, rawURL, limit)
	a.took, a.confirm = time.Since(start), confirm
	var spent *egress.BudgetError
	if errors.As(a.err, &spent) {
		s.pause(j, spent.Wait)
		return a, false
	}
	if egress.Classify(a.err) == egress.FailureOwn { // does not count as a try: the callback is not at fault
		confirm()
		j.Due = time.Now()
		if s.queue.pauseUntil(j.Due, j.Due.Add(fairqueue.Jitter(ownRest))) { // one event for all that run
			s.o.Event(Event{Name: EventFailed, SubscriptionID: j.id, CallbackHost: j.host, Err: a.err, Duration: a.took})
		}
		return a, false
	}
	return a, true
}

// get returns the status of an answer and the first limit bytes of its body.
func get(ctx context.Context, client Doer, rawURL string, limit int) (status int, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, rawURL, http.NoBody)
	if err != nil {
		return 0, nil, egress.WithoutURL(err)
	}
	// The body is compared byte by byte, and without this any coding is as good (RFC 9110, 12.5.3).
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, egress.Unanswered(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err = io.ReadAll(io.LimitReader(resp.Body, int64(limit)))
	if err != nil {
		err = fmt.Errorf("reading the answer: %w", err)
	}
	return resp.StatusCode, body, err
}

// asker returns a context for the calls of a job. Name is what the job is about: an
// established job has one place of a target's reserve under each name.
func (j *job) asker(ctx context.Context, name string) context.Context {
	a := egress.Asker{Requester: j.requester}
	if j.established {
		a.Reserve, a.Established = name, true
	}
	return egress.WithAsker(ctx, a)
}

// pause makes a job wait, and with it all jobs of its pool whose next step calls the same
// host for the same requester. An established job waits alone: the reserve has a place for
// the others. Only workers call it.
func (s *Service) pause(j *job, wait time.Duration) {
	j.Due = time.Now()
	until := j.Due.Add(max(wait, 10*time.Millisecond))
	if j.established {
		j.Due = until
		return
	}
	s.queue.pauseParty(j, until)
}

// confirm returns the place in the budget after a callback confirmed, and resumes its party.
func (s *Service) confirm(j *job, a answer) {
	a.confirm()
	s.queue.resumeParty(j.party())
}
