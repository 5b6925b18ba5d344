package web

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"time"
)

// Pace is how slow an exchange may be.
type Pace struct {
	// Stall is how long the other side may take for the header, and later without
	// sending a byte.
	Stall time.Duration
	// Rate is how many bytes a second it has to send on average, after the first
	// Stall; 0: any number, as in a stream that is idle.
	Rate int64
}

// Limit is how long size bytes may take as a whole.
func (p Pace) Limit(size int64) time.Duration {
	if p.Rate == 0 {
		return math.MaxInt64
	}
	return p.Stall + time.Duration(float64(size)/float64(p.Rate)*float64(time.Second))
}

// stalledError is ErrSlow.
type stalledError struct{}

func (stalledError) Error() string { return "the answer stalled or came too slowly" }

// Timeout makes it a FailureTimeout for egress.Classify.
func (stalledError) Timeout() bool { return true }

// Temporary makes it a net.Error.
func (stalledError) Temporary() bool { return true }

// ErrSlow is the error of an exchange, or of reading its body, that is slower than
// its Pace.
var ErrSlow error = stalledError{}

// Do sends a request through client, and has the answer and its body keep to the pace.
// Only the time in which somebody waits for the body counts, so a reader that takes its
// time does not end the exchange. The context of the request may bound it further. The
// caller closes the body.
func (p Pace) Do(client Doer, req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	timer := time.AfterFunc(p.Stall, func() { cancel(ErrSlow) })
	resp, err := client.Do(req.WithContext(ctx))
	timer.Stop()
	if err != nil {
		if errors.Is(context.Cause(ctx), ErrSlow) {
			err = ErrSlow
		}
		cancel(nil)
		return nil, err
	}
	resp.Body = &pacedBody{ReadCloser: resp.Body, pace: p, ctx: ctx, cancel: cancel, timer: timer}
	return resp, nil
}

// pacedBody is a body that ends with ErrSlow when it is slower than its pace.
type pacedBody struct {
	io.ReadCloser
	pace   Pace
	ctx    context.Context //nolint:containedctx // that of the request
	cancel context.CancelCauseFunc
	timer  *time.Timer
	waited time.Duration
	n      int64
}

func (b *pacedBody) Read(p []byte) (int, error) {
	began := time.Now()
	b.timer.Reset(min(b.pace.Stall, b.pace.Limit(b.n)-b.waited))
	n, err := b.ReadCloser.Read(p)
	b.timer.Stop()
	b.waited += time.Since(began)
	b.n += int64(n)
	if err != nil && !errors.Is(err, io.EOF) && errors.Is(context.Cause(b.ctx), ErrSlow) {
		err = ErrSlow
	}
	return n, err
}

func (b *pacedBody) Close() error {
	b.timer.Stop()
	b.cancel(nil)
	return b.ReadCloser.Close()
}
