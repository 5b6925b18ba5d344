package history

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/rshub/rshub/journal"
)

// The pace of a stream.
const (
	// beat is how often a stream says something, so that nothing on the way takes it for dead.
	beat = 15 * time.Second
	// reconnect is what readers wait before they come again, and mostSpread how much longer
	// where all streams of a hub end at once.
	reconnect  = 2 * time.Second
	mostSpread = 10 * time.Second
)

// streamEntries is how many entries a stream reads at once, without their bodies.
const streamEntries = 64

// small is the longest event that streams may have on their way to a reader without being
// counted, in bytes.
const small = 16 << 10

// ErrDraining says that the hub is shutting down. Another hub, or this one after its restart, goes on.
var ErrDraining = errors.New("the hub is shutting down")

// stream is one reader with a connection: a cursor for each of its topics.
type stream struct {
	s      *Service
	topics []*follower
	bell   chan struct{} // of one value: a topic may have changed
	out    *steady
	meta   bool
	told   string    // the position that the reader has
	asked  time.Time // when Reader.Allowed was asked
}

// follower is the cursor of a stream in one topic.
type follower struct {
	cursor
	mu    sync.Mutex
	moved bool // the topic may have changed since it was read
}

// wake has a topic read again.
func (st *stream) wake(topic string) {
	for _, f := range st.topics {
		if f.topic == topic {
			f.mu.Lock()
			f.moved = true
			f.mu.Unlock()
		}
	}
	select {
	case st.bell <- struct{}{}:
	default:
	}
}

// take reports whether the topic may have changed, and forgets it.
func (f *follower) take() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	moved := f.moved
	f.moved = false
	return moved
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
	st := &stream{s: s, asked: time.Now(), bell: make(chan struct{}, 1), meta: q.Meta, out: s.steadily(w)}
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
		st.told = st.position()
		first = fmt.Sprintf("retry: %d\nid: %s\n\n", reconnect.Milliseconds(), st.told)
	}
	if st.write([]byte(first)) == nil {
		st.run(r.Context(), from)
	}
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
	f := &follower{cursor: cursor{journal: s.pages, topic: topic, at: head.Last}, moved: true}
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

// run writes what there is, and waits for more.
func (st *stream) run(ctx context.Context, from Reader) {
	timer := time.NewTimer(beat)
	defer timer.Stop()
	for {
		if asked := time.Now(); from.Allowed != nil && asked.Sub(st.asked) >= beat {
			if st.asked = asked; !from.Allowed() {
				return
			}
		}
		more, err := st.turn(ctx)
		if err == nil && !more {
			err = st.flush()
		}
		if err != nil || ctx.Err() != nil {
			return
		}
		select {
		case <-st.s.draining:
			if st.write(fmt.Appendf(nil, "retry: %d\n\n", spread().Milliseconds())) == nil {
				_ = st.out.rc.Flush() // the reader comes again in any case
			}
			return
		default:
		}
		if more {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-st.s.draining:
		case <-st.bell:
		case <-timer.C:
			timer.Reset(beat)
			if st.write([]byte(":\n\n")) != nil {
				return
			}
		}
	}
}

// turn writes a page of each topic that may have changed. More says that there may be more.
func (st *stream) turn(ctx context.Context) (more bool, err error) {
	for _, f := range st.topics {
		if !f.take() {
			continue
		}
		n, err := st.page(ctx, f)
		if err != nil {
			return false, err
		}
		if n > 0 {
			more = true
			f.again()
		}
	}
	return more, nil
}

// page writes what comes next in one topic, and returns how much that was. An error ends the
// stream. If the store does not answer, nothing comes, and the next beat asks again.
func (st *stream) page(ctx context.Context, f *follower) (n int, err error) {
	next := f.cursor // f goes on step by step, so that each event has its position
	items, err := next.read(ctx, streamEntries, 0)
	if err != nil {
		f.again()
		return 0, ctx.Err()
	}
	for i := range items {
		it, large := &items[i], func() {}
		var text []byte
		if it.gap == nil {
			if text, large, err = st.event(ctx, f.topic, &it.entry); err != nil {
				it.gap = missing(&it.entry, err)
			}
			if err != nil && it.gap == nil {
				f.again()
				return 0, ctx.Err()
			}
			f.at = it.entry.Anchor()
		}
		if it.gap != nil {
			text = gapEvent(f.topic, it.gap)
		}
		if i+1 == len(items) {
			f.at, f.skipped = next.at, next.skipped
		}
		err = st.send(text)
		large()
		if err != nil {
			return i, err
		}
		f.skipped = nil
	}
	return len(items), nil
}

// again has a topic read at the next beat.
func (f *follower) again() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.moved = true
}

// event returns the event of an entry, and what to call when it is written. A slow reader holds
// one event; if there are too many large ones on their way, the reader gets the address of the
// document instead.
func (st *stream) event(ctx context.Context, topic string, e *journal.Entry) (text []byte, written func(), err error) {
	n := min(e.Size, st.s.o.MaxBytes)
	if st.meta || n <= small {
		text, err = st.s.event(ctx, topic, e, st.meta)
		return text, func() {}, err
	}
	if !st.s.unread.TryAcquire(n) {
		text, err = st.s.event(ctx, topic, e, true)
		return text, func() {}, err
	}
	written = func() { st.s.unread.Release(n) }
	if text, err = st.s.event(ctx, topic, e, false); err != nil {
		written()
		return nil, func() {}, err
	}
	return text, written, nil
}

// send writes an event and the position behind it.
func (st *stream) send(text []byte) error {
	st.told = st.position()
	if err := st.write(text); err != nil {
		return err
	}
	return st.write([]byte("id: " + st.told + "\n\n"))
}

// position is that of the reader in all topics.
func (st *stream) position() string {
	p := make(Position, len(st.topics))
	for i, f := range st.topics {
		p[i] = Place{topicKey(f.topic), f.at}
	}
	return p.String()
}

// flush sends what was written, and the position if the reader does not have it.
func (st *stream) flush() error {
	if now := st.position(); now != st.told {
		st.told = now
		if err := st.write([]byte("id: " + now + "\n\n")); err != nil {
			return err
		}
	}
	return st.out.rc.Flush()
}

func (st *stream) write(b []byte) error {
	_, err := st.out.Write(b)
	return err
}
