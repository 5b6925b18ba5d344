package subscriptions

import "github.com/rshub/rshub/journal"

// Apply applies a commit to the stored subscription s. It reports whether the
// commit took effect, and whether it ended s. The store keeps the attempts of a commit
// that took effect.
//
// This is the one rule of all stores. A store that keeps cursors apart from
// subscriptions need not read a subscription for a commit that is CursorOnly: whatever the
// state of s, the rule then only keeps the greater cursor. So redisstore does that part in
// its server, on the packed form, which has the order of Cursor.Compare.
//
// One of four things happens:
//
//   - the stored cursor is as great as the commit's, or greater: the commit has no effect;
//   - the commit ends s, and s was renewed after the exchange began: the commit has no
//     effect, because the callback answered for a lease that is over (HUB-12, HUB-47);
//   - s has ended: only the cursor moves. The gap of the end covers everything that was not
//     stored by then, so the gaps of the commit do not count;
//   - otherwise the whole commit takes effect.
func (s *Subscription) Apply(c *Commit) (won, ended bool) {
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

// CursorOnly reports whether the commit changes only the cursor of a subscription.
func (c *Commit) CursorOnly() bool { return len(c.Gaps) == 0 && c.End == "" }
