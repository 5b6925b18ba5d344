package transfer

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// What a store has changes nothing when it is merged again, nor does an earlier state of it: not even if a clock was
// set back between two gaps. Restore compares by that what it has restored.
func TestMergingAgainChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		s := subscriptions.Subscription{ID: uuid.New(), VerifiedAt: begin, Cursor: journal.Cursor{Generation: 1}}
		states := []subscriptions.Subscription{s}
		at, until := begin, begin
		for range rapid.IntRange(0, 2*journal.MaxGaps).Draw(t, "gaps") {
			from := until.Add(time.Duration(rapid.IntRange(0, 2).Draw(t, "apart")) * time.Minute)
			until = from.Add(time.Minute)
			at = at.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "later")) * time.Second)
			s.Gaps = journal.AddGap(s.Gaps, journal.Gap{
				From: from, Until: until, Count: 1, At: at, Reason: rapid.SampledFrom([]string{journal.GapGaveUp, journal.GapRetention}).Draw(t, "reason"),
			})
			s.Cursor.Position++
			states = append(states, s)
		}
		stored := subscriptions.Record{Subscription: &s}
		given := rapid.SampledFrom(states).Draw(t, "given")
		if out, err := merge(stored, subscriptions.Record{Subscription: &given}); !errors.Is(err, errUnchanged) {
			t.Fatalf("%d gaps became %d: %v, %v", len(s.Gaps), len(out.Subscription.Gaps), out.Subscription.Gaps, err)
		}
	})
	// The clock was set back between the two.
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := subscriptions.Subscription{ID: uuid.New(), VerifiedAt: at, Cursor: journal.Cursor{Generation: 1}, Gaps: []journal.Gap{
		{From: at, Until: at.Add(time.Minute), Count: 1, Reason: journal.GapGaveUp, At: at.Add(time.Hour)},
		{From: at.Add(time.Hour), Until: at.Add(2 * time.Hour), Count: 1, Reason: journal.GapGaveUp, At: at.Add(time.Minute)},
	}}
	given := s
	if _, err := merge(subscriptions.Record{Subscription: &s}, subscriptions.Record{Subscription: &given}); !errors.Is(err, errUnchanged) {
		t.Errorf("the same state was merged: %v", err)
	}
}
