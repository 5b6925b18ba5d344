package history

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rshub/rshub/journal"
)

// streamEntries is how many entries a stream reads at once, without their bodies.
const streamEntries = 64

// small is the longest event that streams may have on their way to a reader without being
// counted, in bytes as they are sent.
const small = 16 << 10

// chargeAgain is how long a stream waits until it asks again whether its reader may have more of the notifications that
// were there before it.
const chargeAgain = time.Second

// turn writes what there is. More says that there may be more.
func (st *stream) turn() (more bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.over {
		return false
	}
	defer func() {
		if st.cause = recover(); st.cause != nil {
			st.stop(EndReader)
		}
	}()
	if st.denied() {
		st.stop(EndDenied)
		return false
	}
	more, err := st.pages()
	why := End("")
	switch {
	case err != nil:
		why = ended(err)
	case st.s.isDraining():
		_ = st.write(fmt.Appendf(nil, "retry: %d\n\n", spread().Milliseconds())) // the reader comes again in any case
		why = EndDrained
	case more:
		return true
	case st.beats.Swap(false):
		st.pulse.Reset(untilBeat())
		if err := st.write([]byte(":\n\n")); err != nil {
			why = ended(err)
		}
	}
	if why != "" {
		st.stop(why)
		return false
	}
	if st.lags.Store(st.full); st.full {
		st.later()
	}
	return false
}

// denied reports whether the reader may read no more. It asks at each beat, and two beats may be a beatStep less than
// beat apart.
func (st *stream) denied() bool {
	now := time.Now()
	if st.from.Allowed == nil || now.Sub(st.asked) < beat-beatStep {
		return false
	}
	st.asked = now
	return !st.from.Allowed()
}

// later gives the stream a turn after chargeAgain.
func (st *stream) later() {
	if st.again == nil {
		st.again = time.AfterFunc(chargeAgain, st.ring)
		return
	}
	st.again.Reset(chargeAgain)
}

// untilBeat is how long it is until the next beat.
func untilBeat() time.Duration {
	now := time.Now()
	return now.Add(beat).Truncate(beatStep).Sub(now)
}

// pages writes a page of each topic that may have changed. More says that there may be more.
func (st *stream) pages() (more bool, err error) {
	st.full = false
	for _, f := range st.topics {
		version := f.due.Swap(0)
		if version == 0 {
			continue
		}
		st.lags.Store(true)
		rest, err := st.page(f, version)
		if err != nil {
			return false, err
		}
		if rest {
			more = true
			f.again(version)
		}
	}
	return more, nil
}

// page writes what comes next in a version of one topic. More says that there may be more. An error ends
// the stream. If the store does not answer, nothing comes, and the next beat asks again.
func (st *stream) page(f *follower, version uint64) (more bool, err error) {
	room, _ := rooms.Get().(*room) // nothing else is in it
	defer func() { clear(room.items); rooms.Put(room) }()
	next := f.cursor // f goes on step by step, so that each event has its position
	f.pages.version = version
	next.journal = &f.pages
	items, err := next.read(st.ctx, room.items[:0], streamEntries)
	if err != nil {
		f.again(version)
		return false, st.ctx.Err()
	}
	room.items, st.batch = items, room.text[:0]
	more, err = st.items(f, version, items, &next)
	if err == nil {
		err = st.flush()
	}
	room.text, st.batch = st.batch[:0], nil
	return more, err
}

// items writes a page, behind which the cursor is next.
func (st *stream) items(f *follower, version uint64, items []item, next *cursor) (more bool, err error) {
	written := f.gaps
	for i := range items {
		it := &items[i]
		if it.gap != nil && written > 0 { // before the stream had to wait for its charge
			written--
			continue
		}
		var what sharedEvent
		var unread int64
		if it.gap == nil {
			if what, unread, err = st.event(f.topic, &it.entry); err != nil {
				it.gap = st.missing(f.topic, &it.entry, err)
			}
			if err != nil && it.gap == nil {
				f.again(version)
				return false, st.ctx.Err()
			}
			if it.gap == nil && it.entry.Position <= f.missed && st.from.charge(int64(len(what.text))) != nil {
				st.s.unread.Release(unread)
				f.again(version)
				st.full = true
				return false, nil
			}
			f.at, f.gaps = it.entry.Anchor(), 0
		}
		if it.gap != nil {
			text := gapEvent(f.topic, it.gap)
			what = sharedEvent{text, len(text)}
			f.gaps++
		}
		if i+1 == len(items) {
			f.at, f.skipped, f.gaps = next.at, next.skipped, 0
		}
		err = st.send(what, len(items) == 1)
		st.s.unread.Release(unread)
		if err != nil {
			return false, err
		}
		st.count(it.gap != nil)
		f.skipped = nil
	}
	return !f.pages.atEnd, nil
}

// missing returns the gap in place of an entry whose body is not there. Nil: err is another error, or the journal has
// lost the entry since its page was read. Then a later turn reports that.
func (st *stream) missing(topic string, e *journal.Entry, err error) *Gap {
	gap := &Gap{From: e.From, Until: e.Until, Reason: journal.GapRetention}
	switch {
	case errors.Is(err, journal.ErrDamaged):
		gap.Reason = journal.GapDamaged
		return gap
	case !errors.Is(err, journal.ErrNotFound):
		return nil
	}
	st.s.writers.rest()
	defer st.s.writers.resume()
	_, err = st.s.o.Journal.Read(st.ctx, topic, e.Anchor(), 1, 0)
	if _, readsOn := journal.ReadOn(err); err != nil && !readsOn {
		return nil
	}
	return gap
}

// room is for what a turn reads, and for small events that it writes together.
type room struct {
	items []item
	text  []byte
}

// rooms are for turns.
var rooms = sync.Pool{New: func() any { return new(room) }}

// count counts an event.
func (st *stream) count(gap bool) {
	for _, of := range []*sent{&st.sent, &st.s.sent} {
		if gap {
			of.gaps.Add(1)
		} else {
			of.notifications.Add(1)
		}
	}
}

// event returns the event of an entry, and how much of unread to release when it is written. A slow reader
// keeps one event in memory. If too many large ones are on their way, the reader receives the address of the
// document instead.
func (st *stream) event(topic string, e *journal.Entry) (event sharedEvent, unread int64, err error) {
	event, err = st.s.event(st.ctx, topic, e, st.meta)
	n := int64(len(event.text))
	if err != nil || n <= small {
		return event, 0, err
	}
	if st.s.unread.TryAcquire(n) {
		return event, n, nil
	}
	event, err = st.s.event(st.ctx, topic, e, true)
	return event, 0, err
}

// send writes an event and the position behind it, together with others of the page unless it is alone.
func (st *stream) send(e sharedEvent, alone bool) error {
	shared := len(st.topics) == 1 && e.id < len(e.text)
	if shared && (alone || len(e.text) > small) {
		if err := st.flush(); err != nil {
			return err
		}
		return st.write(e.text)
	}
	position := e.text[e.id:]
	if !shared {
		position = st.position()
	}
	if e.id > small {
		if err := st.flush(); err != nil {
			return err
		}
		if err := st.write(e.text[:e.id]); err != nil {
			return err
		}
		e.id = 0
	}
	st.batch = append(append(st.batch, e.text[:e.id]...), position...)
	if len(st.batch) > small {
		return st.flush()
	}
	return nil
}

// position returns the line with the position of the reader in all topics. The next call overwrites it.
func (st *stream) position() []byte {
	st.place = st.place[:0]
	for _, f := range st.topics {
		st.place = append(st.place, Place{f.key, f.at})
	}
	st.line = st.place.appendLine(st.line[:0])
	return st.line
}

// flush writes the batch.
func (st *stream) flush() error {
	b := st.batch
	if len(b) == 0 {
		return nil
	}
	st.batch = b[:0]
	return st.write(b)
}

// write writes what the connection accepts at once, and then waits for the reader.
func (st *stream) write(b []byte) error {
	n := st.quick(b)
	if n < len(b) {
		more, err := st.wait(b[n:])
		if n += more; err != nil {
			return err
		}
	}
	st.wrote(n)
	return nil
}

// wait writes while others have their turns.
func (st *stream) wait(b []byte) (int, error) {
	st.s.writers.rest()
	defer st.s.writers.resume()
	st.blocked.Store(time.Now().UnixNano())
	defer st.blocked.Store(0)
	return st.slow.Write(b)
}

func (st *stream) wrote(n int) {
	st.sent.bytes.Add(uint64(n))   //nolint:gosec // never negative
	st.s.sent.bytes.Add(uint64(n)) //nolint:gosec // never negative
}
