package source

import (
	"errors"
	"log/slog"
	"math"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/publisher"
)

// goOn has the log of changes begin anew if it does not go on after a change that was published, or whose
// time is not known: then the index was lost, and another is in its place, which may be an older one.
// Nobody can say what has changed in between. So all documents and topics continue after what there
// was, with what is found from now on, and clients notice that something is missing.
func goOn(s *set, seq uint64, at time.Time) error {
	ok, err := s.index.continues(seq, at)
	if ok || err != nil {
		return err
	}
	h := s.shelf.current().History
	after := h.newest()
	after = place{max(after.seq, seq), max(after.at, at.UnixMicro())}
	if err := s.index.restart(time.Now(), after); err != nil {
		return err
	}
	if err := s.shelf.skip(s.index.state().begin.seq); err != nil {
		return err
	}
	s.composer.log.Warn("the index is not the one with which the last changes were published: it is new, or from a backup. Its log begins anew, with what is found from now on; "+
		"what changed before and is not published never will be, and every copy of this Source has to be compared with the Resource List",
		"event", "index_begun_anew", "published", seq, "at", at)
	return nil
}

// skip remembers a beginning of the log before which the outbox lacks changes, so that it is logged once.
func (s *shelf) skip(begin uint64) error {
	return s.swap(func(c *register) error {
		c.History.Skipped = begin
		return nil
	})
}

// restart empties the log. It begins anew now, after a place that an index before this one had
// reached: so no number and no time of a change is used twice.
func (x *Index) restart(now time.Time, after place) error {
	if _, err := x.Prune(Cut{Before: time.UnixMicro(x.state().floor + 1), Through: math.MaxUint64}); err != nil {
		return err
	}
	return x.update(func(_ *boltfile.Tx, h *head) error {
		h.floor = max(now.UnixMicro(), h.floor, after.at) + 1
		h.last = place{max(h.last.seq, after.seq) + 1, h.floor}
		h.begin = h.last
		return nil
	})
}

// warnOfClock logs that the index has times that are so far ahead of the clock that hubs refuse them. A Source
// without a hub would not notice.
func (x *Index) warnOfClock(log *slog.Logger, now time.Time) {
	at := time.UnixMicro(x.state().floor).UTC()
	if at.Sub(now) < publisher.MaxAhead {
		return
	}
	log.Warn("what this Source has published is ahead of the clock: the clock is wrong now, or was ahead then. Until that time, what is found gets times that are a little later than it, "+
		"and subscribers and hubs may wait for it. Set the clock. If it was ahead then, and that is too long, stop rspub, move the whole state away, and start it anew",
		"event", "clock_ahead", "published", at, "clock", now.UTC())
}

// continues reports whether the log goes on after a change, which was published. If its time is
// zero, nobody knows it, and only the number counts.
func (x *Index) continues(seq uint64, at time.Time) (ok bool, err error) {
	h := x.state()
	switch {
	case seq > h.last.seq || seq == h.last.seq && !h.ready && !at.IsZero():
		return false, nil
	case at.IsZero() || !h.ready:
		return true, nil
	case seq <= h.begin.seq: // it is not in the log any more
		return at.UnixMicro() <= h.begin.at, nil
	}
	err = x.view(func(tx *boltfile.Tx) error {
		c, err := logged(tx, seq)
		ok = err == nil && c.At.Equal(at)
		return err
	})
	if errors.Is(err, ErrPruned) {
		err = nil
	}
	return ok, err
}
