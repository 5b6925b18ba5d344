package validate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
)

// Fetched is the answer of a topic's URL.
type Fetched struct {
	Status int // 0: there was no answer
	Header http.Header
	// Length is that of the body, in bytes; -1 where the answer does not say.
	Length int64
	// Body is to be closed, and nil with an error. Reading it is limited in time;
	// an error other than io.EOF is an *UnsureError.
	Body io.ReadCloser
}

// Fetch asks the topic's URL for its content (HUB-60), within the budget. Whether
// the topic names itself and this hub is told from the same answer, as the mode
// says, and remembered for Check. Four things can happen:
//
//   - nil: there is a body to be read;
//   - *DeniedError: it answered and does not name this hub, or with 3xx or 4xx,
//     or its address is refused;
//   - *WaitError: its host may not be asked before some time has passed;
//   - *UnsureError: it could not be asked, or answered with 429 or 5xx.
//
// Status is set with an error too. The header may take the Timeout to come, the
// body that and what it needs at 128 KiB/s, and no part of it longer than the
// Timeout.
func (c *TopicChecker) Fetch(ctx context.Context, topic string) (Fetched, error) {
	ctx, cancel := context.WithCancel(ctx)
	stalled := time.AfterFunc(c.o.Timeout, cancel)
	end := func() { stalled.Stop(); cancel() }
	resp, place, err := c.do(ctx, "fetch", http.MethodGet, topic)
	if err != nil {
		late := ctx.Err() != nil
		end()
		var unsure *UnsureError
		if late && errors.As(err, &unsure) {
			err = &UnsureError{Reason: "the topic URI did not answer in time"}
		}
		return Fetched{}, err
	}
	f := Fetched{Status: resp.StatusCode, Header: resp.Header, Length: resp.ContentLength}
	body := &pacedBody{body: resp.Body, start: time.Now(), timeout: c.o.Timeout, stalled: stalled, end: end}
	if body.read, err = c.judgeFetched(resp, place, topic, egress.AskerOf(ctx), body); err != nil {
		end()
		_ = resp.Body.Close()
		return f, err
	}
	f.Body = body
	return f, nil
}

// judgeFetched judges an answer whose content is wanted, and returns what it read
// of it.
func (c *TopicChecker) judgeFetched(resp *http.Response, place *egress.Place, topic string, a egress.Asker, body io.Reader) ([]byte, error) {
	if err := answered(resp, called(topic, topic)); err != nil {
		c.unsay(topic, err)
		return nil, err
	}
	links, read, err := linksOf(resp, topic, body)
	if err != nil {
		return nil, err
	}
	if err = c.names(links, topic, topic); err == nil {
		place.Confirm()
	}
	if c.o.Mode == TopicOff {
		return read, nil
	}
	c.remember(topic, a, err)
	return read, c.enforced(err)
}

// pacedBody reads a body, and gives up when it comes too slowly.
type pacedBody struct {
	read    []byte // of the body already, and to be read once more
	body    io.ReadCloser
	start   time.Time
	timeout time.Duration
	total   int64
	stalled *time.Timer // breaks the exchange off
	end     func()
}

func (b *pacedBody) Read(p []byte) (int, error) {
	if len(b.read) > 0 {
		n := copy(p, b.read)
		b.read = b.read[n:]
		return n, nil
	}
	allowed := b.timeout + time.Duration(b.total)*time.Second/slowest
	b.stalled.Reset(min(b.timeout, time.Until(b.start.Add(allowed))))
	n, err := b.body.Read(p)
	b.total += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		err = &UnsureError{Reason: fmt.Sprintf("the topic URI broke off or was too slow, after %d bytes", b.total)}
	}
	return n, err
}

func (b *pacedBody) Close() error {
	b.end()
	return b.body.Close()
}
