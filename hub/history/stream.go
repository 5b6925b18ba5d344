package history

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rshub/rshub/journal"
)

// The pace of a stream.
const (
	// beat is how often a stream sends something, so that nothing on the way closes it as dead. All streams that
	// are due within a beatStep do so together, which costs the processor less than each at a time of its own.
	beat     = 15 * time.Second
	beatStep = time.Second
	// reconnect is what readers wait before they come again, and mostSpread how much longer
	// where all streams of a hub end at once.
	reconnect  = 2 * time.Second
	mostSpread = 10 * time.Second
)

// errDraining says that the hub is shutting down. Another hub, or this one after its restart, goes on.
var errDraining = errors.New("the hub is shutting down")

// stream is one reader with a connection: a cursor for each of its topics. Writers give it turns, in which it
// writes what there is. The goroutine of its request reads, so that it notices when the reader goes away.
type stream struct {
	s      *Service
	ctx    context.Context //nolint:containedctx // ends with the connection
	topics []*follower
	meta   bool
	from   Reader
	conn   net.Conn
	slow   *steady            // writes to conn and waits
	quick  func(b []byte) int // writes what conn accepts without waiting

	// Writers.mu guards these.
	state  turnState
	behind *stream // the next one whose turn is due

	// mu guards these during a turn. One goroutine at a time has the turn.
	mu    sync.Mutex
	over  bool
	why   End         // why it is over
	cause any         // of the panic that ended it
	asked time.Time   // when Reader.Allowed was asked
	full  bool        // the reader may have no more of what it missed, for now
	pulse *time.Timer // rings at the next beat
	again *time.Timer // rings when the reader may have more; nil: it never had to wait
	batch []byte      // what the turn is about to write
	place Position    // that of position
	line  []byte      // of the position
	beats atomic.Bool // a beat is due

	// What Open says.
	id      uint64
	began   time.Time
	sent    sent
	lags    atomic.Bool
	blocked atomic.Int64 // since when it waits for its reader, in nanoseconds of Unix time; 0: it does not
}

// follower is the cursor of a stream in one topic.
type follower struct {
	cursor
	pages  pages
	key    uint64           // of the topic, in positions
	missed journal.Position // of the last entry that was there before the stream
	head   place            // that entry
	gaps   int              // how many gaps were written since the last entry
	due    atomic.Uint64    // the version of the topic that has to be read; 0: none
	index  int              // in watched.streams; alarm.mu guards it
}

// wake makes the next turn read a version of a topic.
func (st *stream) wake(topic string, version uint64) { st.follower(topic).again(version) }

// follower returns the cursor in a topic that the stream has.
func (st *stream) follower(topic string) *follower {
	return st.topics[slices.IndexFunc(st.topics, func(f *follower) bool { return f.topic == topic })]
}

// ring gives the stream a turn.
func (st *stream) ring() {
	st.s.writers.ring(func(yield func(*stream) bool) { yield(st) })
}

// again makes the next turn read a version of the topic, unless it is to read a newer one.
func (f *follower) again(version uint64) {
	for {
		old := f.due.Load()
		if old >= version || f.due.CompareAndSwap(old, version) {
			return
		}
	}
}

// Stream writes events until the reader goes away, accepts nothing for Options.Stall, may read no
// more, or the hub drains. It uses the connection alone, which is one of HTTP/1.1, and closes it. An error
// is returned before anything is written: *UnknownError, *BusyError, that of the store, or http.ErrNotSupported.
func (s *Service) Stream(w http.ResponseWriter, r *http.Request, q Query, from Reader) error {
	done, err := s.beginStream(from.Address)
	if errors.Is(err, errDraining) {
		// A status would end the reader for good, if it is a browser.
		streamHeaders(w.Header())
		_, _ = fmt.Fprintf(w, "retry: %d\n\n", spread().Milliseconds())
		return nil
	}
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	st := &stream{s: s, ctx: ctx, began: time.Now(), asked: time.Now(), meta: q.Meta, from: from}
	for _, topic := range q.Topics {
		f, err := s.begins(ctx, topic, q, r.Header.Get("Last-Event-ID"))
		if err != nil {
			return err
		}
		st.topics = append(st.topics, f)
	}
	streamHeaders(w.Header())
	if r.Method == http.MethodHead {
		return nil
	}
	if err := st.hijack(w); err != nil {
		return err
	}
	defer func() { _ = st.conn.Close() }()
	st.open(head(w, r))
	st.hear()
	cancel()
	s.alarm.remove(st)
	s.ends.add(st.close())
	if st.cause != nil {
		panic(st.cause) // package ingress reports it
	}
	return nil
}

// streamHeaders begins the answer.
func streamHeaders(h http.Header) {
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // nginx passes on each event at once
	h.Set("Connection", "close")     // the stream ends with it
	h.Set("Vary", "Accept, Origin")
}

// head returns the status line and the header of the answer, as net/http writes them.
func head(w http.ResponseWriter, r *http.Request) []byte {
	version := "HTTP/1.1"
	if !r.ProtoAtLeast(1, 1) {
		version = "HTTP/1.0"
	}
	h := w.Header()
	h.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	b := bytes.NewBufferString(version + " 200 OK\r\n")
	_ = h.Write(b)
	b.WriteString("\r\n")
	return b.Bytes()
}

// open writes the beginning of a stream. From then on the stream has turns.
func (st *stream) open(head []byte) {
	// The position comes before the first event, so that a reader whose stream breaks within that event
	// comes again to the same place. If there is a gap first, it comes before any position.
	first := fmt.Appendf(head, "retry: %d\n", reconnect.Milliseconds())
	if slices.ContainsFunc(st.topics, func(f *follower) bool { return f.skipped != nil }) {
		first = append(first, '\n')
	} else {
		first = append(first, st.position()...)
	}
	st.mu.Lock() // the first turn begins behind this
	defer st.mu.Unlock()
	st.s.alarm.add(st)
	st.pulse = time.AfterFunc(untilBeat(), func() { st.beats.Store(true); st.ring() })
	if n, err := st.slow.Write(first); err != nil {
		st.stop(EndReader)
	} else {
		st.wrote(n)
	}
}

// stop makes the goroutine of the request close the stream.
func (st *stream) stop(why End) {
	st.over, st.why = true, why
	_ = st.conn.SetReadDeadline(time.Unix(1, 0)) // it has passed
}

// close ends the turn of the stream, which has no other one. It returns why the stream is over.
func (st *stream) close() End {
	_ = st.conn.Close() // whoever writes to it is broken off
	st.mu.Lock()
	defer st.mu.Unlock()
	st.over = true
	st.pulse.Stop()
	if st.again != nil {
		st.again.Stop()
	}
	return cmp.Or(st.why, EndReader)
}

// spread returns when a reader shall come again after the streams of all readers ended.
func spread() time.Duration { return reconnect + rand.N(mostSpread) } //nolint:gosec // no secret

// begins returns the cursor with which a stream begins in a topic.
func (s *Service) begins(ctx context.Context, topic string, q Query, lastEventID string) (*follower, error) {
	head, err := s.head(ctx, topic)
	if err != nil {
		return nil, err
	}
	f := &follower{cursor: cursor{journal: s.o.Journal, topic: topic, at: head.Last}, pages: s.pages, key: topicKey(topic), missed: head.Last.Position, head: place{head.Last.Position, head.Last.Nonce}}
	var last Position
	if lastEventID != "" {
		if last, err = ParsePosition(lastEventID); err != nil {
			// No hub gave it out, so what the reader has is not known.
			f.at, f.skipped = head.Trimmed, &Gap{Reason: journal.GapRolledBack}
			return f, nil
		}
	}
	at, known := last.After(topic)
	if !known { // the reader has nothing of this topic yet, so it begins where the query says
		at, known = q.After.After(topic)
	}
	switch {
	case known:
		f.at = at
	case q.Earliest:
		f.at = head.Trimmed
	case !q.Since.IsZero():
		err = s.sinceStream(ctx, f, head, q.Since)
	}
	return f, err
}

// sinceStream moves a cursor to the first entry that ends after an instant. The time before the
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
		return nil // nothing is newer: the stream begins with the next entry
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
