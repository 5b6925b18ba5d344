package admin

import (
	"strings"
	"testing"
	"time"
)

// What is wrong is said once, with what it means for others, and what was lost is not
// forgotten while the hub is ready again.
func TestWrong(t *testing.T) {
	at := time.Date(2026, 1, 1, 14, 2, 0, 0, time.UTC)
	for name, one := range map[string]struct {
		hub    HubNow
		events []Event
		want   []string
	}{
		"well":        {HubNow{AsOf: at, Active: 3, Space: &Space{Free: 100, Least: 10}}, []Event{{At: at, Name: "listening"}}, nil},
		"draining":    {HubNow{AsOf: at, Draining: true, NotReady: []string{"draining: the hub is shutting down"}}, nil, []string{"Hub h is shutting down: it accepts no more publishes and finishes its deliveries."}},
		"away":        {HubNow{AsOf: at, NotReady: []string{"store: no answer."}}, nil, []string{"Hub h is not ready: store: no answer. Until it answers, publishers and subscribers get 503, and deliveries may wait."}},
		"starting":    {HubNow{AsOf: at, NotReady: []string{"starting: it loads"}}, nil, []string{"Hub h is not ready: starting: it loads."}},
		"nearly full": {HubNow{AsOf: at, Space: &Space{Free: 20, Least: 10}}, nil, []string{"Hub h has 20 B of free space left; under 10 B it stores nothing new."}},
		"full":        {HubNow{AsOf: at, Space: &Space{Free: 9, Least: 10}, NotReady: []string{"high water: the store is full"}}, nil, []string{"Hub h is not ready: high water: the store is full. Until there is room, publishers and subscribers get 503; deliveries go on."}},
		"failing":     {HubNow{AsOf: at, Active: 99999, Failing: 1, PassedOver: 2}, nil, []string{"1 subscription fails, of 100,000; the hub tries again.", "In the last hour 2 deliveries were given up. Each is a gap, which the page of its subscription names."}},
		"lost": {
			HubNow{AsOf: at},
			[]Event{{At: at, Node: "h", Name: "tail_lost", Text: "Redis lost something"}, {At: at, Node: "h", Name: "tail_lost", Text: "earlier"}},
			[]string{"At 14:02 hub h found: Redis lost something."},
		},
	} {
		one.hub.ID = "h"
		n := Now{Hubs: []HubNow{one.hub}, Events: one.events}
		if got := strings.Join(n.Wrong(), "\n"); got != strings.Join(one.want, "\n") {
			t.Errorf("%s: %s", name, got)
		}
	}
}
