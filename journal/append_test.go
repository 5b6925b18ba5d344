package journal

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestHeadGoesOnWithEachEntry(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 5, time.FixedZone("", 3600))
	e, err := Entry{From: now.Add(-time.Hour), Until: now, Kind: KindChange, Body: []byte("abc"), Gap: &Gap{Count: 2, From: now.Add(-2 * time.Hour), Until: now.Add(-time.Hour)}}.Received(now, 7)
	if err != nil || e.Size != 3 || !e.ReceivedAt.Equal(now) || e.ReceivedAt.Location() != time.UTC || IDPartition(e.ID) != 7 || e.Nonce == 0 {
		t.Fatalf("%+v (%v)", e, err)
	}
	before := Head{Topic: "t", Version: "old", Reset: true, Epoch: 3, Entries: 4, Bytes: 10, Last: Anchor{Position: 8, Seq: 5}}
	for used, want := range map[Position]Position{0: Position(now.UnixNano()) + 1, Position(now.UnixNano()) + 100: Position(now.UnixNano()) + 101} {
		if got := before.Place(e, used); got.Position != want || got.Seq != 6 {
			t.Errorf("above %d it stands at %d, as number %d", used, got.Position, got.Seq)
		}
	}
	later := before
	later.Last.Position = Position(now.UnixNano()) + 200 // the clock went back
	if got := later.Place(e, 0).Position; got != later.Last.Position+1 {
		t.Errorf("after %d it stands at %d", later.Last.Position, got)
	}
	e = before.Place(e, 0)
	want := Head{
		Topic: "t", Version: e.Nonce.Version(), Kind: KindChange, From: e.From, Until: e.Until, Epoch: 3,
		Last: e.Anchor(), ID: e.ID, SHA256: e.SHA256, ReceivedAt: e.ReceivedAt, Gaps: []Gap{*e.Gap}, Entries: 5, Bytes: 13,
	}
	if d := cmp.Diff(want, before.Append(e)); d != "" {
		t.Error(d)
	}
	e.From, e.Until, e.Gap = time.Time{}, time.Time{}, nil
	if h := before.Append(e); !h.Reset || !h.Until.IsZero() || len(h.Gaps) != 0 {
		t.Errorf("after an entry without an interval: %+v", h)
	}
	if h := want.AfterReset("new"); !h.Reset || h.Kind != "" || h.Version != "new" || h.Epoch != 4 || h.Until != want.Until || h.Entries != want.Entries {
		t.Errorf("after a reset: %+v", h)
	}
}

func TestCutDeletesTheOldest(t *testing.T) {
	at := time.Unix(1000, 0)
	for _, c := range []struct {
		cut      Cut
		retained int64
		want     bool
	}{
		{Cut{KeepBytes: -1}, 1 << 40, false},
		{Cut{KeepBytes: 10}, 10, false},
		{Cut{KeepBytes: 10}, 11, true},
		{Cut{Before: at, KeepBytes: -1}, 11, false},
		{Cut{Before: at.Add(1), KeepBytes: -1}, 11, true},
	} {
		if got := c.cut.Deletes(at, c.retained); got != c.want {
			t.Errorf("%+v with %d bytes: %v", c.cut, c.retained, got)
		}
	}
	h := Head{Last: Anchor{Position: 9, Seq: 9}, Trimmed: Anchor{Seq: 2}, Entries: 7, Bytes: 70}
	if got := h.Trim(Anchor{Position: 5, Seq: 5}, 10); got.Entries != 4 || got.Bytes != 60 || got.Trimmed.Seq != 5 {
		t.Errorf("%+v", got)
	}
	if got := h.Trim(Anchor{Position: 10, Seq: 10}, 10); got.Entries != 0 {
		t.Errorf("an entry with too great a number leaves %d", got.Entries)
	}
}

// Nobody who does not read holds up another, and who is gone gets nothing.
func TestBroadcast(t *testing.T) {
	var b Broadcast
	b.Send(Hint{Topic: "to nobody"})
	ctx, cancel := context.WithCancel(t.Context())
	never, reads := HintedTopics(ctx, b.Hints), HintedTopics(ctx, b.Hints)
	for range 2 * hintBuffer {
		b.Send(Hint{Topic: "topic"})
		if got := <-reads; got != "topic" {
			t.Fatalf("heard of %q", got)
		}
	}
	if len(never) != hintBuffer {
		t.Errorf("%d hints wait", len(never))
	}
	cancel()
	if got, open := <-reads; open {
		t.Errorf("heard of %q after the end", got)
	}
	b.Send(Hint{Topic: "after the end"})
}
