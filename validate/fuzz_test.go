package validate

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/journal"
)

// Whatever a topic's URL answers, it is one of the outcomes that there are, and
// good only with both links (HUB-53, HUB-54).
func FuzzTopicAnswer(f *testing.F) {
	f.Add(200, links(fakeTopic, hubURL), "")
	f.Add(204, `</changes/>;rel=self`, "1")
	f.Add(299, `<//hub.example/websub/>; rel="hub self"`, "")
	f.Add(429, "<", "99999999999999999999")
	f.Add(503, "", "-1")
	f.Add(503, "", "3601")
	f.Add(200, `</changes/>;rel=self, <https://other.example/>;rel=hub`, "")
	f.Add(301, links(fakeTopic, hubURL), "Wed, 21 Oct 2026 07:28:00 GMT")
	f.Add(0, ",;,", " 7")
	c, err := NewTopicChecker(TopicOptions{HubURL: hubURL, Client: goodDoer()})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(c.Close)
	f.Fuzz(func(t *testing.T, status int, link, after string) {
		resp := &http.Response{StatusCode: status, Header: http.Header{"Link": {link}, "Retry-After": {after}}, Body: http.NoBody}
		err := c.judge(resp, nil, fakeTopic, "the topic URI")
		var unsure *UnsureError
		switch outcome(err) {
		case "good":
			if status < 200 || status > 299 || !strings.Contains(link, "hub.example") || !strings.Contains(strings.ToLower(link), "self") {
				t.Errorf("%d with %q is good", status, link)
			}
		case "denied":
		case "unsure":
			if !errors.As(err, &unsure) || unsure.After < 0 || unsure.After > time.Hour {
				t.Errorf("%d with Retry-After %q: %+v", status, after, err)
			}
		default:
			t.Errorf("%d with %q: %v", status, link, err)
		}
	})
}

// What Document takes can be placed in a topic (HUB-55), and what it refuses it
// gives a reason for.
func FuzzDocument(f *testing.F) {
	f.Add(string(notification(`capability="change-notification" from="2026-01-01T00:00:00Z" until="2026-01-01T12:05:00Z"`, oneChange)))
	f.Add(string(notification(`capability="framework-notification" until="2026-01-01T12:05:00.000000001Z"`)))
	f.Add(string(notification(`capability="changelist" from="2026" until="9999-12-31T23:59:59-14:00"`)))
	f.Add("<urlset>")
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, body string) {
		d, err := Document([]byte(body), now)
		var e *DocumentError
		switch {
		case err != nil:
			if !errors.As(err, &e) || e.Rule == "" || e.Msg == "" || d != (Doc{}) {
				t.Errorf("%q: %+v, %v", body, d, err)
			}
		case d.Until.After(now.Add(MaxAhead)), d.Timed() && d.Until.Before(d.From):
			t.Errorf("%q: from %v until %v", body, d.From, d.Until)
		case d.Kind != journal.KindFramework && (d.Kind != journal.KindChange || !d.Timed()):
			t.Errorf("%q: kind %q, timed %t", body, d.Kind, d.Timed())
		}
	})
}
