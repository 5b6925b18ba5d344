package history

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rshub/rshub/journal"
)

// The pace of a stream.
const (
	// beat is how often a stream says something, so that nothing on the way takes it for dead. Streams do
	// so together, in each beatStep: the processor works once for many, and not for each by itself.
	beat     = 15 * time.Second
	beatStep = time.Second
	// reconnect is what readers wait before they come again, and mostSpread how much longer
	// where all streams of a hub end at once.
	reconnect  = 2 * time.Second
	mostSpread = 10 * time.Second
)

// streamEntries is how many entries a stream reads at once, without their bodies.
const streamEntries = 64

// small is the longest event that streams may have on their way to a reader without being
// counted, in bytes as they are sent.
const small = 16 << 10

// chargeAgain is when a stream asks again whether its reader may have more of what was there before it.
const chargeAgain = time.Second

// ErrDraining says that the hub is shutting down. Another hub, or this one after its restart, goes on.
var ErrDraining = errors.New("the hub is shutting down")

// stream is one reader with a connection: a cursor for each of its topics.
type stream struct {
	s      *Service
	topics []*follower
	bell   chan struct{} // of one value: a topic may have changed, or the hub drains
	out    *steady
	meta   bool
	asked  time.Time // when Reader.Allowed was asked
	from   Reader
	full   bool // the reader may have no more of what it missed, for now

	// What Open says.
	id      uint64
	began   time.Time
	sent    sent
	behind  atomic.Bool
	blocked atomic.Int64 // since when it writes, in nanoseconds of Unix time; 0: it does not

	place Position // that of position
	line  []byte   // of the position
}

// follower is the cursor of a stream in one topic.
type follower struct {
	cursor
	pages  pages
	key    uint64           // of the topic, in positions
	missed journal.Position // of the last entry that was there before the stream
	head   place            // that entry
	gaps   int              // how many gaps were written since the last entry
	mu     sync.Mutex
	due    uint64 // the version of the topic that has to be read; 0: none
}

// wake has a version of a topic read.
func (st *stream) wake(topic string, version uint64) {
	for _, f := range st.topics {
		if f.topic == topic {
			f.again(version)
		}
	}
	st.ring()
}

// ring has the stream look what there is to do.
func (st *stream) ring() {
	select {
	case st.bell <- struct{}{}:
	default:
	}
}

// take returns the version of the topic that has to be read, and forgets it. 0: there is none.
func (f *follower) take() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	due := f.due
	f.due = 0
	return due
}

// again has a version of the topic read, unless a newer one is to be.
func (f *follower) again(version uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.due = max(f.due, version)
}

// Stream writes events until the reader goes away, takes nothing for Options.Stall, may read no
// more, or the hub drains. An error is returned before anything is written: ErrUnknown,
// ErrDraining, *BusyError, or that of the store.
func (s *Service) Stream(w http.ResponseWriter, r *http.Request, q Query, from Reader) error {
	done, err := s.beginStream(from.Address)
	if errors.Is(err, ErrDraining) {
		// A status would end the reader for good, if it is a browser.
		streamHeaders(w)
		_, _ = fmt.Fprintf(w, "retry: %d\n\n", spread().Milliseconds())
		return nil
	}
	if err != nil {
		return err
	}
	defer done()
	st := &stream{s: s, began: time.Now(), asked: time.Now(), bell: make(chan struct{}, 1), meta: q.Meta, out: s.steadily(w), from: from}
	for _, topic := range q.Topics {
		f, err := s.begins(r.Context(), topic, q, r.Header.Get("Last-Event-ID"))
		if err != nil {
			return err
		}
		st.topics = append(st.topics, f)
	}
	s.alarm.add(st)
	defer s.alarm.remove(st)
	streamHeaders(w)
	if r.Method == http.MethodHead {
		return nil
	}
	if from.Streams != nil {
		from.Streams()
	}
	// The position comes before the first event, so that a reader whose stream breaks within that
	// comes again to the same place; unless there is a gap, which is behind that place.
	first := fmt.Sprintf("retry: %d\n\n", reconnect.Milliseconds())
	if !slices.ContainsFunc(st.topics, func(f *follower) bool { return f.skipped != nil }) {
		first = fmt.Sprintf("retry: %d\n%s", reconnect.Milliseconds(), st.position())
	}
	why := EndReader
	if err := st.write([]byte(first)); err == nil {
		why = st.run(r.Context())
	}
	s.ends.add(why)
	return nil
}

// streamHeaders begins the answer.
func streamHeaders(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // nginx passes on each event at once
	h.Set("Connection", "close")     // it is no longer one of the listener's connections
	h.Set("Vary", "Accept, Origin")
	w.WriteHeader(http.StatusOK)
}

// spread is when a reader comes again after a stream that ended for all.
func spread() time.Duration { return reconnect + rand.N(mostSpread) } //nolint:gosec // no secret

// begins returns the cursor with which a stream begins in a topic.
func (s *Service) begins(ctx context.Context, topic string, q Query, lastEventID string) (*follower, error) {
	head, err := s.head(ctx, topic)
	if err != nil {
		return nil, err
	}
	f := &follower{cursor: cursor{journal: s.o.Journal, topic: topic, at: head.Last}, pages: s.pages, key: topicKey(topic), missed: head.Last.Position, head: place{head.Last.Position, head.Last.Nonce}}
	after := q.After
	if lastEventID != "" {
		if after, err = ParsePosition(lastEventID); err != nil {
			// Somebody else's: what the reader has is not known.
			f.at, f.skipped = head.Trimmed, &Gap{Reason: journal.GapRolledBack}
			return f, nil
		}
	}
	at, known := after.After(topic)
	switch {
	case after != nil && known:
		f.at = at
	case after != nil: // the reader has nothing of this topic yet
	case q.Earliest:
		f.at = head.Trimmed
	case !q.Since.IsZero():
		err = s.sinceStream(ctx, f, head, q.Since)
	}
	return f, err
}

// sinceStream moves a cursor to the first entry that ends after an instant. What is before the
// journal's beginning is a gap.
func (s *Service) sinceStream(ctx context.Context, f *follower, head journal.Head, since time.Time) error {
	p := planner{damaged: &s.damaged, plan: plan{head: head}, cursor: f.cursor}
	p.cursor.at = head.Before(since)
	found, begins, err := p.find(ctx, since)
	switch {
	case err != nil:
		return err
	case found == nil && since.Before(head.Until): // it was there
		f.skipped = &Gap{From: since, Until: head.Until, Reason: journal.GapRetention}
		return nil
	case found == nil:
		return nil // nothing is newer: from now on
	}
	f.at = found.entry.Predecessor()
	if found.entry.From.After(since) {
		f.skipped = &Gap{From: since, Reason: journal.GapSource}
		if begins && head.Trimmed.Position > 0 {
			f.skipped.Reason = journal.GapRetention
		}
	}
	return nil
}

// run writes what there is, and waits for more. It returns why the stream ended.
func (st *stream) run(ctx context.Context) End {
	timer := time.NewTimer(untilBeat())
	defer timer.Stop()
	for {
		st.full = false
		if asked := time.Now(); st.from.Allowed != nil && asked.Sub(st.asked) >= beat {
			if st.asked = asked; !st.from.Allowed() {
				return EndDenied
			}
		}
		more, err := st.turn(ctx)
		if err == nil && !more {
			err = st.flush()
		}
		if err != nil || ctx.Err() != nil {
			return ended(err)
		}
		select {
		case <-st.s.draining:
			if st.write(fmt.Appendf(nil, "retry: %d\n\n", spread().Milliseconds())) == nil {
				_ = st.out.rc.Flush() // the reader comes again in any case
			}
			return EndDrained
		default:
		}
		if more {
			continue
		}
		st.behind.Store(st.full)
		var again <-chan time.Time
		if st.full {
			again = time.After(chargeAgain)
		}
		select {
		case <-ctx.Done():
			return EndReader
		case <-st.bell:
		case <-again:
		case <-timer.C:
			timer.Reset(untilBeat())
			if err := st.write([]byte(":\n\n")); err != nil {
				return ended(err)
			}
		}
	}
}

// untilBeat is how long a stream waits until it says something.
func untilBeat() time.Duration {
	now := time.Now()
	return now.Add(beat).Truncate(beatStep).Sub(now)
}

// turn writes a page of each topic that may have changed. More says that there may be more.
func (st *stream) turn(ctx context.Context) (more bool, err error) {
	for _, f := range st.topics {
		version := f.take()
		if version == 0 {
			continue
		}
		st.behind.Store(true)
		rest, err := st.page(ctx, f, version)
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
func (st *stream) page(ctx context.Context, f *follower, version uint64) (more bool, err error) {
	next := f.cursor // f goes on step by step, so that each event has its position
	f.pages.version = version
	next.journal = &f.pages
	buffer, _ := buffers.Get().(*[]item) // nothing else is in it
	defer func() { clear(*buffer); buffers.Put(buffer) }()
	items, err := next.read(ctx, (*buffer)[:0], streamEntries, 0)
	if err != nil {
		f.again(version)
		return false, ctx.Err()
	}
	*buffer = items
	told := f.gaps
	for i := range items {
		it := &items[i]
		if it.gap != nil && told > 0 { // before the stream had to wait for its charge
			told--
			continue
		}
		var what sharedEvent
		var unread int64
		if it.gap == nil {
			if what, unread, err = st.event(ctx, f.topic, &it.entry); err != nil {
				it.gap = missing(&it.entry, err)
			}
			if err != nil && it.gap == nil {
				f.again(version)
				return false, ctx.Err()
			}
			if it.gap == nil && it.entry.Position <= f.missed && st.from.charge(int64(len(what.text))) != nil {
				st.s.unread.Release(unread)
				f.again(version)
				st.full = true
				return false, nil // what was written before it is flushed
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
		err = st.send(what)
		st.s.unread.Release(unread)
		if err != nil {
			return false, err
		}
		st.count(it.gap != nil)
		f.skipped = nil
	}
	return !f.pages.atEnd, nil
}

// buffers are for what streams read in each turn.
var buffers = sync.Pool{New: func() any { return new([]item) }}

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
// holds one event; if there are too many large ones on their way, the reader gets the address of the
// document instead.
func (st *stream) event(ctx context.Context, topic string, e *journal.Entry) (event sharedEvent, unread int64, err error) {
	event, err = st.s.event(ctx, topic, e, st.meta)
	n := int64(len(event.text))
	if err != nil || n <= small {
		return event, 0, err
	}
	if st.s.unread.TryAcquire(n) {
		return event, n, nil
	}
	event, err = st.s.event(ctx, topic, e, true)
	return event, 0, err
}

// send writes an event and the position behind it.
func (st *stream) send(e sharedEvent) error {
	if len(st.topics) == 1 && e.id < len(e.text) {
		return st.write(e.text)
	}
	if err := st.write(e.text[:e.id]); err != nil {
		return err
	}
	return st.write(st.position())
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

// flush sends what was written.
func (st *stream) flush() error {
	st.blocked.Store(time.Now().UnixNano())
	defer st.blocked.Store(0)
	return st.out.rc.Flush()
}

func (st *stream) write(b []byte) error {
	st.blocked.Store(time.Now().UnixNano())
	n, err := st.out.Write(b)
	st.blocked.Store(0)
	st.sent.bytes.Add(uint64(n))   //nolint:gosec // never negative
	st.s.sent.bytes.Add(uint64(n)) //nolint:gosec // never negative
	return err
}
