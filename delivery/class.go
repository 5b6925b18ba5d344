package delivery

// class tells first attempts of a notification from later ones, and of the first
// those of lanes whose last attempt was answered. Where a host is shared, these are
// of tenants that mean well: those whose callbacks hang take no place of theirs.
type class uint8

const (
	first class = iota
	trusted
	later
	classes
)

func (l *lane) class() class {
	switch {
	case l.retrying():
		return later
	case l.cursor.status > 0:
		return trusted
	default:
		return first
	}
}

// opening returns the class that may start a delivery at h now. False: none may.
//
// The class with the fewest deliveries in flight goes first, and classes with equally few take
// turns. So a class that waits has all places of the host, half of them if another class
// waits too, and a quarter if both do (rounded down), as soon as what was in flight before is done.
// A quarter and not a third: a class that comes and goes takes its places from whichever class
// is done first.
func (d *Dispatcher) opening(h *host) (class, bool) {
	if !d.hasPlace(h) {
		return 0, false
	}
	if h.suspect && h.queued[trusted].len() > 0 {
		return trusted, true // the likeliest to be answered
	}
	next := classes
	for n := range classes {
		c := (h.turn + n) % classes
		if d.mayHave(h, c) && (next == classes || h.active[c] < h.active[next]) {
			next = c
		}
	}
	return next, next < classes
}

// hasPlace tells whether h may have one more delivery.
func (d *Dispatcher) hasPlace(h *host) bool {
	return h.busy() < d.places(h) && (!h.suspect || h.probe <= d.mono())
}

// mayHave tells whether a free place of h may go to a class: retries have half of them.
func (d *Dispatcher) mayHave(h *host, c class) bool {
	return h.queued[c].len() > 0 && (c != later || int(h.active[c]) < (d.o.PerHost+1)/2)
}

// places is how many deliveries h may have at once.
func (d *Dispatcher) places(h *host) int {
	if h.suspect {
		return 1
	}
	return d.o.PerHost
}
