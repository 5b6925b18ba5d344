package delivery

// setHead accepts the newest entry of t from the store. The first call finds nothing new. If no other walk is under way,
// the first lanes of t are ready when it returns, and so a topic with few lanes waits for no loop.
func (s *scheduler) setHead(t *topicLanes, head anchor) {
	published := t.known
	t.head, t.known = head, true
	t.headSets++
	others := s.walks.len() > 0
	if !s.beginWalk(t, published) {
		return
	}
	if others {
		s.walks.push(t)
	} else {
		s.walkOn(t, s.read(), firstLanes)
	}
	if t.walking {
		s.wake()
	}
}

// walk starts a walk over the lanes of t, or another after the one under way.
func (s *scheduler) walk(t *topicLanes, published bool) {
	if s.beginWalk(t, published) {
		s.walks.push(t)
		s.wake()
	}
}

// beginWalk reports whether a walk over the lanes of t begins. Otherwise another one follows the one under way.
func (s *scheduler) beginWalk(t *topicLanes, published bool) bool {
	t.published = t.published || published
	if t.walking {
		t.again = true
		return false
	}
	t.walking = true
	t.members.walk = len(t.lanes)
	return true
}

// walkOn goes on with the walk over the lanes of t, for so many of them: those that are idle and
// behind become ready, and something new shortens waits (HUB-48).
func (s *scheduler) walkOn(t *topicLanes, now reading, lanes int) {
	soonest := now.mono + int64(s.policy.step(publishStep))
	for range lanes {
		l := t.members.next()
		if l == nil {
			if t.walking = t.again; t.again {
				t.again = false
				t.members.walk = len(t.lanes)
				break
			}
			t.published = false
			return
		}
		switch {
		case l.state == idle:
			s.proceed(l, now, false)
		case l.state == waiting && l.wait(s.policy, now) == 0 && s.troubles.until(l, now.mono) == 0:
			s.timers.drop(l)
			s.place(l, now) // its troubles are over
		case l.state == waiting && t.published && !l.retryAfter && s.timers.due(l) > soonest:
			s.waitUntil(l, soonest)
		}
		if t.published {
			s.hosts.probeBy(l.host, soonest)
		}
	}
	s.walks.push(t)
}

// observe updates the health of a delivery's host. If the host answers 2xx after it was
// suspect, a walk over its lanes starts.
func (s *scheduler) observe(j job, out outcome) {
	h := j.lane.host
	was, busy := h.pool(), h.busy()
	if s.hosts.observe(j, out) {
		h.members.walk = len(h.lanes)
		if !h.walking {
			h.walking = true
			s.revivals.push(h)
		}
		s.wake()
	}
	if was.suspect() && !h.suspect {
		for range busy {
			s.signal() // for the other schedulers: so many slots of suspects are free
		}
	}
	if h.pool() != was {
		s.relist(h)
	}
}

// reviveOn does a chunk of that walk: lanes that wait because the host could not
// be reached get their turn soon, spread out.
func (s *scheduler) reviveOn(h *host, now reading) {
	spread := min(int64(len(h.lanes))*int64(reviveEvery), int64(s.policy.step(1)))
	for range chunk {
		l := h.members.next()
		if l == nil {
			h.walking = false
			return
		}
		if l.state != waiting || !unreachable(int(l.cursor.status)) {
			continue
		}
		if at := now.mono + int64(float64(spread)*s.rnd()); at < s.timers.due(l) {
			s.waitUntil(l, at)
		}
	}
	s.revivals.push(h)
}
