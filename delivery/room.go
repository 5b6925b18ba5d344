package delivery

// room divides the memory of the bodies that are not read at once. It only counts. The lock of
// bodies guards it.
//
// A budget with one queue is a queue behind the slowest host. So each body in use has
// a rank from 0 to 3. Its size counts 0 up to 64 KiB, 1 up to half a section, and 2
// beyond. One is added while a host that is not quick reads it. Each rank leaves one
// section, a thirty-second of the room, to each rank below it:
//
//	rank 0   64 KiB or less, quick hosts only      may fill the room
//	rank 1   up to half a section; or not quick    leaves 1/32
//	rank 2   larger; or up to half, not quick      leaves 2/32
//	rank 3   larger, not quick                     leaves 3/32
//
// Slow hosts may need large bodies for a long time: a small body has room that none of them
// can use. The large ones keep at least 29/32 of the room: while a body
// of some rank waits, the lower ranks together get only the sections that it leaves
// them. Ranks 2 and 3 may both want all that is left, as they differ only in the
// hosts. While both wait, the rank with fewer bytes goes first.
//
// A body that is larger than what its rank may have gets it alone. The lower ranks
// keep their sections meanwhile.
type room struct {
	size, section int64
	bytes         [ranks]int64 // of the bodies in use, by rank
	last          rank         // that got room last, of ranks 2 and 3
}

// rank says which sections of the room a body leaves to others. A body without uses has
// rank unused.
type rank int

const (
	unused rank = -1
	ranks  rank = 4
	// Bodies over half a section that only quick hosts read, and the others.
	bulkyQuick, bulkySlow = ranks - 2, ranks - 1
)

// newRoom divides size bytes. A section has room for a body of 64 KiB, unless the
// room is smaller than four of them.
func newRoom(size int64) room {
	return room{size: size, section: min(max(size/32, smallBody), size/4)}
}

// bulk is 0 for a small body, 1 for one of up to half a section, and 2 for a longer one.
func (r *room) bulk(size int64) int {
	switch {
	case size <= smallBody:
		return 0
	case size <= r.section/2:
		return 1
	default:
		return 2
	}
}

// rank is that of a body of size bytes which a host of this health reads.
func (r *room) rank(size int64, s health) rank {
	k := rank(r.bulk(size))
	if s == unproven {
		k++
	}
	return k
}

// limit is how many bytes the bodies of rank k and above may have.
func (r *room) limit(k rank) int64 { return r.size - int64(k)*r.section }

// move counts a body of size bytes at another rank.
func (r *room) move(size int64, from, to rank) {
	if from != unused {
		r.bytes[from] -= size
	}
	if to != unused {
		r.bytes[to] += size
	}
	if to > from && to >= bulkyQuick {
		r.last = to
	}
}

// fits reports whether a body of size bytes that is counted at rank from may be counted
// at rank to. Waits reports whether a body of some rank waits for room.
func (r *room) fits(size int64, from, to rank, waits func(rank) bool) bool {
	size = min(size, r.limit(to)) // one that is larger gets all of it
	for k := from + 1; k <= to; k++ {
		if r.used(k)+size > r.limit(k) {
			return false
		}
	}
	if to == bulkySlow && from < bulkyQuick && waits(bulkyQuick) && r.quickFirst() {
		return false
	}
	for w := to + 1; w < ranks; w++ {
		if !waits(w) || to == bulkyQuick && r.quickFirst() {
			continue
		}
		for k := from + 1; k <= to; k++ {
			if r.below(k, w)+size > int64(w-k)*r.section {
				return false
			}
		}
	}
	return true
}

// used is what counts of the bodies of rank k and above.
func (r *room) used(k rank) int64 { return r.counted(k, ranks, r.limit) }

// below is what counts of the bodies of rank k and above, but below w, while one of rank w waits.
func (r *room) below(k, w rank) int64 {
	return r.counted(k, w, func(i rank) int64 { return int64(w-i) * r.section })
}

// counted is what counts of the bodies of rank k and above, but below w: of each rank above k, no
// more than most says. What is over that went to a body alone.
func (r *room) counted(k, w rank, most func(rank) int64) (n int64) {
	for i := w - 1; i > k; i-- {
		n = min(n+r.bytes[i], most(i))
	}
	return n + r.bytes[k]
}

// quickFirst decides between ranks 2 and 3 where bodies of both wait: the rank that has fewer
// bytes goes first. If both have the same, they take turns.
func (r *room) quickFirst() bool {
	q, s := r.bytes[bulkyQuick], r.bytes[bulkySlow]
	return q < s || q == s && r.last != bulkyQuick
}

// lent is the bytes of all bodies that are counted.
func (r *room) lent() (n int64) {
	for _, h := range r.bytes {
		n += h
	}
	return n
}
