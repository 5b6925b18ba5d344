package delivery

import "context"

// confirm checks, right before the attempt, that the subscription is still to get the
// notification (HUB-49), and from this hub. It records that the journal has the entry, and had
// the one before it.
func (s *sender) confirm(_ context.Context, d *delivery) (ok bool) {
	if !s.shards.owns(d.lane) { // Abort is about to come
		s.delay(&d.job, false)
		return false
	}
	d.lane.topic.tail.saw(d.cursor.anchor(), d.body.anchor)
	s.sched.of(d.lane).do(func(sc *scheduler) {
		if ok = sc.confirm(&d.job); !ok {
			sc.giveBack(d.job)
		}
	})
	return ok
}

// confirm reports whether j may be delivered. It copies to j the lease, the callback and the secret that
// are in force, because the lane may get others during the exchange.
func (s *scheduler) confirm(j *job) bool {
	j.lease, j.texts = j.lane.lease, j.lane.texts
	return j.set.delivers() && j.stands() && j.lane.inForce(s.read().earliest)
}
