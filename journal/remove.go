package journal

import "time"

// All is the cut that deletes every entry, also those with an empty body.
var All = Cut{Before: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), KeepBytes: 0}

// Tombstone returns what Remove leaves of h, without a version: the topic's URL, and under
// 200 bytes. The next notification may start anywhere and be of any kind. Positions and
// seqs continue, so a cursor from before the removal reads on after it. Tombstones are
// never deleted. Each replaces a head, which is larger.
func (h Head) Tombstone() Head {
	return Head{Topic: h.Topic, Epoch: h.Epoch + 1, Last: h.Last, Trimmed: h.Last, Removed: h.Last}
}

// IsTombstone reports whether the topic was removed, and nothing was accepted since.
func (h Head) IsTombstone() bool { return h.Removed.Position > 0 && h.Removed == h.Last }

// Established reports whether a notification of the topic was accepted, and the topic was
// not removed since.
func (h Head) Established() bool { return h.Version != "" && !h.IsTombstone() }

// TrimmedAfter is the error of a Read after the anchor a, whose position is before
// h.Trimmed.
func (h Head) TrimmedAfter(a Anchor) *TrimmedError {
	if a.Position < h.Removed.Position {
		return &TrimmedError{To: h.Removed, Reason: GapRemoved}
	}
	// Only intervals of changes say what their reader has: other entries have times of their own. After a reset the Source may
	// begin at an earlier instant, with other changes.
	again := h.Kind == KindChange && h.Epoch == 0 && !a.Until.IsZero() && !a.Until.Before(h.Trimmed.Until)
	return &TrimmedError{To: h.Trimmed, Reason: GapRetention, Again: again}
}
