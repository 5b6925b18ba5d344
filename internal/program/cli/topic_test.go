package cli

import (
	"testing"
	"time"

	"github.com/rshub/rshub/admin"
)

// A person reads why subscriptions of a topic wait, which notification it is, and what
// becomes of it.
func TestPause(t *testing.T) {
	at := noon.Add(-time.Hour)
	for want, p := range map[string]admin.Pause{
		"all wait since 2026-01-31T11:00:00Z (1h ago), because the store cannot be read: no answer": {
			Reason: "store", Error: "no answer", Since: at, NextLookAt: noon,
		},
		"notification 7 (an id) is damaged since 2026-01-31T11:00:00Z (1h ago); subscriptions that have not received it wait, and pass it over 2026-01-31T13:00:00Z (in 1h): cut short": {
			Reason: "damaged", Error: "cut short", Since: at, NotificationID: "an id", Seq: 7, PassedOverAt: noon.Add(time.Hour),
		},
		"no more: notification 7 is damaged and is passed over: cut short": {
			Reason: "damaged", Error: "cut short", Since: at, Seq: 7, PassedOverAt: at, PassedOver: true,
		},
	} {
		if got := pause(p, noon); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// The question about a reset says from where on the topic has to continue, if it has to.
func TestResetting(t *testing.T) {
	until := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		topic admin.Topic
		want  string
	}{
		"changes":     {admin.Topic{URL: testTopic, Kind: "change", LastUntil: until}, "let the next notification of " + testTopic + " start anywhere; now it has to start at 2026-01-31T12:00:00Z, and what lies between is lost and becomes a gap."},
		"reset again": {admin.Topic{URL: testTopic, LastUntil: until, Reset: true}, "let the next notification of " + testTopic + " start anywhere."},
		"content":     {admin.Topic{URL: testTopic, Kind: "content"}, "let the next notification of " + testTopic + " start anywhere."},
	} {
		if got := resetting(c.topic); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
