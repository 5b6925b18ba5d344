package journal

import "time"

// Sight is what somebody remembers of the head of a topic, so that a head that went
// back or vanished can be told from one that never was.
type Sight struct {
	Topic string
	Epoch uint64
	Kind  Kind // empty where only subscriptions tell of the topic, of a tombstone, and after a reset
	// From and Until are those of the head: the newest timed entry's. A head that came
	// back has no From.
	From, Until            time.Time
	Last, Trimmed, Removed Anchor
	Gaps                   []Gap
	// Open says that the next notification may start anywhere, and Reset that it may
	// since an operator said so.
	Open, Reset bool
	// Since is where the first entry of the epoch began, and Begin the entry before
	// it; a zero Since: that was not seen.
	Since time.Time
	Begin Anchor
}

// Sight returns what there is to remember of h, given what was remembered before.
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
		s.Since = h.Until // it came back without entries
	case same && before.Open && h.Last.Seq == before.Last.Seq+1:
		s.Since, s.Begin = h.From, before.Last
	case same && before.Begin.Seq <= h.Last.Seq:
		s.Since, s.Begin = before.Since, before.Begin
	}
	return s
}

// open reports whether the next notification may start anywhere.
func (h Head) open() bool { return h.Reset || h.Until.IsZero() }

// forgotten is Head.Forgotten.
func (s Sight) forgotten() bool { return s.Removed.Position > 0 && s.Removed == s.Last }

// None reports whether there is nothing to remember: the topic has no head.
func (s Sight) None() bool {
	return s.Last.Position == 0 && s.Until.IsZero() && s.Epoch == 0 && len(s.Gaps) == 0
}

// Hearsay reports whether s tells no more of a topic than how far its subscriptions
// are, or that it was removed.
func (s Sight) Hearsay() bool { return s.Kind == "" && !s.Reset }

// Behind reports whether h is not a later state of s: a head that lost entries, though
// others may stand there by now, or one that was read before s was.
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

// Reached says how far subscriptions of a topic got: the least and the greatest of
// their cursors.
type Reached struct {
	Topic           string
	Least, Greatest Anchor
}

// Regain returns the head of a topic after the store lost the entry s.Last, the gap
// that this left, and whether that is news. It is pure. Nobody may append before all
// who remember the topic did the same; their results join in any order. R are the
// subscriptions of the topic that the caller knows; nil: none. Four things can happen:
//
//   - the topic was made to forget since (h.Epoch is greater): nothing is lost;
//   - the head went back: it stays there, and gets the gap, and the kind that the
//     topic had. A reset or a removal that was lost has to be made again;
//   - the head vanished: it comes back without entries. It ends where the next
//     notification has to start so that none of the subscriptions misses anything,
//     and where the last interval began at the latest, so that the Source learns of
//     the loss;
//   - the head came back in this way already, and ends too late for these
//     subscriptions: it goes further back.
func (h Head) Regain(s Sight, r *Reached, at time.Time) (next Head, gap Gap, news bool) {
	if h.Epoch > s.Epoch || s.None() {
		return h, Gap{}, false
	}
	older := h.Epoch < s.Epoch
	next, news = h.Recall(s)
	next.Kind = h.Kind.Then(s.Kind)
	next.Epoch, news = s.Epoch, news || older || next.Kind != h.Kind
	base, until := s.base(r)
	from := h.Last
	empty := h.Entries == 0 && h.Last.Position == h.Trimmed.Position
	switch {
	case h.Version == "", empty && base.Position < h.Last.Position, empty && older && s.forgotten():
		next.Topic, next.Removed = s.Topic, s.Removed
		if older {
			next.Kind = s.Kind
		}
		next.From, next.Until, next.Last, next.Trimmed = time.Time{}, until, base, base
		next.Reset = s.Reset
		switch {
		case s.forgotten(): // so what was lost of it is no loss
			next.Gaps = nil
		case s.Open && h.Version != "" && !older && !h.open(): // somebody knows what it took then
			next.Until, next.Reset = h.Until, false
		}
		from, news = base, true
	case empty && older && s.Reset && h.Last.Position <= s.Last.Position:
		next.Reset, next.Kind = true, s.Kind
	case h.Last.Position >= s.Last.Position: // it went on from further back
		from = s.before()
	case !s.Open && (h.open() || empty && h.From.IsZero()): // the first that it took then is lost
		if base.Position < h.Last.Position {
			_, until = s.base(nil)
		}
		if h.open() || older || until.Before(h.Until) {
			next.From, next.Until, next.Reset = time.Time{}, until, false
			news = true
		}
	}
	if from.Position == 0 {
		from.Until = next.Until
	}
	gap = Gap{
		From: from.Until, Until: s.Last.Until, Reason: GapRolledBack, At: at,
		Position: s.Last.Position, Seq: s.Last.Seq,
	}
	// The newest entry that the journal kept is sure only where the head went back and nothing
	// was accepted since.
	if gap.After = next.Trimmed; from == h.Last && h.Last.Position > next.Trimmed.Position {
		gap.After = h.Last
	}
	if gap.Count = s.Last.Seq - min(from.Seq, s.Last.Seq); gap.Count > 0 {
		var joined bool
		next, joined = next.Lose(gap)
		news = news || joined
	}
	return next, gap, news
}

// Recall returns h with the gaps that are remembered of it and that it lost, and
// whether there were any.
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

// before is the anchor of the entry before s.Last, as far as it is known.
func (s Sight) before() Anchor {
	if s.From.IsZero() && !s.Open {
		return s.Last // it came back without entries, or subscriptions alone tell of it
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

// base is the entry that a vanished topic goes on after, and where the next one has
// to start; zero: anywhere. What was trimmed is not asked for again. A topic of a
// few entries begins anew: its subscriptions may be at its beginning, and sending
// all of it again costs little.
func (s Sight) base(r *Reached) (base Anchor, until time.Time) {
	begin := s.Begin
	begin.Until = s.Since
	young := !s.Since.IsZero() && s.Last.Seq-s.Begin.Seq <= Remembered
	switch base = s.before(); {
	case young, r != nil && r.Least.Position <= begin.Position && !s.Since.IsZero():
		base = begin
	case r != nil && r.Least.Position > 0 && (r.Least.Position < base.Position || s.Hearsay()):
		base = r.Least // where nothing else is known, that may be the end
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
