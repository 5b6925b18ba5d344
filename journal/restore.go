package journal

import "context"

// Restorer carries the state of topics from one store to another. Bodies don't
// travel. It may be shared between goroutines.
type Restorer interface {
	// Intervals returns what is remembered of a topic's timed entries, oldest
	// first, Remembered at most.
	Intervals(ctx context.Context, topic string) ([]Interval, error)
	// Restore stores the head that Restored makes of h and of what is stored, under
	// a version of its own, and with it what is remembered of the topic, oldest
	// first, Remembered at most. It is one step, and durable when it returns nil;
	// ErrHeadMoved: nothing was stored. Who watches hears of the topic.
	Restore(ctx context.Context, h Head, remembered []Interval) error
}

// Restored returns the head that Restore puts in the place of the stored one,
// without a version, and whether there is anything to put. Four things can
// happen:
//
//   - the topic has no head (its Version is empty), or an older one without a
//     single entry, or it was removed at this entry: h takes its place, and all of
//     it counts as trimmed;
//   - the stored head stands at the same entry: it stays as it is;
//   - any other head has gone its own way: ErrHeadMoved.
func Restored(stored, h Head) (Head, bool, error) {
	switch fresh := stored.Version == ""; {
	case fresh, stored.Entries == 0 && stored.Last.Position < h.Last.Position,
		stored.Forgotten() && !h.Forgotten() && stored.Last == h.Last:
		h.Version, h.Epoch = "", max(h.Epoch, stored.Epoch)
		h.Trimmed = h.Last
		h.Entries, h.Bytes = 0, 0
		return h, true, nil
	case stored.Last.Position == h.Last.Position && stored.Last.Nonce == h.Last.Nonce:
		return stored, false, nil
	default:
		return stored, false, ErrHeadMoved
	}
}
