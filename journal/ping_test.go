package journal

import "testing"

// HUB-60: what a fetch answers are the pings that it covers, and no others.
func TestPingRecordAfterFetch_HUB60(t *testing.T) {
	stored := PingRecord{Topic: "t", Pings: 7, Fetched: 4, PingedAt: at(1), Tries: 2, NextAt: at(9), Last: Fetch{Outcome: "topic-unreachable"}}
	for name, tc := range map[string]struct {
		done    PingRecord
		counts  bool
		waiting bool
	}{
		"all of them":                         {PingRecord{Fetched: 7, Last: Fetch{Outcome: "accepted"}}, true, false},
		"one came meanwhile":                  {PingRecord{Pings: 6, Fetched: 6, Last: Fetch{Outcome: "accepted"}}, true, true},
		"one more failure":                    {PingRecord{Fetched: 4, Tries: 3, NextAt: at(20)}, true, true},
		"an older one":                        {PingRecord{Fetched: 3}, false, true},
		"of a ping record that was forgotten": {PingRecord{Fetched: 8}, false, true},
		"what it says of pings and url":       {PingRecord{Topic: "other", Pings: 99, Fetched: 7, PingedAt: at(5)}, true, false},
	} {
		got, ok := stored.AfterFetch(tc.done)
		want := stored
		if tc.counts {
			want.Fetched, want.Tries, want.NextAt, want.Last = tc.done.Fetched, tc.done.Tries, tc.done.NextAt, tc.done.Last
		}
		if ok != tc.counts || got != want || got.Waiting() != tc.waiting {
			t.Errorf("%s: %t, %+v, waiting %t", name, ok, got, got.Waiting())
		}
	}
}

func TestPingRecordPinged(t *testing.T) {
	m := PingRecord{Topic: "t"}.Pinged(at(3)).Pinged(at(5))
	if m != (PingRecord{Topic: "t", Pings: 2, PingedAt: at(5)}) || !m.Waiting() {
		t.Errorf("%+v", m)
	}
}
