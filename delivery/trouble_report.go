package delivery

import (
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Trouble is why subscriptions of a topic wait, as far as this hub's own are concerned.
type Trouble struct {
	// Damaged: a notification is damaged. Else the store does not answer.
	Damaged bool
	// Since is when it was first seen, and NextLook when the store is asked again.
	Since, NextLook time.Time
	// Err is what the store said last.
	Err error
	// The rest is of damage: which notification it is, the zero ID where that is not
	// known, and when it is passed over, or that it is.
	Seq            uint64
	NotificationID uuid.UUID
	PassedOverAt   time.Time
	PassedOver     bool
}

// report returns why subscriptions of a topic wait, and what they pass over.
func (ts *troubles) report(t *topic) (out []Trouble) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, tr := range t.troubles.all {
		w := Trouble{Since: tr.first, Err: tr.err}
		if tr.isDamage() {
			w.Damaged, w.Seq, w.NotificationID = true, tr.at.Seq, tr.id
			w.PassedOverAt, w.PassedOver = tr.first.Add(ts.policy.GiveUp), tr.passed
		}
		if !tr.passed {
			w.NextLook = ts.timeOf(tr.until)
		}
		out = append(out, w)
	}
	slices.SortFunc(out, func(a, b Trouble) int { return cmp.Compare(a.Seq, b.Seq) })
	return out
}
