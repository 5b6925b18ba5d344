package journal

import "time"

// aheadAtMost is by how much the end of an interval may be later than the time at which the
// entry was appended: what a Source may be ahead of the hub, and the differences of clocks.
const aheadAtMost = 15 * time.Minute

// Before returns an anchor before each retained entry of the topic whose End is after since. It
// spares the reader the entries that were appended long before since, because they end before
// it. Unless it is Trimmed or Last, it is a place between entries, and has neither Nonce nor Seq.
func (h Head) Before(since time.Time) Anchor {
	switch begin := since.Add(-aheadAtMost); {
	case !begin.After(h.Trimmed.Position.Time()):
		return h.Trimmed
	case begin.After(h.Last.Position.Time()):
		return h.Last
	default:
		return Anchor{Position: PositionAt(begin)}
	}
}
