package delivery

import (
	"runtime"

	"github.com/rshub/rshub/journal"
)

// Reached tells how far the subscriptions of this hub got, of each topic of some
// partitions: a store that lost the head of a topic learns by that what it had. It
// takes a time that grows with their number. Between chunks of them it gives the lock
// to those who deliver, so one that comes or goes meanwhile may be left out.
func (d *Dispatcher) Reached(partitions []int) (all []journal.Reached) {
	var wanted [journal.Partitions]bool
	for _, n := range partitions {
		wanted[n] = true
	}
	d.mu.Lock()
	topics := make([]*topic, 0, len(d.topics))
	for _, t := range d.topics {
		topics = append(topics, t)
	}
	d.mu.Unlock()
	for _, t := range topics {
		if !wanted[t.partition()] {
			continue
		}
		if least, greatest, ok := d.reached(t); ok {
			all = append(all, journal.Reached{Topic: t.url, Least: least.unpack(), Greatest: greatest.unpack()})
		}
	}
	return all
}

// reached returns the least and the greatest anchor of the lanes of a topic; false:
// it has none.
func (d *Dispatcher) reached(t *topic) (least, greatest anchor, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := len(t.lanes) - 1; i >= 0; i-- {
		at := t.lanes[i].cursor.anchor
		if !ok || at.position < least.position {
			least = at
		}
		if !ok || at.position > greatest.position {
			greatest = at
		}
		ok = true
		if i > 0 && i%chunk == 0 {
			d.mu.Unlock()
			runtime.Gosched()
			d.mu.Lock()
			i = min(i, len(t.lanes))
		}
	}
	return least, greatest, ok
}
