package subscriptions

import "github.com/rshub/rshub/journal"

// Settle applies a commit to the stored subscription s. It reports whether the
// commit took effect, and whether it ended s. The attempts of a commit that took
// effect are the store's to keep.
//
// One of four things happens:
//
//   - the stored cursor is as great as the commit's, or greater: nothing;
//   - the commit ends s, and s was renewed after the exchange began: nothing. The
//     answer was meant for a lease that is over (HUB-12, HUB-47);
//   - s has ended: the cursor moves. The gap of the end covers all that was not
//     stored by then, so the gaps of the commit do not count;
//   - otherwise all of the commit takes effect.
func (s *Subscription) Settle(c *Commit) (won, ended bool) {
	if c.Cursor.Compare(s.Cursor) <= 0 || c.End != "" && s.VerifiedAt.After(c.Lease) {
		return false, false
	}
	s.Cursor = c.Cursor
	if !s.EndedAt.IsZero() {
		return true, false
	}
	for _, g := range c.Gaps {
		s.Gaps = journal.AddGap(s.Gaps, g)
	}
	if c.End != "" {
		s.EndedAt, s.EndReason = c.EndedAt, c.End
	}
	return true, c.End != ""
}
