package validate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/base/web"
)

// ask makes the request: HEAD, and GET if HEAD is refused, as some servers do that know only GET, or links
// within the content may count. Such a host is asked with GET from then on: else, if it has many topics,
// their HEADs would use the budget up before any GET.
func (c *TopicChecker) ask(ctx context.Context, topic string) error {
	host, confirmHead := egress.HostPortOf(topic), func() {}
	if !c.needsGET.Contains(host) {
		resp, confirm, err := c.do(ctx, "check", http.MethodHead, topic)
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if !vague(resp) {
			return c.judge(resp, topic, confirm)
		}
		c.needsGET.Add(host, struct{}{})
		confirmHead = confirm
	}
	resp, confirm, err := c.do(ctx, "check", http.MethodGet, topic)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	return c.judge(resp, topic, func() { confirm(); confirmHead() })
}

// vague reports whether GET may say something else than an answer to HEAD.
func vague(resp *http.Response) bool {
	switch s := resp.StatusCode; {
	case s == http.StatusTooManyRequests:
		return false
	case s/100 == 2:
		return embedder(resp) != nil
	default:
		return s/100 == 4 || s == http.StatusNotImplemented
	}
}

// judge returns nil, after it has confirmed, if an answer names the topic and this hub.
func (c *TopicChecker) judge(resp *http.Response, topic string, confirm func()) error {
	_, named, err := c.inspect(resp, topic, resp.Body)
	if err = cmp.Or(err, named); err == nil {
		confirm()
	}
	return err
}

// inspect checks what the answer of a topic URI means. Named is nil if it names the
// topic and this hub. Read is what was read of body to find that out, and err why it
// cannot be found out.
func (c *TopicChecker) inspect(resp *http.Response, topic string, body io.Reader) (read []byte, named, err error) {
	if err := answered(resp, called(topic, topic)); err != nil {
		return nil, nil, err
	}
	links, read, err := linksOf(resp, topic, body)
	if err != nil {
		return nil, nil, err
	}
	return read, c.names(links, topic, topic), nil
}

// do makes one request within the budget, for a purpose with its own place in the
// reserve. Its error is one of this package.
func (c *TopicChecker) do(ctx context.Context, purpose, method, target string) (_ *http.Response, confirm func(), _ error) {
	u, err := url.Parse(target)
	if err != nil {
		return nil, nil, &DeniedError{Reason: "the topic is not a URL that can be requested"}
	}
	host := egress.HostPort(u)
	if a := egress.AskerOf(ctx); a.Reserve != "" {
		a.Reserve = purpose + " " + method + " " + a.Reserve
		ctx = egress.WithAsker(ctx, a)
	}
	ctx, confirm, wait := c.o.Budget.Begin(ctx, time.Now(), host)
	if wait > 0 {
		return nil, nil, &WaitError{Host: host, After: wait}
	}
	req, err := http.NewRequestWithContext(ctx, method, target, http.NoBody)
	if err != nil {
		return nil, nil, &DeniedError{Reason: "the topic is not a URL that can be requested"}
	}
	// Content is compared byte by byte.
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := c.pace().Do(c.o.Client, req)
	if err != nil {
		return nil, nil, unanswered(host, err)
	}
	return resp, confirm, nil
}

// slowest is the pace below which reading a topic's body is given up, in bytes a second.
const slowest = 128 << 10

// pace is how slow a topic may be.
func (c *TopicChecker) pace() web.Pace { return web.Pace{Stall: c.o.Timeout, Rate: slowest} }

// unanswered returns the error of this package for a request without an answer.
func unanswered(host string, err error) error {
	var (
		refused     *egress.RefusedError
		spent       *egress.BudgetError
		certificate *egress.CertificateError
	)
	switch egress.Classify(err) {
	case egress.FailureRefused:
		if errors.As(err, &refused) {
			switch refused.Kind {
			case egress.RefusedOwn:
				return &DeniedError{Reason: host + " leads to this hub itself, which serves no topics"}
			case egress.RefusedPort: // its error may have the address that the name leads to
				return &DeniedError{Reason: "the port of " + host + " is that of another protocol, which this hub never calls"}
			}
		}
		return &DeniedError{Reason: "the address of " + host + " is one that this hub does not call; its operator can open private ranges with --allow-cidr"}
	case egress.FailureBudget:
		if errors.As(err, &spent) {
			return &WaitError{Host: host, After: spent.Wait}
		}
	case egress.FailureTimeout:
		return &UnsureError{Reason: host + " did not answer in time", Passing: true}
	case egress.FailureOwn:
		return &UnsureError{Reason: "this hub's own way out does not work, which its operator can see", Passing: true}
	}
	if errors.As(err, &certificate) {
		return &UnsureError{Reason: host + " has a certificate that this hub does not accept"}
	}
	var lookup *net.DNSError
	var timeout net.Error
	passing := errors.As(err, &lookup) || errors.As(err, &timeout) && timeout.Timeout()
	if egress.Classify(err) == egress.FailureOther && !passing {
		return &UnsureError{Reason: host + " broke off, or answered something that is not HTTP"}
	}
	return &UnsureError{Reason: host + " could not be reached", Passing: passing}
}

// called is what messages call target: the topic URI or a copy.
func called(topic, target string) string {
	if target == topic {
		return "the topic URI"
	}
	return "the copy that Content-Location names"
}

// answered distinguishes by the status: nil, the answer may name the hub; *DeniedError,
// it does not; *UnsureError, it says nothing (HUB-54).
func answered(resp *http.Response, what string) error {
	switch s := resp.StatusCode; {
	case s/100 == 2: // 204 too, which N 0.9 demanded (HUB-54)
		return nil
	case s == http.StatusTooManyRequests || s >= 500:
		return &UnsureError{Reason: fmt.Sprintf("%s answered %d", what, s), After: web.RetryAfter(resp.Header, time.Now(), maxRetryAfter), Passing: s >= 500}
	case s/100 == 3 && s != http.StatusNotModified:
		return &DeniedError{Reason: fmt.Sprintf("%s answered with a redirect (%d), which is not followed", what, s)}
	default:
		return &DeniedError{Reason: fmt.Sprintf("%s answered %d", what, s)}
	}
}

// Absolute resolves a relative link, and returns other links as they are. Base may be nil: then it returns all as they are.
func Absolute(base *url.URL, link string) string {
	ref, err := url.Parse(link)
	if base == nil || err != nil || ref.IsAbs() {
		return link
	}
	return base.ResolveReference(ref).String()
}

// maxRetryAfter is the longest Retry-After of a topic that the hub passes on to a
// publisher. The notification of the Source may be only minutes old.
const maxRetryAfter = time.Hour

// seconds returns d in seconds, rounded up, and at least 1.
func seconds(d time.Duration) int {
	return int(max((d+time.Second-1)/time.Second, 1))
}
