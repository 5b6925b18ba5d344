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
