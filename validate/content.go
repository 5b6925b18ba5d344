package validate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// slowest is the pace below which a body is given up, in bytes a second.
const slowest = 128 << 10

// MismatchError says that what the topic URI serves is not what was posted.
type MismatchError struct{ Reason string }

func (e *MismatchError) Error() string { return e.Reason }

// Content compares body, as it was posted, with what the topic URI serves now,
// or with the immutable copy that location names; location is the POST's
// Content-Location, or empty (HUB-53). At most len(body) bytes and one
// buffer are read. Four things can happen: nil, one of the two has these bytes;
// *MismatchError, both answered and neither has; *WaitError; and another error
// where that could not be told.
func (c *TopicChecker) Content(ctx context.Context, topic, location string, body []byte) error {
	var copied error
	if location != "" && location != topic {
		if copied = checkCopy(topic, location); copied == nil {
			copied = c.compare(ctx, topic, location, body)
			if copied == nil {
				return nil
			}
		}
	}
	err := c.compare(ctx, topic, topic, body)
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

// compare asks target and compares what it serves with body. A copy has to name
// the topic and this hub itself.
func (c *TopicChecker) compare(ctx context.Context, topic, target string, body []byte) error {
	limit := c.o.Timeout + time.Duration(len(body)/slowest)*time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	stalled := time.AfterFunc(c.o.Timeout, cancel)
	defer stalled.Stop()

	what := called(topic, target)
	resp, place, err := c.do(ctx, http.MethodGet, target)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	// The links of the topic URI itself are the topic check's business, which
	// may be off; here they only give the place in the budget back.
	if err := answered(resp, what); err != nil {
		return mismatched(err)
	}
	if err := c.names(headerLinks(resp), topic, target); err == nil {
		place.Confirm()
	} else if target != topic {
		return mismatched(err)
	}
	if resp.ContentLength >= 0 && resp.ContentLength != int64(len(body)) {
		return &MismatchError{Reason: fmt.Sprintf("%s serves %d bytes, and %d were posted", what, resp.ContentLength, len(body))}
	}
	ok, err := equal(resp.Body, body, func() { stalled.Reset(c.o.Timeout) })
	switch {
	case err != nil:
		return &UnsureError{Reason: what + " broke off or took too long"}
	case !ok:
		return &MismatchError{Reason: what + " serves other bytes than were posted"}
	}
	return nil
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

// equal reports whether r holds exactly want. It reads no further than the
// first difference, and tells of each step.
func equal(r io.Reader, want []byte, step func()) (bool, error) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if n > len(want) || !bytes.Equal(buf[:n], want[:n]) {
			return false, nil
		}
		want = want[n:]
		if errors.Is(err, io.EOF) {
			return len(want) == 0, nil
		}
		if err != nil {
			return false, err
		}
		step()
	}
}

// checkCopy reports, as a *MismatchError, why location can't be the address of
// an immutable copy of one of topic's notifications: it has to be the topic
// URI, a `/` if that lacks one, and more path, without a query, a dot segment
// or an encoded slash, nor such as a server that decodes twice would find. So a
// copy is always under its topic owner's control.
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
