package subscriber

import (
	"encoding/binary"
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
)

// States of a gap.
const (
	GapOpen     = "open"     // it is being repaired
	GapRepaired = "repaired" // its changes were handed on, from a list or since they came after all
	GapBaseline = "baseline" // it can't be had; a new baseline is needed
)

// Gap is an interval that was not pushed, or of which nobody knew whether it was.
type Gap struct {
	From       time.Time `json:"from"`
	Until      time.Time `json:"until,omitzero"` // zero: to be found out
	Why        string    `json:"why"`            // GapMissed, GapLease, GapStart or GapCheck
	State      string    `json:"state"`
	FoundAt    time.Time `json:"found_at"`
	RepairedAt time.Time `json:"repaired_at,omitzero"`
	Changes    int       `json:"changes"`       // that were taken from the lists
	Via        string    `json:"via,omitempty"` // the Change List or index; empty where it was pushed after all
	// Unproven says that the lists do not tell whether they had everything.
	Unproven bool `json:"unproven,omitempty"`

	number uint64
}

// isClosedBy reports whether a gap that is open lies before an instant up to which
// there is everything.
func (g *Gap) isClosedBy(until time.Time) bool {
	return g.State == GapOpen && !g.Until.After(until)
}

// record notes that a gap was found, or what became of it. One that is there
// already, and open from or to the same instant, is it.
func (r *repairer) record(gap *Gap) error {
	found := *gap
	return r.inbox.update(func(tx *boltfile.Tx) error {
		gaps, err := readGaps(tx)
		if err != nil {
			return err
		}
		*gap = found
		for _, g := range gaps {
			if gap.number == 0 && g.State == GapOpen && (g.From.Equal(gap.From) || g.Until.Equal(gap.Until)) {
				gap.number, gap.From, gap.FoundAt, gap.Changes = g.number, g.From, g.FoundAt, g.Changes
			}
		}
		return putGap(tx, gap)
	})
}

// closeFilled notes that gaps are closed since what was missed came after all.
func (r *repairer) closeFilled() error {
	err := r.inbox.update(func(tx *boltfile.Tx) error {
		gaps, err := readGaps(tx)
		if err != nil {
			return err
		}
		t, err := r.inbox.tail(tx)
		if err != nil {
			return err
		}
		for _, g := range gaps {
			if !g.isClosedBy(t.Until) {
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

// closeGap ends a repair: the inbox is complete up to the target, and what was held
// goes on from there.
func (r *repairer) closeGap(job *repairJob, gap Gap) error {
	gap.State, gap.RepairedAt = GapRepaired, time.Now()
	told := job.why == GapMissed || gap.Changes > 0 && job.why != GapPulled
	err := r.inbox.update(func(tx *boltfile.Tx) error {
		if !job.target.IsZero() {
			if err := r.inbox.advance(tx, tail{Until: job.target}); err != nil {
				return err
			}
		}
		if !told {
			return nil // nothing was missing
		}
		if job.target.IsZero() {
			t, err := r.inbox.tail(tx)
			if err != nil {
				return err
			}
			gap.Until = t.Until
		}
		gap := gap
		return putGap(tx, &gap)
	})
	if err != nil {
		return err
	}
	if told {
		r.log.Info("a gap was repaired from the Source's Change Lists", "event", "gap_repaired",
			"from", gap.From, "until", gap.Until, "changes", gap.Changes, "list", gap.Via, "why", gap.Why, "unproven", gap.Unproven)
	}
	r.troubles.set(repairing, nil)
	r.inbox.more.tell()
	if told && job.why == GapCheck && r.o.Callback != "" {
		return r.renewal.renewNow() // a hub that does not push may have lost the subscription
	}
	return nil
}

// giveUp tells the application that what happened up to an instant can't be had, and
// goes on from there (DST-16).
func (r *repairer) giveUp(job *repairJob, gap Gap, to time.Time, why error) error {
	if !job.target.IsZero() && job.target.Before(to) {
		to = job.target
	}
	gap.Until, gap.State = to, GapBaseline
	err := r.inbox.update(func(tx *boltfile.Tx) error {
		t, err := r.inbox.tail(tx)
		if err != nil {
			return err
		}
		if !to.After(t.Until) {
			return nil // it came meanwhile
		}
		gap := gap
		gap.From = t.Until
		if err := r.inbox.append(tx, batch{From: t.Until, Until: to, Baseline: true, Received: time.Now()}, nil); err != nil {
			return err
		}
		if err := r.inbox.advance(tx, tail{Until: to}); err != nil {
			return err
		}
		return putGap(tx, &gap)
	})
	if err != nil {
		return err
	}
	r.log.Error("a gap cannot be repaired: a new baseline is needed", "event", "baseline_needed", "from", gap.From, "until", gap.Until, "error", why)
	r.troubles.set(repairing, nil)
	r.inbox.more.tell()
	return nil
}

func putGap(tx *boltfile.Tx, gap *Gap) error {
	b := tx.Bucket(gapsBucket)
	if gap.number == 0 {
		n, err := b.NextSequence()
		if err != nil {
			return err
		}
		gap.number = n
		if n > keptGaps {
			if err := b.Delete(number(n - keptGaps)); err != nil {
				return err
			}
		}
	}
	return putJSON(b, number(gap.number), gap)
}

func readGaps(tx *boltfile.Tx) ([]Gap, error) {
	b := tx.Bucket(gapsBucket)
	var out []Gap
	err := b.ForEach(func(key, _ []byte) error {
		var g Gap
		_, err := getJSON(b, key, &g)
		g.number = fromNumber(key)
		out = append(out, g)
		return err
	})
	return out, err
}

func fromNumber(key []byte) uint64 { return binary.BigEndian.Uint64(key) }
