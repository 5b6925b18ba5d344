package delivery

import "time"

// class tells first attempts of a notification from later ones, and of the first
// those of lanes whose last attempt was answered. Where a host is shared, these are
// of tenants that mean well: those whose callbacks hang get no turn of theirs.
type class int

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

// turnOf tells which class of h may have a slot now, if any.
func (d *Dispatcher) turnOf(h *host) (class, bool) {
	can := func(c class) bool {
		return h.queued[c].len() > 0 && (c != later || h.retries < (d.o.PerHost+1)/2)
	}
	c, ok := h.turn, false
	for range classes {
		if ok = can(c); ok {
			break
		}
		c = (c + 1) % classes
	}
	switch {
	case !ok, h.busy() >= d.o.PerHost:
		return 0, false
	case h.suspect && (h.busy() > 0 || h.probe > time.Now().UnixNano()):
		return 0, false
	case h.suspect && d.suspectBusy >= d.suspectMax:
		if !h.lined {
			h.lined = true
			d.lineup.push(h)
		}
		return 0, false
	case h.suspect && can(trusted):
		return trusted, true // the likeliest to be answered
	default:
		return c, true
	}
}
