package delivery

import "sync/atomic"

// latestBody is the body of a topic that was used last, if it was read at once and is in memory.
type latestBody struct{ atomic.Pointer[body] }

// join returns the body with a key for one more delivery, if others share it. Nil: it is to be found under the lock.
func (l *latestBody) join(key bodyKey) *body {
	if e := l.Load(); e != nil && e.key == key && e.join() {
		return e
	}
	return nil
}

// join is one more delivery that shares e. False: nobody shares it.
func (e *body) join() bool {
	for n := e.sharing.Load(); n > 0; n = e.sharing.Load() {
		if e.sharing.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

// leave is one delivery less that shares e. It reports whether it was the last one, and so has to give e back.
func (e *body) leave() (last bool) { return e.sharing.Add(-1) == 0 }

// share lets one more delivery use e, which was read at once, and others join it.
func (b *bodies) share(e *body) {
	if e.sharing.Add(1) == 1 {
		b.use(e, quick, 1)
	}
	if !e.stale {
		e.key.topic.latest.Store(e)
	}
}
