package subscriber

import (
	"slices"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/resourcesync"
)

// appendAll appends the changes of a part in batches, in the order of time, or of the list if that orders them. All of
// them that there is room for come at once, so that Subscriber.Ahead finds what belongs together. It returns how
// many of them were new.
func (in *inbox) appendAll(p *part, from time.Time, job *repairJob) (n int, err error) {
	full := false
	err = in.update(func(tx *boltfile.Tx) (err error) {
		n, full, err = in.appendIn(tx, p, from, job)
		return err
	})
	switch {
	case err != nil:
		return 0, err
	case full:
		err = errFull
	}
	in.more.Broadcast()
	return n, err
}

// appendIn does what appendAll does, in tx. Full: there was no room for the rest.
func (in *inbox) appendIn(tx *boltfile.Tx, p *part, from time.Time, job *repairJob) (n int, full bool, err error) {
	if p.ordered() {
		n, full, err = in.appendListed(tx, p, job)
	} else {
		n, full, err = in.appendTimed(tx, p, from, job)
	}
	if err != nil || full || job.hub || p.seen == seenOf(tx, p.url) {
		return n, full, err
	}
	return n, false, tx.Bucket(metaBucket).PutJSON(seenKey(p.url), p.seen)
}

// appendListed appends changes in the order of the list, all of them or none.
func (in *inbox) appendListed(tx *boltfile.Tx, p *part, job *repairJob) (n int, full bool, err error) {
	if job.why != GapPulled && in.isFull(0) {
		return 0, true, nil
	}
	t := in.tail(tx)
	to, skip := tail{Until: t.Until}, named(t.Edge)
	for i := range p.changes {
		to.Until = clock.Later(to.Until, p.changes[i].Datetime)
	}
	var changes []resourcesync.Entry
	for i := range p.changes {
		e := &p.changes[i]
		if e.Datetime.Equal(to.Until) && len(to.Edge) < maxEdge {
			to.Edge = append(to.Edge, name(e))
		}
		if had := e.Datetime.Equal(t.Until) && skip.remove(name(e)); !had || i >= p.old && p.again[e.Loc] {
			changes = append(changes, *e)
		}
	}
	for some := range slices.Chunk(changes, batchEntries) {
		if err := in.appendPacked(tx, batch{From: t.Until, Until: to.Until}, some); err != nil {
			return 0, false, err
		}
	}
	return len(changes), false, in.advance(tx, to)
}

// appendTimed appends changes in the order of time, as far as there is room.
func (in *inbox) appendTimed(tx *boltfile.Tx, p *part, from time.Time, job *repairJob) (n int, full bool, err error) {
	order, times := inTime(p.changes, from)
	for len(order) > 0 {
		if job.why != GapPulled && in.isFull(0) {
			return n, true, nil
		}
		size := min(batchEntries, len(order))
		for size < len(order) && times[order[size]].Equal(times[order[size-1]]) {
			size++ // a batch ends between two instants
		}
		part := make([]resourcesync.Entry, size)
		for i, k := range order[:size] {
			part[i] = p.changes[k]
		}
		until := times[order[size-1]]
		handed, err := in.appendPart(tx, part, until)
		if err != nil {
			return n, false, err
		}
		n, order = n+handed, order[size:]
	}
	return n, false, nil
}

// inTime returns the order of changes by time, and the time of each. Changes without a
// time stay behind the change before them.
func inTime(changes []resourcesync.Entry, from time.Time) (order []int, times []time.Time) {
	at := from
	times, order = make([]time.Time, len(changes)), make([]int, len(changes))
	for i := range changes {
		if d := changes[i].Datetime; !d.IsZero() {
			at = d
		}
		times[i], order[i] = at, i
	}
	slices.SortStableFunc(order, func(a, b int) int { return times[a].Compare(times[b]) })
	return order, times
}

// appendPart appends changes from a list to the inbox; all up to until are among them.
// It returns how many of them were new.
func (in *inbox) appendPart(tx *boltfile.Tx, all []resourcesync.Entry, until time.Time) (n int, err error) {
	t := in.tail(tx)
	b := batch{From: t.Until, Until: until, After: t.Until}
	skip := named(t.Edge)
	var changes []resourcesync.Entry
	for i := range all {
		e := &all[i]
		if e.Datetime.Equal(until) && len(b.edge) < maxEdge {
			b.edge = append(b.edge, name(e))
		}
		if !b.isOld(e, skip) {
			changes = append(changes, *e)
		}
	}
	if len(changes) > 0 {
		if err := in.appendPacked(tx, b, changes); err != nil {
			return 0, err
		}
	}
	return len(changes), in.advance(tx, tail{Until: until, Edge: b.edge})
}

// appendPacked puts changes from a list at the end of the inbox, as the batch b.
func (in *inbox) appendPacked(tx *boltfile.Tx, b batch, changes []resourcesync.Entry) error {
	payload, err := packEntries(changes)
	if err != nil {
		return err
	}
	b.Received, b.Repaired, b.Packed, b.MediaType = time.Now(), true, true, "application/xml"
	return in.append(tx, b, payload)
}

// advance moves the tail forward, unless it is further already, and appends the retained
// notifications that follow now.
func (in *inbox) advance(tx *boltfile.Tx, to tail) error {
	t := in.tail(tx)
	if to.Until.Equal(t.Until) {
		to.Edge = merge(to.Edge, t.Edge)
	}
	if !to.Until.Before(t.Until) {
		if err := tx.Bucket(metaBucket).PutJSON(tailKey, to); err != nil {
			return err
		}
	}
	return in.releaseRetained(tx)
}

// begin begins with the first notification.
func (in *inbox) begin(at time.Time) error {
	err := in.update(func(tx *boltfile.Tx) error { return in.advance(tx, tail{Until: at}) })
	in.more.Broadcast()
	return err
}

// until is how far the inbox is complete.
func (in *inbox) until() (time.Time, error) {
	return boltfile.Read(in.db, func(tx *boltfile.Tx) time.Time { return in.tail(tx).Until })
}

// names counts the changes of each name.
type names map[string]int

func named(edge []string) names {
	out := make(names, len(edge))
	for _, n := range edge {
		out[n]++
	}
	return out
}

// remove removes one change of a name. It reports whether there was one.
func (n names) remove(name string) bool {
	had := n[name] > 0
	if had {
		n[name]--
	}
	return had
}

// merge adds to an edge the changes of another one at the same instant that it lacks.
func merge(edge, other []string) []string {
	has := named(edge)
	for _, n := range other {
		if !has.remove(n) && len(edge) < maxEdge {
			edge = append(edge, n)
		}
	}
	return edge
}
