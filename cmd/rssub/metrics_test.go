package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/subscriber"
	"github.com/rshub/rshub/subscriber/destination"
	"github.com/rshub/rshub/test/ports"
)

// The gauges show the sum over all sets, and for times that of the set that is the furthest
// behind. Each state and each reason that a Destination reports has its label.
func TestStateOfSeveralSets(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	now := time.Now()
	var n state
	for i, s := range []destination.SetStatus{
		{BaselineAt: at(20), SyncedAt: at(50), Failed: 2, DeletionsHeld: 3, Status: subscriber.Status{
			AsOf: now, Until: at(30), Behind: now.Add(-time.Hour), Trouble: "the hub is away",
			Subscriptions: []subscriber.SubscriptionStatus{{State: "pending"}, {State: "expired"}, {State: "denied"}, {State: "ended"}},
			Gaps:          []subscriber.Gap{{State: subscriber.GapOpen}, {State: subscriber.GapBaseline}},
			Counts: subscriber.Counts{Received: 5, Early: 1, Duplicates: 2, Postponed: 3, Batches: 4, Backlog: 100, Held: 6, LastReceived: at(7), Refused: map[string]uint64{
				"unasked": 1, "unknown callback": 2, "ended": 3, "invalid": 4, "too large": 5, "unsigned": 6, "wrong signature": 7, "weak signature: the hub signs with sha1": 8,
			}},
		}},
		{BaselineAt: at(10), SyncedAt: at(60), Status: subscriber.Status{
			AsOf: now, Until: at(25), Subscriptions: []subscriber.SubscriptionStatus{{State: "active", ExpiresAt: at(99)}, {State: "active", ExpiresAt: at(98)}},
			Gaps: []subscriber.Gap{{State: subscriber.GapRepaired}}, Counts: subscriber.Counts{Received: 1, LastReceived: at(9)}, Way: subscriber.ViaCallback,
		}},
		{BaselineAt: at(40), SyncedAt: at(70), Status: subscriber.Status{
			AsOf: now, Until: at(26), Way: subscriber.ViaStream, Stream: &subscriber.StreamStatus{State: subscriber.StreamOpen, LastEvent: at(6), Reconnects: 2},
		}},
		{BaselineAt: at(40), SyncedAt: at(70), Status: subscriber.Status{
			AsOf: now, Until: at(26), Way: subscriber.ViaStream, Stream: &subscriber.StreamStatus{State: subscriber.StreamBroken, Reconnects: 1},
		}},
		{BaselineAt: at(40), SyncedAt: at(70), Status: subscriber.Status{
			AsOf: now, Until: at(26), Way: subscriber.ViaPoll, Stream: &subscriber.StreamStatus{State: subscriber.StreamNone},
		}},
		{BaselineAt: at(40), SyncedAt: at(70), Failed: 1},
	} {
		n.add(&s, i == 0)
	}
	if n.lag < time.Hour || n.lag > 2*time.Hour {
		t.Errorf("the lag is %v", n.lag)
	}
	n.lag = 0
	want := state{
		sets: 6, troubled: 1, unsubscribed: 2, ways: [3]int{1, 2, 1}, streams: [4]int{1, 1, 0, 1}, reconnects: 3, lastEvent: at(6), subscriptions: [5]int{1, 2, 1, 1, 1}, leaseEnds: at(98), until: at(25), baseline: at(10), synced: at(50),
		backlog: 4, early: 6, backlogBytes: 100, lastReceived: at(9), received: 6, duplicates: 2, postponed: 3, overtook: 1,
		refused: [8]uint64{1, 2, 3, 4, 5, 6, 7, 8}, gaps: [3]int{1, 1, 1}, failed: 3, deletionsHeld: 3,
	}
	if n != want {
		t.Errorf("got %+v, want %+v", n, want)
	}
}

// A Destination that waits for its Source says so, and is not ready.
func TestFollowOperator(t *testing.T) {
	admin, source := ports.Addr(), ports.Addr()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"follow", "http://" + source + "/", "--dir", t.TempDir(), "--dev", "--listen", "127.0.0.1:0", "--admin-listen", admin}, nil, io.Discard, io.Discard)
	}()
	defer func() { cancel(); <-ended }()
	get := func(path string) (int, string, error) {
		resp, err := http.Get("http://" + admin + path) //nolint:noctx // a test
		if err != nil {
			return 0, "", err
		}
		text, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text), errors.Join(err, resp.Body.Close())
	}
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		status, body, err := get("/readyz")
		if err == nil {
			if status != http.StatusServiceUnavailable || !strings.Contains(body, "[-] notifications: not every set has a baseline yet") {
				t.Errorf("%d %s", status, body)
			}
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	if status, _, err := get("/livez"); status != http.StatusOK {
		t.Errorf("%d %v", status, err)
	}
	_, body, err := get("/metrics")
	for _, line := range []string{"rssub_ready 0", "rssub_sets 0", `rssub_resources_total{outcome="copied"} 0`, `rssub_callback_refused_total{reason="weak_signature"} 0`, "rssub_free_min_bytes 2.68435456e+08"} {
		if !strings.Contains(body, "\n"+line+"\n") {
			t.Errorf("%v, no line %s in\n%s", err, line, body)
		}
	}
}

// What comes by the callback of the framework notifications is counted with the rest.
func TestFrameworkIsCounted(t *testing.T) {
	received := subscriber.Status{
		AsOf:          time.Now(),
		Counts:        subscriber.Counts{Received: 2, Refused: map[string]uint64{"unsigned": 3}},
		Subscriptions: []subscriber.SubscriptionStatus{{State: "active"}},
	}
	var n state
	n.add(&destination.SetStatus{Status: received, Framework: &received}, true)
	if at := slices.Index(refusals, "unsigned"); n.refused[at] != 6 || n.received != 4 || n.subscriptions[slices.Index(subscription, "active")] != 2 || n.unsubscribed != 0 {
		t.Errorf("%+v", n)
	}
}
