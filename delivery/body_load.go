package delivery

import "time"

// giveRoom gives room to those that wait, as long as there is some for any of them.
func (b *bodies) giveRoom() {
	for !b.closed {
		w := b.queue.next(b.fits)
		if w == nil {
			return
		}
		b.grant(w)
	}
}

// fits reports whether there is room for what w is for, and a sender.
func (b *bodies) fits(w *waiter) bool {
	return b.room.fits(w.body.entry.Size, b.rankOf(w.body), w.rank, b.queue.waits) && b.canSend(w.body, w.health)
}

// grant keeps room for w, and has its body read, if it is not in memory.
func (b *bodies) grant(w *waiter) {
	e := w.body
	b.reuse(e)
	w.granted = true
	b.use(e, w.health, 1)
	b.reserve(e, w.health, 1)
	switch {
	case e.loaded:
		b.callBack(e)
	case !e.loading:
		e.loading = true
		b.count(e)
		b.loads.Go(func() { b.load(e) })
	}
}

// load reads a body into the room and calls those back that wait for it.
func (b *bodies) load(e *body) {
	data, err := b.reader.Body(b.ctx, e.key.topic.url, e.entry)
	result := err
	if err != nil {
		result = bodyError{err}
	}
	b.wasRead(e.key, result)
	b.mu.Lock()
	defer b.unlock()
	e.loading = false
	e.failed, e.entry.Body, e.loaded = err, data, err == nil
	if b.callBack(e); err != nil {
		b.drop(e)
		b.calls = append(b.calls, call{nil, true}) // others may have the senders
		b.giveRoom()
	}
}

// callBack unparks the lanes that wait for e, which was read or failed. If it was read, the lanes
// have to have room for it, and the room stays granted to the first of them for a moment. Else
// they give the room back.
func (b *bodies) callBack(e *body) {
	for s, w := range e.waiters {
		if w == nil || e.loaded && !w.granted && w.rank > b.rankOf(e) {
			continue
		}
		e.waiters[s] = nil
		switch {
		case w.granted && e.loaded:
			e.uses[s].grace = time.AfterFunc(grace, func() { b.endGrace(e, health(s)) })
		case w.granted:
			b.use(e, health(s), -1)
			b.reserve(e, health(s), -1)
		}
		w.granted = true
		b.calls = append(b.calls, call{w.lanes, e.loaded})
	}
}

func (b *bodies) endGrace(e *body, s health) {
	b.mu.Lock()
	defer b.unlock()
	if e.uses[s].grace != nil {
		e.uses[s].grace = nil
		b.reserve(e, s, -1)
		b.unpin(e, s)
		b.calls = append(b.calls, call{nil, true}) // others may have the sender
	}
}

// wait has a lane called back when there is room for e, to which get returned
// errNoRoom for it, and e was read. False: it may be asked for again at once.
func (b *bodies) wait(e *body, l *lane, s health) bool {
	b.mu.Lock()
	defer b.unlock()
	if e.failed != nil || e.loaded && b.mayUse(e, s) {
		return false
	}
	w := e.waiters[s]
	if w == nil {
		w = &waiter{body: e, health: s, rank: b.room.rank(e.entry.Size, s)}
		e.waiters[s] = w
	}
	w.lanes = append(w.lanes, l)
	if !w.granted {
		b.queue.push(w, l.host)
		b.giveRoom()
	}
	return true
}

// canSend reports whether a sender can be spared for e. If not, resume has it asked
// again. Set that first, so that no sender becomes free in between.
func (b *bodies) canSend(e *body, s health) bool {
	bulk := b.bulk(e, s)
	if bulk == 0 {
		return true
	}
	b.starved.Store(true)
	return b.limits.free(s, bulk) > 0
}

// bulk is that of e, and with unproven hosts the greatest; 0: its exchange counts against no limit.
func (b *bodies) bulk(e *body, s health) int {
	if s == unproven {
		return 2
	}
	return b.room.bulk(e.entry.Size)
}

// reserve reserves the slots of n more senders for the first lanes that come for e.
func (b *bodies) reserve(e *body, s health, n int64) {
	if b.bulk(e, s) > 0 {
		b.limits.reserved[s].Add(n)
	}
}

// resume gives room to those that waited for a sender. It is called after each job.
func (b *bodies) resume() {
	if b.starved.CompareAndSwap(true, false) {
		b.mu.Lock()
		b.giveRoom()
		b.unlock()
	}
}
