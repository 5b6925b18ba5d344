package delivery

// timed is something that is due at a time and knows where it is in a timers,
// so that it can be moved and taken out; -1 says that it is in none.
type timed interface {
	comparable
	dueAt() int64
	slot() *int32
}

// timers is a heap of four children a node, the earliest on top.
type timers[T timed] struct{ items []T }

// set puts v in, or moves it after its time changed.
func (ts *timers[T]) set(v T) {
	if *v.slot() < 0 {
		*v.slot() = int32(len(ts.items)) //nolint:gosec // lanes in memory
		ts.items = append(ts.items, v)
	}
	ts.down(ts.up(int(*v.slot())))
}

// drop takes v out, if it is in.
func (ts *timers[T]) drop(v T) {
	at := int(*v.slot())
	if at < 0 {
		return
	}
	var none T
	last := len(ts.items) - 1
	ts.swap(at, last)
	*v.slot(), ts.items[last] = -1, none
	if ts.items = ts.items[:last]; at < last {
		ts.down(ts.up(at))
	}
}

// pop takes the earliest out, if it is due at now.
func (ts *timers[T]) pop(now int64) (v T, ok bool) {
	if len(ts.items) == 0 || ts.items[0].dueAt() > now {
		return v, false
	}
	v = ts.items[0]
	ts.drop(v)
	return v, true
}

func (ts *timers[T]) swap(i, j int) {
	a, b := ts.items[i], ts.items[j]
	ts.items[i], ts.items[j] = b, a
	*a.slot(), *b.slot() = *b.slot(), *a.slot()
}

func (ts *timers[T]) up(at int) int {
	for at > 0 {
		parent := (at - 1) / 4
		if ts.items[parent].dueAt() <= ts.items[at].dueAt() {
			break
		}
		ts.swap(parent, at)
		at = parent
	}
	return at
}

func (ts *timers[T]) down(at int) {
	for {
		least := at
		for child := 4*at + 1; child <= 4*at+4 && child < len(ts.items); child++ {
			if ts.items[child].dueAt() < ts.items[least].dueAt() {
				least = child
			}
		}
		if least == at {
			return
		}
		ts.swap(at, least)
		at = least
	}
}
