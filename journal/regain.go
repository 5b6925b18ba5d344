package journal

import "time"

// Sight is what a hub remembers of the head of a topic. With it the hub notices that the
// store lost entries: the head went back, or vanished.
type Sight struct {
	Topic string
	Epoch uint64
	Kind  Kind // empty if only subscriptions show the topic, of a tombstone, and after a reset
	// From and Until are those of the head: the interval of the newest timed entry. A head
	// that was restored without entries has no From.
	From, Until            time.Time
	Last, Trimmed, Removed Anchor
	Gaps                   []Gap
	// Open says that the next notification may start anywhere, and Reset that this is so
	// because the operator reset the topic.
	Open, Reset bool
	// Since is where the interval of the first entry of the epoch began, and Begin is the
	// entry before it. A zero Since: unknown.
	Since time.Time
	Begin Anchor
}

// Sight returns what to remember of h, given what was remembered before.
func (h Head) Sight(before Sight) Sight {
	s := Sight{
		Topic: h.Topic, Epoch: h.Epoch, Kind: h.Kind, From: h.From, Until: h.Until,
		Last: h.Last, Trimmed: h.Trimmed, Removed: h.Removed, Gaps: h.Gaps,
		Open: h.open(), Reset: h.Reset,
	}
	switch same := before.Topic == h.Topic && before.Epoch == h.Epoch; {
	case s.Open:
	case h.Last.Seq == 1 && !h.From.IsZero():
		s.Since = h.From
	case h.Last.Seq == 0:
		s.Since = h.Until // it was restored without entries
	case same && before.Open && h.Last.Seq == before.Last.Seq+1:
		s.Since, s.Begin = h.From, before.Last
	case same && before.Begin.Seq <= h.Last.Seq:
		s.Since, s.Begin = before.Since, before.Begin
	}
	return s
}

// open reports whether the next notification may start anywhere.
func (h Head) open() bool { return h.Reset || h.Until.IsZero() }

// isTombstone is Head.IsTombstone.
func (s Sight) isTombstone() bool { return s.Removed.Position > 0 && s.Removed == s.Last }

// None reports whether there is nothing to remember, because the topic has no head.
func (s Sight) None() bool {
	return s.Last.Position == 0 && s.Until.IsZero() && s.Epoch == 0 && len(s.Gaps) == 0
}

// WithoutHead reports whether s says no more about a topic than how far its subscriptions
// got, or that it was removed.
func (s Sight) WithoutHead() bool { return s.Kind == "" && !s.Reset }

// Behind reports whether h is neither s nor a later state of it. Either the store lost
// entries, and others may be in their place by now, or h was read before s.
func (h Head) Behind(s Sight) bool {
	switch {
	case h.Epoch != s.Epoch:
		return h.Epoch < s.Epoch
	case h.Version == "":
		return !s.None()
	case h.Last.Seq == s.Last.Seq:
		return h.Last.Position != s.Last.Position || h.Last.Nonce != s.Last.Nonce
	}
	return h.Last.Seq < s.Last.Seq
}

// Reached says how far the subscriptions of a topic got: the least and the greatest of
// their cursors.
type Reached struct {
	Topic           string
	Least, Greatest Anchor
}

// Regain returns the head to store after the store lost the entry s.Last, the gap that
// the loss leaves, and whether there is anything new to store. It is pure. No hub may
// append to the topic before every hub that remembers it has stored what Regain returned
// to it, in any order. R has the subscriptions of the topic that the caller knows; nil:
// none. Four things can happen:
//
//   - the topic was reset or removed since (h.Epoch is greater): nothing is lost;
//   - the head went back: it stays there. It gets the gap, and the kind that the topic
//     had. The operator has to repeat a reset or a removal that was lost;
//   - the head vanished: it is restored without entries. Its Until is where the next
//     notification has to start so that no subscription misses anything. That is no
//     later than where the last interval began, so that the Source learns of the loss;
//   - the head was already restored in this way, and its Until is too late for these
//     subscriptions: it gets an earlier one.
func (h Head) Regain(s Sight, r *Reached, at time.Time) (next Head, gap Gap, news bool) {
	if h.Epoch > s.Epoch || s.None() {
		return h, Gap{}, false
	}
	older := h.Epoch < s.Epoch // h is of before the reset or removal that s knows of
	next, news = h.Recall(s)
	next.Kind, next.Epoch = h.Kind.Then(s.Kind), s.Epoch
	news = news || older || next.Kind != h.Kind
	base, until := s.base(r)
	kept := h.Last // the entry before those that are lost
	empty := h.Entries == 0 && h.Last.Position == h.Trimmed.Position
	switch {
	case h.Version == "", empty && base.Position < h.Last.Position, empty && older && s.isTombstone():
		// The head vanished. Or another hub restored it, but too late for these subscriptions,
		// or without knowing that an operator had removed the topic.
		next, kept, news = s.restart(next, h, base, until), base, true
	case empty && older && s.Reset && h.Last.Position <= s.Last.Position:
		// A hub restored it that did not know of the reset.
		next.Reset, next.Kind = true, s.Kind
	case h.Last.Position >= s.Last.Position:
		// The topic went on from an earlier entry.
		kept = s.before()
	case !s.Open && (h.open() || empty && h.From.IsZero()):
		// The head is the one before a first entry, which is lost.
		if base.Position < h.Last.Position {
			_, until = s.base(nil)
		}
		if h.open() || older || until.Before(h.Until) {
			next.From, next.Until, next.Reset, news = time.Time{}, until, false, true
		}
	}
	if gap = s.lostAfter(kept, next, at); gap.Count > 0 {
		// The newest entry that the journal kept is sure only where the head went back and
		// nothing was accepted since.
		if kept == h.Last && h.Last.Position > next.Trimmed.Position {
			gap.After = h.Last
		}
		var joined bool
		next, joined = next.Lose(gap)
		news = news || joined
	}
	return next, gap, news
}

// restart returns the head next without entries: the topic goes on after base, with a notification
// that starts at until. H is the stored head.
func (s Sight) restart(next, h Head, base Anchor, until time.Time) Head {
	older := h.Epoch < s.Epoch
	next.Topic, next.Removed, next.Reset = s.Topic, s.Removed, s.Reset
	next.From, next.Until, next.Last, next.Trimmed = time.Time{}, until, base, base
	if older {
		next.Kind = s.Kind
	}
	switch {
	case s.isTombstone(): // an operator removed it, so none of this is a loss
		next.Gaps = nil
	case s.Open && h.Version != "" && !older && !h.open(): // another hub knows what was accepted then
		next.Until, next.Reset = h.Until, false
	}
	return next
}

// lostAfter returns the gap from the entry kept to s.Last in a topic with the head next. Its count
// is zero if nothing is lost.
func (s Sight) lostAfter(kept Anchor, next Head, at time.Time) Gap {
	if kept.Position == 0 {
		kept.Until = next.Until
	}
	return Gap{
		From: kept.Until, Until: s.Last.Until, Reason: GapRolledBack, At: at, After: next.Trimmed,
		Position: s.Last.Position, Seq: s.Last.Seq, Count: s.Last.Seq - min(kept.Seq, s.Last.Seq),
	}
}

// Recall returns h with the gaps of s that it lost, and whether there are any.
func (h Head) Recall(s Sight) (next Head, news bool) {
	for _, g := range s.Gaps {
		lost := true
		for _, old := range h.Gaps {
			if old.Reason == g.Reason && !old.From.After(g.From) && !old.Until.Before(g.Until) {
				lost = false
			}
		}
		if lost && g.Reason == GapRolledBack {
			h, lost = h.Lose(g)
		} else if lost {
			h.Gaps = AddGap(h.Gaps, g)
		}
		news = news || lost
	}
	return h, news
}

// before returns the anchor of the entry before s.Last, as far as it is known.
func (s Sight) before() Anchor {
	if s.From.IsZero() && !s.Open {
		return s.Last // it was restored without entries, or only subscriptions show the topic
	}
	a := Anchor{Position: s.Last.Position - 1, Seq: s.Last.Seq - min(1, s.Last.Seq), Until: s.From}
	if a.Seq == 0 {
		a.Position = 0
	}
	if a.Until.IsZero() {
		a.Until = s.Last.Until
	}
	return a
}

// base returns the entry after which a vanished topic continues, and where the next
// interval has to start; zero: anywhere. The Source need not send again what was trimmed.
// A topic of a few entries begins anew: its subscriptions may be at its beginning, and
// sending all of it again costs little.
func (s Sight) base(r *Reached) (base Anchor, until time.Time) {
	begin := s.Begin
	begin.Until = s.Since
	young := !s.Since.IsZero() && s.Last.Seq-s.Begin.Seq <= Remembered
	switch base = s.before(); {
	case young, r != nil && r.Least.Position <= begin.Position && !s.Since.IsZero():
		base = begin
	case r != nil && r.Least.Position > 0 && (r.Least.Position < base.Position || s.WithoutHead()):
		base = r.Least // if nothing else is known, this may be the newest entry
	}
	if base.Position < s.Trimmed.Position {
		base = s.Trimmed
	}
	switch until = base.Until; {
	case s.Open && !s.Reset:
		until = time.Time{}
	case s.Kind == KindFramework: // some of its entries have no interval
		until = s.From
	}
	switch base.Position {
	case 0:
		base.Until = time.Time{} // the zero Anchor stands before the first entry
	case s.Begin.Position:
		base.Until = s.Begin.Until
	}
	return base, until
}
