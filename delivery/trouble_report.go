package delivery

import (
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

// Troubles returns why subscriptions of a topic wait, and what they pass over. Nil:
// nothing is wrong as far as known.
func (d *Dispatcher) Troubles(topic string) []Trouble {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.topics[topic]
	if t == nil {
		return nil
	}
	var out []Trouble
	if tr := t.away; tr != nil {
		out = append(out, Trouble{Since: tr.first, NextLook: d.timeOf(tr.until), Err: tr.err})
	}
	for _, tr := range t.damaged {
		if !tr.isDamage() {
			out = append(out, Trouble{Since: tr.first, NextLook: instant(tr.until), Err: tr.err})
			continue
		}
		w := Trouble{
			Damaged: true, Since: tr.first, Err: tr.err, Seq: tr.at.Seq, NotificationID: tr.id,
			PassedOverAt: tr.first.Add(d.o.Policy.GiveUp), PassedOver: tr.passed,
		}
		if !tr.passed {
			w.NextLook = d.timeOf(tr.until)
		}
		out = append(out, w)
	}
	slices.SortFunc(out, func(a, b Trouble) int { return int(a.Seq) - int(b.Seq) }) //nolint:gosec // of one topic
	return out
}
