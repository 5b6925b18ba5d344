package journal

import "time"

// All is the cut that takes every entry away, also those whose bodies are empty.
var All = Cut{Before: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), KeepBytes: 0}

// Tombstone is what Remove leaves of h, without a version: under 200 bytes beside
// the topic's URL. The next notification may start anywhere and be of any kind.
// Positions and seqs go on, so a cursor from before the removal reads on after it.
// Tombstones are never forgotten: each takes the place of a head, which is larger.
func (h Head) Tombstone() Head {
	return Head{Topic: h.Topic, Epoch: h.Epoch + 1, Last: h.Last, Trimmed: h.Last, Removed: h.Last}
}

// Forgotten reports whether h is a tombstone: the topic was removed, and nothing
// was accepted since.
func (h Head) Forgotten() bool { return h.Removed.Position > 0 && h.Removed == h.Last }

// TrimmedAfter is the error of a Read after the anchor a, whose position is before
// h.Trimmed.
func (h Head) TrimmedAfter(a Anchor) *TrimmedError {
	if a.Position < h.Removed.Position {
		return &TrimmedError{To: h.Removed, Reason: GapRemoved}
	}
	return &TrimmedError{To: h.Trimmed, Reason: GapRetention}
}
