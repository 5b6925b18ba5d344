package journal

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/google/uuid"
)

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

// Invariant 12. Ping records of topics without a head make room by their age, unless they wait.
func TestPingRecordsToDelete_Invariant12(t *testing.T) {
	id := func(n int) uuid.UUID { return uuid.UUID{15: byte(n)} }
	full := map[uuid.UUID]PingRecord{}
	for n := range MaxPingRecords {
		full[id(n)] = PingRecord{Pings: 2, Fetched: 1, PingedAt: at(int64(n))}
	}
	waits := func(ids ...int) map[uuid.UUID]PingRecord {
		m := maps.Clone(full)
		for _, n := range ids {
			m[id(n)] = PingRecord{Pings: 1, Fetched: 1, PingedAt: at(int64(MaxPingRecords - n))}
		}
		return m
	}
	few := maps.Clone(full)
	delete(few, id(0))
	unreadable := waits(3, 4)
	unreadable[id(9)] = PingRecord{}
	for name, tc := range map[string]struct {
		headless map[uuid.UUID]PingRecord
		n        int
		pinged   uuid.UUID
		want     []uuid.UUID
		err      error
	}{
		"there is a place":            {headless: few, n: 1},
		"all wait":                    {headless: full, n: 1, err: ErrTooManyPings},
		"known topics need no place":  {headless: full, n: 0},
		"the oldest goes":             {headless: waits(3, 4, 5), n: 2, want: []uuid.UUID{id(5), id(4)}},
		"too few do not wait":         {headless: waits(3, 4), n: 3, err: ErrTooManyPings},
		"one of them is pinged":       {headless: waits(3, 4), n: 1, pinged: id(4), want: []uuid.UUID{id(3)}},
		"one cannot be read":          {headless: unreadable, n: 2, want: []uuid.UUID{id(9), id(4)}},
		"no other than a pinged one":  {headless: waits(3), n: 1, pinged: id(3), err: ErrTooManyPings},
		"more than a partition holds": {n: MaxPingRecords + 1, err: ErrTooManyPings},
	} {
		got, err := PingRecordsToDelete(tc.headless, tc.n, func(id uuid.UUID) bool { return id == tc.pinged })
		if !slices.Equal(got, tc.want) || !errors.Is(err, tc.err) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
