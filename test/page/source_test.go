package page

import (
	"fmt"
	"html"
	"net/http"
	"strings"
	"time"
)

// source publishes change notifications of a topic to a hub, an interval of a minute each.
type source struct {
	h     *hub
	topic string
	until time.Time
}

// newSource has a Source whose latest interval ends n minutes ago.
func newSource(h *hub, topic string, minutes int) *source {
	return &source{h: h, topic: topic, until: time.Now().UTC().Truncate(time.Minute).Add(-time.Duration(minutes) * time.Minute)}
}

// skip leaves out an interval, so that the topic has a gap where the hub allows it.
func (s *source) skip() { s.until = s.until.Add(time.Minute) }

// publish publishes the next interval, in which these resources changed. If the hub says so, it
// tries again.
func (s *source) publish(changed ...string) {
	s.h.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		status, body := s.try(changed...)
		if status == http.StatusOK {
			return
		}
		if status != http.StatusServiceUnavailable || time.Now().After(deadline) {
			s.h.t.Fatalf("publishing to %s: %d %s", s.topic, status, body)
		}
		s.until = s.until.Add(-time.Minute)
	}
}

func (s *source) try(changed ...string) (int, []byte) {
	s.h.t.Helper()
	from := s.until
	s.until = from.Add(time.Minute)
	return send(s.h.t, http.MethodPost, s.h.public, link(s.h.name, s.topic), []byte(document(from, s.until, changed...)))
}

// document is a change notification.
func document(from, until time.Time, changed ...string) string {
	var urls strings.Builder
	for i, loc := range changed {
		_, _ = fmt.Fprintf(&urls, "  <url><loc>%s</loc><rs:md change=%q datetime=%q/></url>\n", html.EscapeString(loc), []string{"created", "updated", "deleted"}[i%3], from.Format(time.RFC3339))
	}
	return fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
  <rs:md capability="change-notification" from=%q until=%q/>
%s</urlset>
`, from.Format(time.RFC3339), until.Format(time.RFC3339), urls.String())
}

// link names the topic and the hub, as a publish has them.
func link(hub, topic string) http.Header {
	return http.Header{"Content-Type": {"application/xml"}, "Link": {fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, topic, hub)}}
}
