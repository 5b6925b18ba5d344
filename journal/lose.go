package journal

// Lose returns h with the gap g of a store that lost its tail (GapRolledBack), and
// whether that is news. It is pure, h keeps its gaps, and what is in h already
// changes nothing: each hub records what it noticed. What overlaps is joined, as
// hubs that had seen different ends of the same tail name different gaps: the
// result is from the earliest `from` to the latest `until`, and its Count that of
// all entries between the ends, by their seq.
func (h Head) Lose(g Gap) (Head, bool) {
	kept := make([]Gap, 0, len(h.Gaps)+1)
	var same []Gap
	for _, old := range h.Gaps {
		switch {
		case old.Reason != g.Reason || old.Until.Before(g.From) || g.Until.Before(old.From):
			kept = append(kept, old)
		case contains(old, g):
			return h, false
		default:
			same = append(same, old)
		}
	}
	for _, old := range same {
		g = overlay(g, old)
	}
	h.Gaps = AddGap(kept, g)
	return h, true
}

// contains tells whether all that b names is in a.
func contains(a, b Gap) bool {
	return !a.From.After(b.From) && !a.Until.Before(b.Until) && a.Position >= b.Position
}

// overlay joins two gaps that have something in common.
func overlay(a, b Gap) Gap {
	before := min(a.Seq-min(a.Count, a.Seq), b.Seq-min(b.Count, b.Seq)) // the last seq that is not in it
	if b.From.Before(a.From) {
		a.From = b.From
	}
	if b.Until.After(a.Until) {
		a.Until = b.Until
	}
	if b.At.After(a.At) {
		a.At = b.At
	}
	a.Position, a.Seq = max(a.Position, b.Position), max(a.Seq, b.Seq)
	a.Count = max(a.Seq-before, a.Count, b.Count) // the latter where more was joined than their seqs tell
	return a
}
