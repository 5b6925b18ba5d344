package destination_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/destination"
)

// A running copy tells how it is without its files: its sets with their subscriptions, when the
// last changes were carried out, and that it takes notifications.
func TestStatusOfARunningCopy(t *testing.T) {
	s := newSource(t)
	s.put("a", "first", 0)
	began := time.Now()
	p := follow(t, s)
	callback := p.subscribed()
	id := p.push(callback, p.entryOf("a", resourcesync.Updated), resourcesync.Entry{Loc: p.URL + "/data/away", Change: resourcesync.Created})
	p.happens(destination.Failed, "away", id)
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		all, err := p.copy.Status()
		if err == nil && len(all) == 1 && all[0].Failed == 1 && all[0].SyncedAt.After(began) && all[0].Behind.IsZero() && all[0].Counts.Received == 1 {
			st := all[0]
			if !strings.HasSuffix(st.Set, "/capabilitylist.xml") || st.BaselineAt.IsZero() || len(st.Subscriptions) != 1 || st.Subscriptions[0].State != "active" {
				t.Errorf("%+v", st)
			}
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%+v, %v", all, err)
		}
	}
	if ready, stored := p.copy.Ready(), p.copy.Stored(); ready != nil || stored != nil {
		t.Errorf("ready: %v, stored: %v", ready, stored)
	}
}
