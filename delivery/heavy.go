package delivery

import (
	"sync/atomic"
)

// senders counts the exchanges that may take a while, so that they leave some senders
// to the others. These are exchanges with unproven hosts, and those of bodies over 64
// KiB, which are heavy: a host may take an eighth of the exchange's limit and is still
// quick, and that limit grows with the body.
//
// Both together leave a tenth of the senders. Bodies up to half a share of the room
// may use half of that tenth. Unproven hosts leave a fifth of the senders, and heavy
// bodies leave a twentieth to the unproven hosts. So neither keeps the other from all
// senders, however much of it waits. A body is read only if a sender can be spared for it, and
// that place is kept until the first lane comes for it. So no body is read in vain.
//
// A lane that finds no sender for a body in memory is parked and keeps no memory. It
// has its turn again when an exchange has ended.
type senders struct {
	all, unprovenMax int64
	// unproven and heavy are Dispatcher.unprovenBusy and heavyBusy, for those who do
	// not hold its lock.
	unproven, heavy atomic.Int64
	// kept are the places that wait for a lane, by standing. The lock of bodies guards
	// its changes.
	kept [2]atomic.Int64
}

// free is how many more exchanges of a body of this bulk (room.bulk) may begin with
// hosts of standing s.
func (n *senders) free(s standing, bulk int) int64 {
	most := max(1, n.all-max(1, int64(bulk)*n.all/20))
	reserve := min(max(1, n.all/20), most-1)
	toUnproven := n.unproven.Load() + n.kept[unproven].Load()
	heavy := n.heavy.Load() + n.kept[quick].Load()
	if s == quick {
		return most - heavy - max(toUnproven, reserve)
	}
	return min(max(most-heavy-toUnproven, reserve-toUnproven), n.unprovenMax-toUnproven)
}

// mayTakeLong reports whether the exchange of a body counts among those.
func (b *bodies) mayTakeLong(e *body, s standing) bool {
	return s == unproven || b.room.bulk(e.entry.Size) > 0
}

// canSend reports whether a sender can be spared for e. If not, resume has it asked
// again. That is noted first, so that no sender comes free in between.
func (b *bodies) canSend(e *body, s standing) bool {
	if !b.mayTakeLong(e, s) {
		return true
	}
	b.starved.Store(true)
	return b.senders.free(s, b.bulk(e, s)) > 0
}

// bulk is that of e, and with unproven hosts the greatest.
func (b *bodies) bulk(e *body, s standing) int {
	if s == unproven {
		return 2
	}
	return b.room.bulk(e.entry.Size)
}

// keep keeps n more places of senders for whoever comes first for e.
func (b *bodies) keep(e *body, s standing, n int64) {
	if b.mayTakeLong(e, s) {
		b.senders.kept[s].Add(n)
	}
}

// resume gives room to those that waited for a sender. It is called after each job.
func (b *bodies) resume() {
	if b.starved.CompareAndSwap(true, false) {
		b.mu.Lock()
		b.admit()
		b.unlock()
	}
}

// counted publishes the counts that senders has of the Dispatcher's.
func (d *Dispatcher) counted() {
	d.bodies.senders.unproven.Store(int64(d.unprovenBusy))
	d.bodies.senders.heavy.Store(int64(d.heavyBusy))
}

// standing is that of the job's host when it was picked.
func (j *job) standing() standing {
	if j.counts {
		return unproven
	}
	return quick
}

// spare counts the exchange that j is about to begin, if its body is heavy. False: no
// sender can be spared for it, and j is released.
func (d *Dispatcher) spare(j *job, b *body) bool {
	if !b.isLarge && b.entry.Size <= lightBody {
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	bulk := d.bodies.room.bulk(b.entry.Size)
	switch {
	case j.counts || bulk == 0:
		d.work.Signal() // the place that was kept for it is free
		return true
	case d.bodies.senders.free(quick, bulk) > 0:
		j.heavy = true
		d.heavyBusy++
		d.counted()
		return true
	}
	if d.setAside(j.lane) {
		d.heavyLanes[bulk-1].push(j.lane)
	}
	d.release(*j)
	return false
}

// resumeHeavy makes as many parked lanes ready as senders can be spared for. A lane
// that it made ready ends with release or remove. Both call it again, so no lane stays
// parked while senders are free.
func (d *Dispatcher) resumeHeavy() {
	for i := range d.heavyLanes {
		lanes := &d.heavyLanes[i]
		if lanes.len() == 0 {
			continue
		}
		for free := d.bodies.senders.free(quick, i+1); free > 0 && lanes.len() > 0; {
			l, _ := lanes.pop()
			if l.state != parked {
				continue
			}
			l.state = idle
			if d.proceed(l, d.read()); l.state == ready && !l.host.suspect {
				free--
			}
		}
	}
}
