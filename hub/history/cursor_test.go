package history

import (
	"context"
	"testing"
	"time"

	"github.com/rshub/rshub/journal"
)

// regained is a journal of one entry, which was lost and began anew at an instant. It has none of the positions
// before.
type regained struct {
	journal.Reader
	start journal.Anchor
	entry journal.Entry
}

func (r regained) Head(context.Context, string) (journal.Head, error) {
	return journal.Head{Trimmed: r.start}, nil
}

func (r regained) Read(_ context.Context, _ string, after journal.Anchor, _ int, _ int64) ([]journal.Entry, error) {
	switch {
	case after == r.start, after.Nonce == 0 && after.Position < r.entry.Position: // of where it began, or damaged
		return []journal.Entry{r.entry}, nil
	case after == r.entry.Anchor():
		return nil, nil
	default:
		return nil, journal.ErrRolledBack
	}
}

// A reader that goes back is told the gap of what may come again, and none where nothing was lost.
func TestGapOfGoingBack(t *testing.T) {
	at := func(minutes int) time.Time { return time.Date(2026, 1, 1, 0, minutes, 0, 0, time.UTC) }
	j := regained{
		start: journal.Anchor{Position: 3, Nonce: 3, Until: at(0)},
		entry: journal.Entry{Position: 9, Nonce: 9, Seq: 1, From: at(0), Until: at(1)},
	}
	for name, tc := range map[string]struct {
		was journal.Anchor
		gap *Gap
	}{
		"from the beginning of a journal before":       {journal.Anchor{Position: 5, Nonce: 5, Until: at(0)}, nil},
		"from an entry":                                {journal.Anchor{Position: 7, Nonce: 7, Seq: 2, Until: at(2)}, &Gap{at(0), at(2), journal.GapRolledBack}},
		"from where it began before, further on":       {journal.Anchor{Position: 6, Seq: 4, Until: at(4)}, &Gap{at(0), at(4), journal.GapRolledBack}},
		"from before a reset":                          {journal.Anchor{Position: 6, Until: at(4)}, &Gap{at(4), at(0), journal.GapReset}},
		"from content, which has no place in the time": {journal.Anchor{Position: 7, Nonce: 7, Seq: 2}, &Gap{at(0), time.Time{}, journal.GapRolledBack}},
	} {
		t.Run(name, func(t *testing.T) {
			c := cursor{journal: j, topic: "https://example.org/changes/", at: tc.was}
			items, err := c.read(t.Context(), nil, 10)
			if err != nil {
				t.Fatal(err)
			}
			if tc.gap != nil {
				if len(items) == 0 || items[0].gap == nil || *items[0].gap != *tc.gap {
					t.Fatalf("%+v, and the first has to be %+v", items, tc.gap)
				}
				items = items[1:]
			}
			if len(items) != 1 || items[0].gap != nil || items[0].entry.Position != 9 {
				t.Errorf("%+v", items)
			}
		})
	}
}
