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

// quickShare is the part of the exchange's time limit, one in so many, that a quick
// exchange takes at most: a bit less than 2 s of 15. The limit grows with the body, so
// a quick host takes 1 MiB or more a second of a large one.
const quickShare = 8

// probation is how long a slow host is not quick again: one that takes turns at
// being quick and slow would else have the senders that are kept from it.
const probation = 10 * time.Minute

// band is the hosts that share limits of senders. Each band has a rotation of topics,
// so that what a limit holds back holds back nothing of another band.
type band int

// bands: hosts of either standing, and the same for suspects.
const bands = 4

func (h *host) band() band {
	if h.suspect {
		return band(2 + h.standing)
	}
	return band(h.standing)
}

// hasRoom tells whether the rotation of a band may start one more delivery.
func (d *Dispatcher) hasRoom(b band) bool {
	return d.mayProbe(b) && (b%2 != band(unproven) || d.bodies.senders.free(unproven, 2) > 0)
}

// mayProbe tells whether one more delivery to a host of the band may start, as far as it
// depends on other suspects.
func (d *Dispatcher) mayProbe(b band) bool { return b < 2 || d.suspectBusy < d.suspectMax }
