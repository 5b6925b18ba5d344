package admin

import (
	"strings"
	"testing"
	"time"
)

// Each trouble is shown once, with what it means for Sources and subscribers. A loss stays visible
// when the hub is ready again.
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
		"silent":      {HubNow{}, nil, []string{"Hub h is alive, but has not reported how it is."}},
		"much kept":   {HubNow{AsOf: at, Journal: &JournalNow{Bytes: 99, Limit: 100}}, nil, []string{"Hub h retains 99 B of the 100 B that its topics may: the oldest notifications are about to go."}},
		"unreadable": {HubNow{AsOf: at, UnreadableSubscriptions: 2, UnreadableTopics: 1}, nil, []string{
			"Hub h continues without 2 subscriptions that it cannot read. Its log says which (subscription_unreadable).",
			"Hub h continues without 1 topic that it cannot read. Its log says which (topic_unreadable).",
		}},
		"kept":    {HubNow{AsOf: at, Journal: &JournalNow{Bytes: 50, Limit: 100}}, nil, nil},
		"failing": {HubNow{AsOf: at, Active: 99999, Failing: 1, PassedOver: 2}, nil, []string{"1 subscription fails, of 100,000; the hub tries again.", "In the last hour 2 deliveries were given up. Each is a gap, which the page of its subscription names."}},
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

// The cause of a failure is a predicate, which stands after "The callback" or a host.
func TestCause(t *testing.T) {
	for _, tc := range []struct {
		status  int
		failure string
		want    string
	}{
		{204, "", ""},
		{0, "", ""},
		{301, "", "answers 301 Moved Permanently"},
		{503, "", "answers 503 Service Unavailable"},
		{799, "", "answers 799"},
		{0, "timeout", "does not answer in time"},
		{0, "connect", "cannot be connected to"},
		{0, "refused", "has an address that this hub does not call"},
		{0, "error", "breaks off the exchange"},
	} {
		if got := Cause(tc.status, tc.failure); got != tc.want {
			t.Errorf("%d %s: %q, want %q", tc.status, tc.failure, got, tc.want)
		}
	}
}

// If the store does not show the other hubs, the page says so, because their troubles are missing.
func TestWrongWithoutTheOthers(t *testing.T) {
	n := Now{HubsError: "it does not answer"}
	if got := n.Wrong(); len(got) != 1 || got[0] != "The store does not show how the other hubs are: it does not answer" {
		t.Errorf("%q", got)
	}
}
