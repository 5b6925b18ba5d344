package delivery

import "time"

// standing tells hosts that are done quickly, whatever comes of it, from those that
// are new, or were slow a while ago. However many of the latter there are, they
// leave a fifth of the senders to the former: tar pits that nobody knows yet would
// have them all until each had its three timeouts, and callbacks that say yes
// just before the time limit would have them for ever.
type standing int

const (
	unproven standing = iota
	quick
)

// quickShare is the part of the time limit, one in so many, that a quick exchange
// takes at most: a bit less than 2 s of 15.
const quickShare = 8

// probation is how long a slow host is not quick again: one that takes turns at
// being quick and slow would else have the senders that are kept from it.
const probation = 10 * time.Minute

// list lets a group have its turn among those of its topic.
func (d *Dispatcher) list(g *group, s standing) {
	l := &g.topic.lines[s]
	if l.groups.push(g); !l.listed {
		l.listed = true
		d.rotation[s].push(g.topic)
	}
}

// nextGroup takes the listed group whose turn it is. Hosts of either standing take
// turns, and so do the topics of each.
func (d *Dispatcher) nextGroup() (*group, bool) {
	if g, ok := d.returned.pop(); ok {
		return g, true
	}
	for range d.rotation {
		s := d.turn
		d.turn = 1 - s
		if s == unproven && d.unprovenBusy >= d.unprovenMax {
			continue
		}
		t, ok := d.rotation[s].pop()
		if !ok {
			continue
		}
		l := &t.lines[s]
		g, _ := l.groups.pop()
		if l.listed = l.groups.len() > 0; l.listed {
			d.rotation[s].push(t)
		}
		return g, true
	}
	return nil, false
}
