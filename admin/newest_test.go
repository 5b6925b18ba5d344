package admin

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rshub/rshub/journal"
)

// askedTopics counts how often a journal is read.
type askedTopics struct {
	*memory
	reads int
}

func (a *askedTopics) Read(ctx context.Context, topic string, after journal.Anchor, limit int, maxBytes int64) ([]journal.Entry, error) {
	a.reads++
	return a.memory.Read(ctx, topic, after, limit, maxBytes)
}

// A journal is read backwards whatever the times of its entries: none is left out, none comes
// twice, and few looks are needed.
func TestBackwards(t *testing.T) {
	const day = 24 * time.Hour
	every := func(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }
	bursts := func(of int) func(int) time.Duration {
		return func(i int) time.Duration {
			if i%of == 0 {
				return day
			}
			return time.Microsecond
		}
	}
	for name, tc := range map[string]struct {
		n     int
		after func(i int) time.Duration // the entry before
	}{
		"none":                      {0, nil},
		"one":                       {1, every(time.Second)},
		"one a nanosecond":          {2000, every(1)},
		"one a second":              {2000, every(time.Second)},
		"one a month":               {200, every(30 * day)},
		"bursts, a day apart":       {3000, bursts(500)},
		"bursts of just over batch": {3 * (batch + 1), bursts(batch + 1)},
		"one burst, and then few":   {1000, func(i int) time.Duration { return max(1, time.Duration(i-950)*day) }},
		"anyhow":                    {3000, func(int) time.Duration { return time.Duration(rand.Int64N(1<<rand.IntN(47))) + 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			const gone = 10 // that retention took
			m := &memory{}
			entries := m.addEntries(theTopic, tc.n+gone, gone)
			trimmed := journal.Anchor{Position: 1e18, Seq: gone}
			at, last := trimmed.Position, trimmed
			for i := range entries {
				at += journal.Position(tc.after(i))
				entries[i].Position = at
				last = entries[i].Anchor()
			}
			heads := m.heads[journal.Partition(journal.TopicID(theTopic))]
			heads[0].Trimmed, heads[0].Last = trimmed, last
			counted := &askedTopics{memory: m}
			calls := &notificationCalls{Options: &Options{Topics: counted}}
			var got []uint64
			for n, err := range calls.backwards(t.Context(), heads[0], last.Position+1) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, n.Seq)
			}
			slices.Reverse(got)
			var want []uint64
			for _, e := range entries {
				want = append(want, e.Seq)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d entries come, want %d", len(got), len(want))
			}
			// The journal of this test returns seven entries at a time.
			if most := (2+tc.n/few)*70 + 3*tc.n; counted.reads > most {
				t.Errorf("it was read %d times, want at most %d", counted.reads, most)
			}
			t.Logf("%d entries, %d reads", tc.n, counted.reads)
		})
	}
}
