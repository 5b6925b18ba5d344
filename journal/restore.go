package journal

import "context"

// Restorer moves topics from one store to another. It may be shared between goroutines.
type Restorer interface {
	// Intervals returns what is remembered of a topic's timed entries, oldest
	// first, Remembered at most.
	Intervals(ctx context.Context, topic string) ([]Interval, error)
	// Refill stores entries of another store, with their bodies, ids and anchors. They
	// follow each other, oldest first, and those of later calls follow those of earlier
	// ones. Until Restore stores a head that retains them, nobody may read the topic or
	// publish to it. Entries that are stored already are skipped; added counts the others. ErrHeadMoved: the topic
	// has entries of its own, and nothing was stored. After any other error some of them
	// may be stored: call Refill again with the same ones.
	Refill(ctx context.Context, topic string, entries []Entry) (added int, err error)
	// Restore stores the head that Restored makes of h and of what is stored, under
	// a version of its own, and with it what is remembered of the topic, oldest
	// first, Remembered at most. It is one step, and durable when it returns nil;
	// ErrHeadMoved: nothing was stored. Watchers get a hint of the topic.
	Restore(ctx context.Context, h Head, remembered []Interval) error
}

// Restored returns the head that Restore puts in the place of the stored one,
// without a version, and whether there is anything to put. Three things can
// happen:
//
//   - the topic has no head (its Version is empty), or an older one without a
//     single entry, or it was removed at this entry: h takes its place. If h has
//     Entries, Refill stored them; otherwise all of it counts as trimmed;
//   - the stored head stands at the same entry: it stays as it is;
//   - any other head has gone its own way: ErrHeadMoved.
func Restored(stored, h Head) (Head, bool, error) {
	switch {
	case stored.Version == "", stored.Entries == 0 && stored.Last.Position < h.Last.Position,
		stored.IsTombstone() && !h.IsTombstone() && stored.Last == h.Last:
		h.Version, h.Epoch = "", max(h.Epoch, stored.Epoch)
		if h.Entries == 0 {
			h.Trimmed, h.Bytes = h.Last, 0
		}
		return h, true, nil
	case stored.Last.Position == h.Last.Position && stored.Last.Nonce == h.Last.Nonce:
		return stored, false, nil
	default:
		return stored, false, ErrHeadMoved
	}
}

// Refillable returns ErrHeadMoved if Refill must not store entries from a position on,
// because of the head that is stored.
func Refillable(stored Head, from Position) error {
	if stored.Version == "" || stored.Entries == 0 && (stored.Last.Position < from || stored.IsTombstone()) {
		return nil
	}
	return ErrHeadMoved
}
