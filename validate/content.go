package validate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/rshub/rshub/internal/base/egress"
)

// MismatchError says that the topic URI serves something other than what was posted.
type MismatchError struct{ Reason string }

func (e *MismatchError) Error() string { return e.Reason }

// Content compares body, as it was posted, with what the topic URI serves now, or with
// the immutable copy that location names; location is the POST's Content-Location, or
// empty (HUB-53). It reads at most len(body) bytes and one buffer, and 64 KiB if links
// within the content may count. Four things can happen: nil, one of the two has these
// bytes; *MismatchError, both answered and neither has; *WaitError; and another error if
// the comparison was not possible.
//
// There is one request to the topic URI at a time. It begins after the bodies that it is
// compared with were posted. So however many post to a topic, none of them waits for more
// than two requests.
func (c *TopicChecker) Content(ctx context.Context, topic, location string, body []byte) error {
	var copied error
	if location != "" && location != topic {
		if copied = checkCopy(topic, location); copied == nil {
			p := &posted{body: body}
			c.compare(ctx, topic, location, p)
			if copied = p.err; copied == nil {
				return nil
			}
		}
	}
	err := c.share(egress.AskerOf(ctx), topic, body) //nolint:contextcheck // the request is shared, and outlives the first caller
	if err == nil || copied == nil {
		return err
	}
	var mismatch *MismatchError
	if !errors.As(err, &mismatch) {
		return err
	}
	if !errors.As(copied, &mismatch) {
		return copied // the copy may yet turn out to have these bytes
	}
	return &MismatchError{Reason: err.Error() + "; and " + copied.Error()}
}

// reading is one request to a topic URI, and the bodies that its answer is compared with.
type reading struct {
	asker  egress.Asker
	before <-chan struct{} // closed when the request before it is over; nil: there was none
	begun  bool            // no body is added any more
	bodies []*posted
	done   chan struct{}
}

// posted is a body, and the result of its comparison.
type posted struct {
	body []byte
	err  error // valid when the comparison is over
	at   int   // how much of it was equal so far
}

// share compares body with what the topic URI serves to the next request. It always waits
// for the end, since the body is in use until then.
func (c *TopicChecker) share(a egress.Asker, topic string, body []byte) error {
	to, p := route{topic, a.Reserve != ""}, &posted{body: body}
	c.mu.Lock()
	if c.ctx.Err() != nil {
		c.mu.Unlock()
		return &UnsureError{Reason: "this hub is shutting down"}
	}
	r := c.readings[to]
	if r == nil || r.begun {
		next := &reading{asker: a, done: make(chan struct{})}
		if r != nil {
			next.before = r.done
		}
		r, c.readings[to] = next, next
		c.wg.Go(func() { c.read(to, next) })
	}
	r.bodies = append(r.bodies, p)
	c.mu.Unlock()
	<-r.done
	return p.err
}

// read makes the request of r when the one before it is over.
func (c *TopicChecker) read(to route, r *reading) {
	if r.before != nil {
		<-r.before
	}
	c.mu.Lock()
	r.begun = true
	c.mu.Unlock()
	c.compare(egress.WithAsker(c.ctx, r.asker), to.topic, to.topic, r.bodies...)
	c.mu.Lock()
	if c.readings[to] == r {
		delete(c.readings, to)
	}
	c.mu.Unlock()
	close(r.done)
}

// compare requests target and sets for each body whether target serves it. A copy has to
// name the topic and this hub itself.
func (c *TopicChecker) compare(ctx context.Context, topic, target string, bodies ...*posted) {
	longest := 0
	for _, p := range bodies {
		longest = max(longest, len(p.body))
	}
	ctx, cancel := context.WithTimeout(ctx, c.pace().Limit(int64(longest)))
	defer cancel()

	what := called(topic, target)
	resp, confirm, err := c.do(ctx, "content of "+what, http.MethodGet, target)
	var served io.Reader
	if err == nil {
		defer func() { _ = resp.Body.Close() }()
		served, err = c.about(resp, confirm, topic, target)
	}
	var left []*posted // that may still be equal
	for _, p := range bodies {
		switch {
		case err != nil:
			p.err = err
		case resp.ContentLength >= 0 && resp.ContentLength != int64(len(p.body)):
			p.err = &MismatchError{Reason: fmt.Sprintf("%s serves %d bytes, and %d were posted", what, resp.ContentLength, len(p.body))}
		default:
			left = append(left, p)
		}
	}
	if len(left) > 0 {
		equal(served, left, what)
	}
}

// about returns the content of target for the comparison. It refuses a copy that does not
// name the topic and this hub. For the topic URI itself only the topic check decides
// that, which may be off. Here it ends an earlier good answer, or returns the place in
// the budget.
func (c *TopicChecker) about(resp *http.Response, confirm func(), topic, target string) (io.Reader, error) {
	if target != topic {
		err := answered(resp, called(topic, target))
		if err == nil {
			err = c.names(headerLinks(resp), topic, target)
		}
		if err == nil {
			confirm()
		}
		return resp.Body, mismatched(err)
	}
	read, named, err := c.inspect(resp, topic, resp.Body)
	if c.forget(topic, cmp.Or(err, named)); err != nil {
		return nil, mismatched(err)
	}
	if named == nil {
		confirm()
	}
	return io.MultiReader(bytes.NewReader(read), resp.Body), nil
}

// mismatched turns a *DeniedError into a *MismatchError, for a request that was
// about content.
func mismatched(err error) error {
	var denied *DeniedError
	if errors.As(err, &denied) {
		return &MismatchError{Reason: denied.Reason}
	}
	return err
}

// equal sets for each body whether r has exactly these bytes. It stops when the last one
// differs.
func equal(r io.Reader, left []*posted, what string) {
	buf := make([]byte, 32<<10)
	other := &MismatchError{Reason: what + " serves other bytes than were posted"}
	for len(left) > 0 {
		n, err := r.Read(buf)
		over := errors.Is(err, io.EOF)
		left = slices.DeleteFunc(left, func(p *posted) bool {
			want := p.body[p.at:]
			switch p.at += n; {
			case n > len(want) || !bytes.Equal(buf[:n], want[:n]), over && n < len(want):
				p.err = other
			case over:
			case err != nil:
				p.err = &UnsureError{Reason: what + " broke off or took too long"}
			default:
				return false
			}
			return true
		})
	}
}

// checkCopy returns, as a *MismatchError, why location cannot be the address of an
// immutable copy of one of topic's notifications. It has to be the topic URI, a `/` if
// that lacks one, and more path. It must have no query, dot segment or encoded slash, not
// even after decoding twice. So a copy is always under its topic owner's control.
func checkCopy(topic, location string) error {
	bad := func(why string) error {
		return &MismatchError{Reason: "Content-Location " + why}
	}
	base := topic
	if !strings.HasSuffix(base, "/") {
		base += "/"
	}
	rest, ok := strings.CutPrefix(location, base)
	switch {
	case strings.ContainsAny(topic, "?#"):
		return bad("is of no use here, since the topic URI has a query and so no path below it")
	case !ok || strings.Trim(rest, "/") == "":
		return bad("is not a URL below the topic URI")
	case strings.ContainsAny(rest, "?#"):
		return bad("has a query or a fragment")
	case strings.ContainsAny(rest, "\\ \t"):
		return bad("has a character that does not belong in a URL")
	}
	for segment := range strings.SplitSeq(rest, "/") {
		plain, err := url.PathUnescape(segment)
		if err != nil {
			return bad("is not a URL")
		}
		if again, err := url.PathUnescape(plain); err == nil {
			plain = again
		}
		switch {
		case plain == "." || plain == "..":
			return bad("has a dot segment")
		case strings.ContainsAny(plain, "/\\"):
			return bad("has an encoded slash")
		}
	}
	if _, err := url.Parse(location); err != nil {
		return bad("is not a URL")
	}
	return nil
}
