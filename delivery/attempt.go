package delivery

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/base/post"
	"github.com/rshub/rshub/internal/base/web"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/websub"
)

// exchange is what one delivery attempt sends.
type exchange struct {
	callback, secret string
	attempt          uint32 // from 1
	body             *body
}

// outcome is the result of an exchange.
type outcome struct {
	Result
	err      error  // why there is no answer
	answer   []byte // the beginning of one that says that it failed
	cutOff   bool   // by the hub, so it counts as no attempt
	started  time.Time
	duration time.Duration
	limit    time.Duration // of the duration
}

// attempt makes the exchange.
func (s *sender) attempt(_ context.Context, d *delivery) bool {
	d.out = s.client.attempt(d.set.ctx, exchange{ //nolint:contextcheck // ends with the shard, and with the context of all exchanges
		callback: d.texts.callback(d.lane.host.origin), secret: d.texts.secret(), attempt: d.number(), body: d.body,
	})
	if len(d.out.answer) > 0 {
		s.answers.add(d.lane.id, Answer{d.body.entry.ID, d.number(), d.out.answer})
	}
	if d.out.cutOff {
		s.report.attempt(d, OutcomeCutOff, time.Time{})
		s.giveBack(&d.job)
	}
	return !d.out.cutOff
}

// client makes the exchanges. It stores nothing about them.
type client struct {
	poster    poster
	signature websub.SignatureMethod
	timeout   time.Duration // without progress
	clock     journal.Clock
}

// attempt makes one HTTP exchange (WebSub 7, HUB-40 to HUB-47). Ctx cuts it off.
func (c *client) attempt(ctx context.Context, x exchange) outcome {
	out := outcome{started: time.Now(), limit: exchangeLimit(c.timeout, x.body.entry.Size)}
	a, err := c.post(ctx, x, out.limit)
	out.duration = time.Since(out.started)
	switch {
	case err == nil:
		// Retry-After has no limit here: decide has one, --retry-max.
		out.Status, out.answer, out.RetryAfter = a.Status, a.Body, c.retryAfter(a.RetryAfter)
	case ctx.Err() != nil:
		out.cutOff = true
	default:
		out.Status, out.err = cmp.Or(failureStatus[egress.Classify(err)], journal.StatusError), egress.Unanswered(err)
	}
	return out
}

// post sends the request. Only the status of the answer means anything, and its Retry-After
// (HUB-46). Of one that says that the delivery failed, the operator sees the beginning.
func (c *client) post(ctx context.Context, x exchange, whole time.Duration) (post.Answer, error) {
	e := &x.body.entry
	var own [2]post.Field
	fields := append(own[:0], post.Field{Name: "RSHub-Attempt", Value: strconv.FormatUint(uint64(x.attempt), 10)})
	if x.secret != "" {
		fields = append(fields, post.Field{Name: websub.HeaderSignature, Value: c.signature.Sign(x.secret, e.Body)})
	}
	return c.poster.Post(ctx, &post.Request{
		URL: x.callback, Head: x.body.head, Own: fields, Body: e.Body,
		Stall: c.timeout, Whole: whole, Rest: readFor, Read: readLimit, Keep: AnswerLimit,
	})
}

func (c *client) retryAfter(value string) time.Duration {
	if value == "" {
		return 0
	}
	return web.RetryAfter(http.Header{"Retry-After": {value}}, c.clock.Now(), math.MaxInt64)
}

// exchangeLimit is how long an exchange may take with a body of size bytes.
func exchangeLimit(timeout time.Duration, size int64) time.Duration {
	return web.Pace{Stall: timeout, Rate: byteRate}.Limit(size)
}

// failureStatus is the status of an exchange without an answer, by the failure.
var failureStatus = map[egress.Failure]int{
	egress.FailureTimeout: journal.StatusTimeout,
	egress.FailureConnect: journal.StatusConnect,
	egress.FailureRefused: journal.StatusRefused,
}

// headOf has the fields that are the same in all deliveries of an entry (HUB-41 to HUB-44).
func headOf(topic, hub, userAgent string, e *journal.Entry) *post.Head {
	fields := []post.Field{
		{Name: "User-Agent", Value: userAgent},
		{Name: "Link", Value: linkHeader(topic, hub, e.Links)},
		{Name: "Webhook-Id", Value: e.ID.String()},
	}
	if e.MediaType != "" {
		fields = append(fields, post.Field{Name: "Content-Type", Value: e.MediaType})
	}
	return post.NewHead(fields...)
}

// linkHeader is the one Link header of a delivery (HUB-43, HUB-44).
func linkHeader(topic, hub string, relayed []string) string {
	link := websub.FormatLinks(
		websub.Link{Target: topic, Rels: []string{websub.RelSelf}},
		websub.Link{Target: hub, Rels: []string{websub.RelHub}},
	)
	for _, l := range relayed {
		link += ", " + l
	}
	return link
}
