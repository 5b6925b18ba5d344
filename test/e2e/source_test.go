package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// form posts a form of name, value pairs to the hub URI.
func (h *hub) form(pairs ...string) *answer {
	h.t.Helper()
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(url.QueryEscape(pairs[i]) + "=" + url.QueryEscape(pairs[i+1]))
	}
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	return do(h.t, http.MethodPost, h.url(), header, []byte(b.String()))
}

// source is a ResourceSync Source: a topic and the watermark of its intervals.
type source struct {
	topic string
	until time.Time
}

func newSource(topic string) *source {
	return &source{topic: topic, until: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
}

// next builds the notification of the next interval, a second long, with one
// change; pad makes it that many bytes longer.
func (s *source) next(pad int) []byte {
	from := s.until
	s.until = from.Add(time.Second)
	return notification(from, s.until, pad)
}

func notification(from, until time.Time, pad int) []byte {
	return fmt.Appendf(nil, `<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
  <rs:md capability="change-notification" from="%s" until="%s"/>
  <url><loc>https://example.org/r/%d</loc><rs:md change="updated" datetime="%s"/></url>
  <!--%s-->
</urlset>
`, stamp(from), stamp(until), from.Unix(), stamp(from), strings.Repeat("x", pad))
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.999999999Z") }

// receipt is the hub's answer to a publish.
type receipt struct {
	ID        string `json:"id"`
	Topic     string `json:"topic"`
	From      string `json:"from"`
	Until     string `json:"until"`
	Position  string `json:"position"`
	Duplicate bool   `json:"duplicate"`
}

func (h *hub) publishHeader(topic string) http.Header {
	return http.Header{
		"Content-Type": {"application/xml"},
		"Link":         {fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, topic, h.url())},
	}
}

// publish posts a notification once.
func (h *hub) publish(topic string, body []byte) *answer {
	h.t.Helper()
	return do(h.t, http.MethodPost, h.url(), h.publishHeader(topic), body)
}

// accepted publishes and demands 200.
func (h *hub) accepted(topic string, body []byte) receipt {
	h.t.Helper()
	return decodeReceipt(h.t, h.publish(topic, body).want(h.t, http.StatusOK))
}

func decodeReceipt(t *testing.T, a *answer) receipt {
	t.Helper()
	var r receipt
	if err := json.Unmarshal(a.body, &r); err != nil || r.ID == "" {
		t.Fatalf("not a receipt: %q (%v)", a.body, err)
	}
	return r
}

// publishUntilAccepted posts the same bytes until they are answered 200, as a
// Source does whose hub is away at times.
func (h *hub) publishUntilAccepted(ctx context.Context, topic string, body []byte) (receipt, error) {
	for {
		a, err := try(ctx, http.MethodPost, h.url(), h.publishHeader(topic), body)
		switch {
		case err == nil && a.status == http.StatusOK:
			var r receipt
			return r, json.Unmarshal(a.body, &r)
		case err == nil && a.status != http.StatusServiceUnavailable:
			return receipt{}, fmt.Errorf("a publish was answered %d %q", a.status, a.body)
		case ctx.Err() != nil:
			return receipt{}, ctx.Err()
		}
		time.Sleep(10 * time.Millisecond)
	}
}
