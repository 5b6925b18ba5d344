package delivery

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
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
		callback: d.lane.callback(), secret: d.secret, attempt: d.cursor.attempt + 1, body: d.body,
	})
	if len(d.out.answer) > 0 {
		s.answers.add(d.lane.id, Answer{d.body.entry.ID, d.cursor.attempt + 1, d.out.answer})
	}
	if d.out.cutOff {
		s.report.attempt(d, OutcomeCutOff, time.Time{})
		s.giveBack(&d.job)
	}
	return !d.out.cutOff
}

// client makes the exchanges. It stores nothing about them.
type client struct {
	doer      Doer
	userAgent string
	signature websub.SignatureMethod
	timeout   time.Duration // without progress
	clock     journal.Clock
}

// attempt makes one HTTP exchange (WebSub 7, HUB-40 to HUB-47). Ctx cuts it off.
func (c *client) attempt(ctx context.Context, x exchange) outcome {
	out := outcome{started: time.Now(), limit: exchangeLimit(c.timeout, x.body.entry.Size)}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := newWatch(cancel, c.timeout, out.limit)
	defer w.stop()

	err := c.post(ctx, w, x, &out)
	out.duration = time.Since(out.started)
	if err == nil {
		return out
	}
	// The cause of the cut-off says more than the error that followed from it.
	var slow *slowError
	cause := context.Cause(ctx)
	switch {
	case errors.As(cause, &slow):
		out.Status, out.err = journal.StatusTimeout, slow
	case cause != nil:
		out.cutOff = true
	default:
		out.Status, out.err = cmp.Or(failureStatus[egress.Classify(err)], journal.StatusError), egress.WithoutURL(err)
	}
	return out
}

// post sends the request. It stores in out the status of the answer, its Retry-After and,
// for the operator, the beginning of one that says that the delivery failed. The rest of the
// answer means nothing (HUB-46): a little of it is read, for a moment, so that the connection
// can be used again. Retry-After has no limit here: decide has one, --retry-max.
func (c *client) post(ctx context.Context, w *watch, x exchange, out *outcome) error {
	req, err := c.request(ctx, w, x)
	if err != nil {
		return err
	}
	resp, err := c.doer.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // the answer means nothing
	out.Status = resp.StatusCode
	if resp.ContentLength != 0 {
		w.answered()
		if !out.delivered() {
			out.answer, _ = io.ReadAll(io.LimitReader(resp.Body, AnswerLimit)) // nor does an error in it
		}
		_, _ = io.CopyN(io.Discard, resp.Body, readLimit-int64(len(out.answer)))
	}
	out.RetryAfter = web.RetryAfter(resp.Header, c.clock.Now(), math.MaxInt64)
	return nil
}

func (c *client) request(ctx context.Context, w *watch, x exchange) (*http.Request, error) {
	e := &x.body.entry
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.callback, nil)
	if err != nil {
		return nil, err
	}
	verbatim(req.URL, x.callback)
	// All values are in one array, because each delivery makes them.
	values := make([]string, 0, 6)
	one := func(v string) []string {
		values = append(values, v)
		return values[len(values)-1 : len(values) : len(values)]
	}
	// These keys are already spelled as net/http spells them.
	req.Header = http.Header{
		"User-Agent":    one(c.userAgent),
		"Link":          one(x.body.link),
		"Webhook-Id":    one(x.body.id),
		"RSHub-Attempt": one(strconv.FormatUint(uint64(x.attempt), 10)),
		// It is never sent. With it the transport repeats a request that was lost because
		// the other side closed a keep-alive connection.
		"Idempotency-Key": nil,
	}
	if e.MediaType != "" {
		req.Header["Content-Type"] = one(e.MediaType)
	}
	if x.secret != "" {
		req.Header[websub.HeaderSignature] = one(c.signature.Sign(x.secret, e.Body))
	}
	if len(e.Body) > 0 {
		req.ContentLength = int64(len(e.Body))
		req.GetBody = func() (io.ReadCloser, error) {
			return w.sending(e.Body), nil
		}
		req.Body, _ = req.GetBody()
	}
	return req, nil
}

// verbatim makes net/http send u as it is in raw, and not percent-encoded anew (HUB-40).
func verbatim(u *url.URL, raw string) {
	_, rest, _ := strings.Cut(raw, "://")
	host, path := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		host, path = rest[:i], rest[i:]
	}
	path, _, _ = strings.Cut(path, "?")
	switch {
	case path == u.EscapedPath():
	case strings.HasPrefix(path, "//"):
		u.Opaque = "//" + host + path
	default:
		u.Opaque = path
	}
}

// oneWrite is the longest body, in bytes, that is not watched on its way, because it is
// written at once. Net/http knows the plain reader, and sends such a body together with its
// header.
const oneWrite = 32 << 10

// sending is a reader of a body on its way. Each time that the transport reads some of a
// longer one counts as progress.
func (w *watch) sending(body []byte) io.ReadCloser {
	if len(body) <= oneWrite {
		return io.NopCloser(bytes.NewReader(body))
	}
	return &watched{*bytes.NewReader(body), w}
}

type watched struct {
	body bytes.Reader
	w    *watch
}

func (b *watched) Read(p []byte) (int, error) {
	b.w.progress()
	return b.body.Read(p)
}

func (b *watched) Close() error { return nil }

// failureStatus is the status of an exchange without an answer, by the failure.
var failureStatus = map[egress.Failure]int{
	egress.FailureTimeout: journal.StatusTimeout,
	egress.FailureConnect: journal.StatusConnect,
	egress.FailureRefused: journal.StatusRefused,
}

// slowError is the cause when a watch cuts an exchange off.
type slowError struct {
	after   time.Duration
	stalled bool
}

func (e *slowError) Error() string {
	if e.stalled {
		return fmt.Sprintf("the callback made no progress for %v", e.after)
	}
	return fmt.Sprintf("the exchange took longer than %v", e.after)
}

// Timeout makes the error a timeout of package net.
func (e *slowError) Timeout() bool { return true }

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
