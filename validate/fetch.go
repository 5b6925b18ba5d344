package validate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/rshub/rshub/internal/base/egress"
)

// Fetched is the answer of a topic's URL.
type Fetched struct {
	Status int // 0: there was no answer
	Header http.Header
	// Length is that of the body, in bytes; -1 if the answer does not say.
	Length int64
	// Body is nil with an error; else the caller closes it. Reading it is limited in
	// time. An error other than io.EOF is an *UnsureError.
	Body io.ReadCloser
}

// Fetch requests the topic's content (HUB-60), within the budget. The same answer shows
// whether the topic names itself and this hub. The mode decides what follows from that,
// and Check remembers it. Four things can happen:
//
//   - nil: there is a body to read;
//   - *DeniedError: it answered and does not name this hub, or with 3xx or 4xx,
//     or its address is refused;
//   - *WaitError: its host may not be requested before some time has passed;
//   - *UnsureError: there was no answer, or one with 429, 5xx or a part of the content (206).
//
// Status is set with an error too. The header has to come within the Timeout, the body
// within that plus the time that it needs at 128 KiB/s, and each part of it within the
// Timeout.
func (c *TopicChecker) Fetch(ctx context.Context, topic string) (Fetched, error) {
	resp, confirm, err := c.do(ctx, "fetch", http.MethodGet, topic)
	if err != nil {
		return Fetched{}, err
	}
	f := Fetched{Status: resp.StatusCode, Header: resp.Header, Length: resp.ContentLength}
	read, named, err := c.inspect(resp, topic, resp.Body)
	switch {
	case err != nil:
		c.forget(topic, err)
	case named == nil:
		confirm()
	}
	if err == nil && c.o.Mode != TopicOff {
		c.remember(topic, egress.AskerOf(ctx), named)
		err = c.enforced(named)
	}
	if err == nil && resp.StatusCode == http.StatusPartialContent {
		err = &UnsureError{Reason: "the topic URI answered 206, with a part of its content, though all of it was asked for"}
	}
	if err != nil {
		_ = resp.Body.Close()
		return f, err
	}
	f.Body = &fetchedBody{ReadCloser: resp.Body, read: read, total: int64(len(read))}
	return f, nil
}

// fetchedBody is a body whose errors are of this package.
type fetchedBody struct {
	io.ReadCloser
	read  []byte // of the body already; returned first
	total int64
}

func (b *fetchedBody) Read(p []byte) (int, error) {
	if len(b.read) > 0 {
		n := copy(p, b.read)
		b.read = b.read[n:]
		return n, nil
	}
	n, err := b.ReadCloser.Read(p)
	b.total += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		err = &UnsureError{Reason: fmt.Sprintf("the topic URI broke off or was too slow, after %d bytes", b.total)}
	}
	return n, err
}
