package app

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/internal/base/excerpt"
)

// A list of a summary that strangers made long does not push out the other lists, and every summary
// is short enough (invariant 12).
func TestSummariesFit(t *testing.T) {
	hostile := "https://example.org/?" + strings.Repeat("&<>", 10_000)
	laggards := func(n int, topic string) (out []admin.Laggard) {
		for i := range n {
			out = append(out, admin.Laggard{ID: fmt.Sprint(i), Topic: topic, Callback: topic, LastError: "timeout"})
		}
		return out
	}
	events := func(n int, text string) (out []admin.Event) {
		for i := range n {
			out = append(out, admin.Event{Node: "one", Name: fmt.Sprint(i), Text: text})
		}
		return out
	}
	hosts := func(n int, name string) (out []admin.FailingHost) {
		for i := range n {
			out = append(out, admin.FailingHost{Host: name, Failing: i + 1, LastError: "timeout"})
		}
		return out
	}
	uses := func(n int) map[string]admin.Use {
		out := map[string]admin.Use{}
		for i := range n {
			out[fmt.Sprint("publisher ", i)] = admin.Use{LastAt: time.Unix(int64(i), 0), Accepted: 1}
		}
		return out
	}
	for name, s := range map[string]summary{
		"empty":      {},
		"plain":      {Worst: laggards(20, "https://example.org/"), Slowest: laggards(20, "https://example.org/"), FailingHosts: hosts(10, "s.example:443"), Events: events(50, "it began"), Uses: uses(5)},
		"long URLs":  {FailingHosts: hosts(10, excerpt.Cut(hostile, admin.MaxShown)), Worst: laggards(20, hostile), Slowest: laggards(20, hostile), Events: events(50, hostile), Uses: uses(5)},
		"long first": {FirstLoss: &admin.Loss{Topic: hostile, Callback: hostile}, Worst: laggards(1, "https://example.org/")},
		"not ready":  {HubNow: admin.HubNow{NotReady: []string{hostile, hostile}}, Events: events(2, "it began")},
		"publishers": {Worst: laggards(20, "https://example.org/"), Slowest: laggards(1, "https://example.org/"), Events: events(50, "it began"), Uses: uses(5000)},
		"quotes":     {Worst: laggards(20, strings.Repeat("\x00", 9000)), Slowest: laggards(20, strings.Repeat("\xff", 9000)), Events: events(50, strings.Repeat("\x01", 9000)), Uses: uses(5000)},
	} {
		text, err := s.fit()
		if err != nil || len(text) > maxSummary {
			t.Errorf("%s: %d bytes, %v", name, len(text), err)
			continue
		}
		var got summary
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		for what, n := range map[string][2]int{
			"worst": {len(s.Worst), len(got.Worst)}, "slowest": {len(s.Slowest), len(got.Slowest)}, "events": {len(s.Events), len(got.Events)},
			"hosts": {len(s.FailingHosts), len(got.FailingHosts)}, "uses": {len(s.Uses), len(got.Uses)}, "not ready": {len(s.NotReady), len(got.NotReady)},
		} {
			if least := min(1, n[0]); n[1] < least || (name == "plain" || name == "long first" || name == "not ready") && n[1] != n[0] {
				t.Errorf("%s: %d of %d %s are left", name, n[1], n[0], what)
			}
		}
		if len(got.Uses)+got.UsesLeftOut != len(s.Uses) {
			t.Errorf("%s: %d uses and %d left out of %d", name, len(got.Uses), got.UsesLeftOut, len(s.Uses))
		}
		if name == "long URLs" && (len(got.Worst) < 10 || len(got.Events) < 5) {
			t.Errorf("%s: only %d of the worst and %d events are left", name, len(got.Worst), len(got.Events))
		}
		if name == "publishers" && len(got.Worst) != 20 {
			t.Errorf("many publishers leave %d of the worst", len(got.Worst))
		}
		if n := len(got.Events); n > 0 && got.Events[n-1].Name != s.Events[len(s.Events)-1].Name {
			t.Errorf("%s: the latest event is %s", name, got.Events[n-1].Name)
		}
	}
	s := summary{HubNow: admin.HubNow{Node: admin.Node{ID: strings.Repeat("x", 2*maxSummary)}}}
	if _, err := s.fit(); err == nil {
		t.Error("a summary that cannot be cut is said to fit")
	}
}

// Notifications that were passed over count for an hour.
func TestHourly(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var h hourly
	for second := 0; second <= 2*3600; second += 5 {
		count := uint64(0)
		if second >= 20 { // seven, and three an hour later
			count = 7
		}
		if second >= 3700 {
			count = 10
		}
		got, want := h.grown(begin.Add(time.Duration(second)*time.Second), count), count
		if second >= 3720 {
			want = 3
		}
		if got != want && (second < 3600 || second > 3720) {
			t.Fatalf("after %d s: %d, want %d", second, got, want)
		}
		if len(h) > 62 {
			t.Fatalf("%d samples are kept", len(h))
		}
	}
}

// The reports of several hubs about one host are one row. Its cause is that of the subscription that
// has failed there the longest.
func TestFailingHostsOfAllHubs(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC) }
	got := joined([]admin.FailingHost{
		{Host: "a:443", Failing: 2, FailingSince: at(5), LastStatus: 500},
		{Host: "b:443", Failing: 4, FailingSince: at(9), LastError: "timeout"},
		{Host: "a:443", Failing: 3, FailingSince: at(3), LastStatus: 404, Suspect: true},
		{Host: "a:443", Failing: 1, FailingSince: at(4), LastStatus: 503},
		{Host: "c:443", Failing: 4, FailingSince: at(8), LastStatus: 410},
	})
	want := []admin.FailingHost{
		{Host: "a:443", Failing: 6, FailingSince: at(3), LastStatus: 404, Suspect: true},
		{Host: "c:443", Failing: 4, FailingSince: at(8), LastStatus: 410},
		{Host: "b:443", Failing: 4, FailingSince: at(9), LastError: "timeout"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}
