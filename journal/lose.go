package journal

// Lose returns h with the gap g of a store that lost its tail (GapRolledBack), and whether
// that changed h. It is pure. A gap that h has already changes nothing, because every hub
// records what it noticed. Hubs that saw different ends of the same tail record different
// gaps, so overlapping ones are joined: from the earliest From to the latest Until. Count is
// then that of all entries between the ends, by their seq.
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

// contains reports whether a covers all of b.
func contains(a, b Gap) bool {
	return !a.From.After(b.From) && !a.Until.Before(b.Until) && a.Position >= b.Position && a.After.Position <= b.After.Position
}

// overlay joins two gaps that overlap.
func overlay(a, b Gap) Gap {
	before := min(a.Seq-min(a.Count, a.Seq), b.Seq-min(b.Count, b.Seq)) // the last seq before both gaps
	if b.From.Before(a.From) {
		a.From = b.From
	}
	if b.Until.After(a.Until) {
		a.Until = b.Until
	}
	if b.At.After(a.At) {
		a.At = b.At
	}
	a.Position, a.Seq, a.After = max(a.Position, b.Position), max(a.Seq, b.Seq), older(a.After, b.After)
	a.Count = max(a.Seq-before, a.Count, b.Count) // the latter if earlier joins added more than the seqs show
	return a
}

// BackFrom returns the entry after which to read on for a reader whose newest entry, at
// the position p, was lost (ErrRolledBack): the newest one before it that the journal is
// known to have kept. False: no gap of h says that, so read on after h.Trimmed.
func (h Head) BackFrom(p Position) (to Anchor, ok bool) {
	for _, g := range h.Gaps {
		if g.Reason != GapRolledBack || p <= g.After.Position || p > g.Position {
			continue
		}
		if !ok {
			to = g.After
		}
		to, ok = older(to, g.After), true
	}
	return to, ok && to.Position > h.Trimmed.Position
}

// ReadFrom returns where somebody reads on who has read until at: there, or if the journal lost that
// entry, after the newest one before it that the journal is known to have kept. Without reading that
// cannot always be known. Then what was read before may come again, and nothing is passed over.
func (h Head) ReadFrom(at Anchor) Anchor {
	if at.Position == h.Last.Position && at.Nonce == h.Last.Nonce {
		return at
	}
	// Both grow with each entry. A topic that begins again numbers its entries from 1, at later positions.
	lost := (at.Position < h.Last.Position) != (at.Seq < h.Last.Seq)
	for _, g := range h.Gaps {
		lost = lost || g.Reason == GapRolledBack && at.Position > g.After.Position && at.Position <= g.Position
	}
	if !lost {
		return at
	}
	if to, ok := h.BackFrom(at.Position); ok {
		return to
	}
	return h.Trimmed
}
