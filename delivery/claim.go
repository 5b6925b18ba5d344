package delivery

import "context"

// claim claims a sender for a large body (limits.go): the exchange may take a while. If none
// can be spared, the lane is parked.
func (s *sender) claim(_ context.Context, d *delivery) (ok bool) {
	b := d.body
	if !b.inRoom && b.entry.Size <= smallBody {
		return true
	}
	s.sched.of(d.lane).do(func(sc *scheduler) { ok = sc.claim(&d.job, b.entry.Size) })
	return ok
}

// claim counts the exchange that j is about to begin, if its body, of size bytes, is
// large. False: no sender can be spared for it, and j is parked.
func (s *scheduler) claim(j *job, size int64) bool {
	bulk := s.bulk(size)
	switch {
	case j.unproven || bulk == 0:
		s.signal() // the slot that was reserved for it is free
		return true
	case s.limits.takeLarge(bulk):
		j.large = true
		return true
	}
	s.largeLanes[bulk-1].push(j.lane)
	s.limits.starved.Store(true)
	s.park(*j)
	return false
}

// resumeLarge makes as many parked lanes ready as senders can be spared for. A lane
// that it made ready ends with release or remove. Both call it again, so no lane stays
// parked while senders are free.
func (s *scheduler) resumeLarge() {
	for i := range s.largeLanes {
		lanes := &s.largeLanes[i]
		if lanes.len() == 0 {
			continue
		}
		s.limits.starved.Store(true) // before it reads what is free: a sender that comes free afterwards sees it
		for free := s.limits.free(quick, i+1); free > 0 && lanes.len() > 0; {
			l, _ := lanes.pop()
			if l.state != parked {
				continue
			}
			l.state = idle
			if s.proceed(l, s.read(), false); l.state == ready && !l.host.suspect {
				free--
			}
		}
	}
}
