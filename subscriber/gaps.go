package subscriber

import (
	"errors"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
)

// Why a gap was looked for.
const (
	GapMissed = "missed" // a notification came that begins later than the one before it ended
	GapLease  = "lease"  // there was no lease for a while, or there is one for the first time
	GapStart  = "start"  // Run began
	GapPulled = "pulled" // CatchUp was called
	GapCheck  = "check"  // the Change List was asked whether anything was not pushed
	GapTold   = "told"   // the hub's stream said that something is missing
	GapPolled = "polled" // nothing pushes, so the Change List is read
)

// States of a gap.
const (
	GapOpen     = "open"     // it is being repaired
	GapRepaired = "repaired" // its changes were handed on, from a list or because they came after all
	GapBaseline = "baseline" // its changes are lost; a new baseline is needed
)

// Gap is an interval that was not pushed, or that may not have been.
type Gap struct {
	From       time.Time `json:"from"`
	Until      time.Time `json:"until,omitzero"` // zero: to be found out
	Why        string    `json:"why"`            // GapMissed, GapLease, GapStart, GapCheck or GapTold
	State      string    `json:"state"`
	FoundAt    time.Time `json:"found_at"`
	RepairedAt time.Time `json:"repaired_at,omitzero"`
	Changes    int       `json:"changes"`       // that were read from the lists
	Via        string    `json:"via,omitempty"` // the Change List or index, or the address of the hub's; empty if it was pushed after all
	// Unproven says that the lists do not say whether they had everything.
	Unproven bool `json:"unproven,omitempty"`

	number uint64
}

// isClosedBy reports whether a gap that is open lies before an instant up to which
// everything was received.
func (g *Gap) isClosedBy(until time.Time) bool {
	return g.State == GapOpen && !g.Until.After(until)
}

// record stores a gap that was found, or its progress. An open gap from or to the same
// instant is the same gap.
func (r *repairer) record(gap *Gap) error {
	found := *gap
	return r.inbox.update(func(tx *boltfile.Tx) error {
		*gap = found
		for _, g := range readGaps(tx) {
			if gap.number == 0 && g.State == GapOpen && (g.From.Equal(gap.From) || g.Until.Equal(gap.Until)) {
				gap.number, gap.From, gap.FoundAt, gap.Changes = g.number, g.From, g.FoundAt, g.Changes
			}
		}
		return putGap(tx, gap)
	})
}

// closeFilled closes the gaps whose notifications came after all.
func (r *repairer) closeFilled() error {
	err := r.inbox.update(func(tx *boltfile.Tx) error {
		until := r.inbox.tail(tx).Until
		for _, g := range readGaps(tx) {
			if !g.isClosedBy(until) {
				continue
			}
			g.State, g.RepairedAt = GapRepaired, time.Now()
			if err := putGap(tx, &g); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		r.troubles.set(repairing, nil)
	}
	return err
}

// closeGap ends a repair: the inbox is complete up to the target, and notifications that
// came early follow from there.
func (r *repairer) closeGap(job *repairJob, gap Gap) error {
	gap.State, gap.RepairedAt = GapRepaired, time.Now()
	lacked := job.why == GapMissed || gap.Changes > 0 && job.why != GapPulled && job.why != GapPolled
	err := r.inbox.update(func(tx *boltfile.Tx) error {
		if job.target.IsZero() {
			gap.Until = r.inbox.tail(tx).Until
		} else if err := r.inbox.advance(tx, tail{Until: job.target}); err != nil {
			return err
		}
		if !lacked {
			return nil
		}
		stored := gap // a repeated transaction numbers it again
		return putGap(tx, &stored)
	})
	if err != nil {
		return err
	}
	if lacked {
		r.log.Info("a gap was repaired from the Source's Change Lists or from what the hub keeps", "event", "gap_repaired",
			"from", gap.From, "until", gap.Until, "changes", gap.Changes, "list", gap.Via, "why", gap.Why, "unproven", gap.Unproven)
	}
	r.troubles.set(repairing, nil)
	r.inbox.more.Broadcast()
	if lacked && job.why == GapCheck && r.o.subscribes() {
		return r.renewal.renewNow() // a hub that does not push may have lost the subscription
	}
	return nil
}

// giveUp tells the application that the changes up to an instant are lost, and goes on
// from there (DST-16).
func (r *repairer) giveUp(job *repairJob, gap Gap, to time.Time, why error) error {
	if !job.target.IsZero() && job.target.Before(to) {
		to = job.target
	}
	gap.Until, gap.State = to, GapBaseline
	lost := false
	err := r.inbox.update(func(tx *boltfile.Tx) error {
		gap.From = r.inbox.tail(tx).Until
		if lost = to.After(gap.From); !lost {
			return nil // it came meanwhile
		}
		gap := gap // a repeated transaction numbers it again
		if err := r.inbox.append(tx, batch{From: gap.From, Until: to, Baseline: true, Received: time.Now()}, nil); err != nil {
			return err
		}
		return errors.Join(r.inbox.advance(tx, tail{Until: to}), putGap(tx, &gap))
	})
	if err != nil {
		return err
	}
	r.troubles.set(repairing, nil)
	if !lost {
		return nil
	}
	r.log.Error("a gap cannot be repaired: a new baseline is needed", "event", "baseline_needed", "from", gap.From, "until", gap.Until, "error", why)
	r.inbox.more.Broadcast()
	return nil
}

// putGap stores a gap. A new one gets a number, and the oldest of over keptGaps is deleted.
func putGap(tx *boltfile.Tx, gap *Gap) (err error) {
	b := tx.Bucket(gapsBucket)
	if gap.number == 0 {
		if gap.number, err = b.NextSequence(); err == nil && gap.number > keptGaps {
			err = b.Delete(number(gap.number - keptGaps))
		}
	}
	return errors.Join(err, b.PutJSON(number(gap.number), gap))
}

// readGaps reads the gaps, the oldest first.
func readGaps(tx *boltfile.Tx) (gaps []Gap) {
	b := tx.Bucket(gapsBucket)
	for key := range b.From(nil) {
		g := Gap{number: fromNumber(key)}
		b.GetJSON(key, &g)
		gaps = append(gaps, g)
	}
	return gaps
}
