package app

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/admin"
)

// What strangers make long in a summary leaves the other kinds alone, and every summary ends
// up short enough (invariant 12).
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
	uses := func(n int) map[string]admin.Use {
		out := map[string]admin.Use{}
		for i := range n {
			out[fmt.Sprint("publisher ", i)] = admin.Use{LastAt: time.Unix(int64(i), 0), Accepted: 1}
		}
		return out
	}
	for name, s := range map[string]summary{
		"empty":      {},
		"plain":      {Worst: laggards(20, "https://example.org/"), Slowest: laggards(20, "https://example.org/"), Events: events(50, "it began"), Uses: uses(5)},
		"long URLs":  {Worst: laggards(20, hostile), Slowest: laggards(20, hostile), Events: events(50, hostile), Uses: uses(5)},
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
			"uses": {len(s.Uses), len(got.Uses)}, "not ready": {len(s.NotReady), len(got.NotReady)},
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

// What was passed over counts for an hour.
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
