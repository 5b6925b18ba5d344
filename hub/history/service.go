package history

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/rshub/rshub/journal"
)

// Options are what a Service needs. HubURL, Journal and Watcher are required.
type Options struct {
	// HubURL is the hub's public URL, to which the addresses in answers lead.
	HubURL  string
	Journal journal.Reader
	// MaxAnswers limits the answers that the Service works on at once. While an answer waits for its reader,
	// another one has its place, so eight times as many may be unfinished. MaxAnswersEach limits the
	// unfinished ones of one requester. Zero: 8 and 2. Negative: no limit.
	MaxAnswers, MaxAnswersEach int
	// MaxBytes limits the notifications in memory of all answers together, in bytes. A quarter
	// is for pages, the rest for large notifications, which their readers share. A notification that is
	// longer is in memory alone. Zero: 64 MiB.
	MaxBytes int64
	// Stall is how long a reader may accept nothing of an answer before the answer is broken off. Zero: 15 s.
	Stall time.Duration
	// Watcher says which topics change, for streams.
	Watcher journal.Watcher
	// MaxStreams limits the open streams, and MaxStreamsEach those of one address.
	// Zero: 10,000 and 100. Negative: no limit.
	MaxStreams, MaxStreamsEach int
	Log                        *zap.Logger // nil: no log
	// Private says that not everyone may read. Then no shared cache may store an answer.
	Private bool
}

// Service answers questions about the history of topics. It may be shared between goroutines.
type Service struct {
	o       Options
	limits  limits              // of a document
	memory  *semaphore.Weighted // pages of answers
	large   lent                // long notifications in answers
	work    *semaphore.Weighted // places of answers; nil: no limit
	damaged damaged
	alarm   alarm
	writers *writers

	// What streams read of the journal, and what they write, each once for all of them.
	pages  pages
	events *shared[eventKey, sharedEvent]
	unread *semaphore.Weighted // large events on their way to readers
	coding *semaphore.Weighted // documents that become events; none while a stream waits for its reader

	sent sent // to all streams
	ends ends

	draining chan struct{}  // closed by Drain
	open     sync.WaitGroup // streams

	mu                   sync.Mutex
	answering, streaming counts
}

// counts is how many answers are being written, in all and for each requester. Service.mu guards
// them.
type counts struct {
	all  int
	each map[string]int
}

// New returns a Service. It fails if a required option is missing.
func New(o Options) (*Service, error) {
	if o.HubURL == "" || o.Journal == nil || o.Watcher == nil {
		return nil, errors.New("history: Options needs a HubURL, a Journal and a Watcher")
	}
	o.MaxAnswers = cmp.Or(o.MaxAnswers, 8)
	o.MaxAnswersEach = cmp.Or(o.MaxAnswersEach, 2)
	o.MaxBytes = cmp.Or(o.MaxBytes, 64<<20)
	o.Stall = cmp.Or(o.Stall, 15*time.Second)
	o.MaxStreams = cmp.Or(o.MaxStreams, 10_000)
	o.MaxStreamsEach = cmp.Or(o.MaxStreamsEach, 100)
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	w := newWriters()
	s := &Service{
		writers: w, alarm: newAlarm(w),
		pages:  pages{Reader: o.Journal, writers: w, known: newShared[pageKey](16<<20, func(k pageKey, p page) int { return len(k.topic) + p.bytes() })},
		events: newShared[eventKey](16<<20, func(_ eventKey, e sharedEvent) int { return cap(e.text) }),
		unread: semaphore.NewWeighted(o.MaxBytes),
		coding: semaphore.NewWeighted(o.MaxBytes),
		o:      o, limits: limits{50_000, 24 << 20}, memory: semaphore.NewWeighted(max(o.MaxBytes/4, 1)), large: newLent(o.MaxBytes - o.MaxBytes/4),
		damaged: newDamaged(), draining: make(chan struct{}),
		answering: counts{each: make(map[string]int)}, streaming: counts{each: make(map[string]int)},
	}
	if o.MaxAnswers > 0 {
		s.work = semaphore.NewWeighted(int64(o.MaxAnswers))
	}
	return s, nil
}

// Drain ends all streams that are open, and each that begins later. It asks their readers to come again after
// times that differ.
func (s *Service) Drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isDraining() {
		return
	}
	close(s.draining)
	s.writers.ring(slices.Values(s.alarm.after(0)))
}

// Finish waits after Drain until all streams have ended. When ctx ends, it breaks off the rest.
func (s *Service) Finish(ctx context.Context) {
	all := make(chan struct{})
	go func() {
		s.open.Wait()
		close(all)
	}()
	select {
	case <-all:
		return
	case <-ctx.Done():
	}
	for _, st := range s.alarm.after(0) {
		_ = st.conn.SetReadDeadline(time.Unix(1, 0)) // its request closes it then
	}
	<-all
}

func (s *Service) isDraining() bool {
	select {
	case <-s.draining:
		return true
	default:
		return false
	}
}

// Reader describes the sender of a question.
type Reader struct {
	// Name names the requester. Answers are counted by it.
	Name string
	// Charge is called with the bytes of notifications that an answer will have, before the answer
	// begins. Its error refuses the answer. Before a Change List is planned, Charge is called with 0, so
	// that it can refuse a reader that may read nothing now. Nil: no answer is refused.
	Charge func(bytes int64) error
	// Planned is called in place of Charge when a Change List is planned. Sent is false if none of the bytes
	// are sent, as for HEAD: planning costs something, too. Nil: Charge is called, if the bytes are sent.
	Planned func(bytes int64, sent bool) error
	// Address is the address by which streams are counted. Publisher is the name that belongs to the reader's
	// token; empty: the reader has no token.
	Address, Publisher string
	// Allowed reports whether a stream may go on. It is called at each beat. Nil: every stream may.
	Allowed func() bool
}

func (r *Reader) charge(n int64) error {
	if r.Charge == nil {
		return nil
	}
	return r.Charge(n)
}

func (r *Reader) planned(n int64, sent bool) error {
	switch {
	case r.Planned != nil:
		return r.Planned(n, sent)
	case sent:
		return r.charge(n)
	}
	return nil
}

// BusyError says that too many answers are being written: for the requester, or in all.
type BusyError struct {
	Yours  bool
	Stream bool // the answers are streams
}

func (e *BusyError) Error() string {
	what := "answers are being written"
	if e.Stream {
		what = "streams are open"
	}
	if e.Yours {
		what += " for one requester"
	}
	return "too many " + what
}

// turn is the place of an answer among those that the Service works on.
type turn struct {
	work *semaphore.Weighted // nil: there is room for all
	has  bool
	done func()
}

// waiting is how many answers may be unfinished for each that the Service works on.
const waiting = 8

// begin reserves a place for an answer to a requester. The caller calls end when it is written.
func (s *Service) begin(requester string) (*turn, error) {
	s.mu.Lock()
	done, err := s.reserve(&s.answering, requester, BusyError{}, waiting*s.o.MaxAnswers, s.o.MaxAnswersEach)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	t := &turn{work: s.work, has: true, done: done}
	if t.work != nil && !t.work.TryAcquire(1) {
		done()
		return nil, &BusyError{}
	}
	return t, nil
}

// rest releases the place.
func (t *turn) rest() {
	if t.work != nil && t.has {
		t.work.Release(1)
	}
	t.has = false
}

// again waits for a place.
func (t *turn) again(ctx context.Context) (err error) {
	if t.work != nil {
		err = t.work.Acquire(ctx, 1)
	}
	t.has = err == nil
	return err
}

// acquire waits for n bytes of memory. Other answers use the place meanwhile: those that have memory may need it to go
// on.
func (t *turn) acquire(ctx context.Context, memory *semaphore.Weighted, n int64) error {
	if memory.TryAcquire(n) {
		return nil
	}
	t.rest()
	if err := memory.Acquire(ctx, n); err != nil {
		return err
	}
	if err := t.again(ctx); err != nil {
		memory.Release(n)
		return err
	}
	return nil
}

// wait waits until a channel is closed. Other answers use the place meanwhile.
func (t *turn) wait(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	default:
	}
	t.rest()
	select {
	case <-done:
		return t.again(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end ends the turn of an answer that is written.
func (t *turn) end() {
	t.rest()
	t.done()
}

// beginStream reserves a place for a stream. The caller calls done when the stream is over.
func (s *Service) beginStream(address string) (done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isDraining() {
		return nil, errDraining
	}
	free, err := s.reserve(&s.streaming, address, BusyError{Stream: true}, s.o.MaxStreams, s.o.MaxStreamsEach)
	if err != nil {
		return nil, err
	}
	s.open.Add(1)
	return func() { free(); s.open.Done() }, nil
}

// reserve counts an answer. The caller has mu.
func (s *Service) reserve(c *counts, requester string, busy BusyError, most, each int) (done func(), err error) {
	switch {
	case each > 0 && c.each[requester] >= each:
		busy.Yours = true
		return nil, &busy
	case most > 0 && c.all >= most:
		return nil, &busy
	}
	c.all++
	c.each[requester]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		c.all--
		if c.each[requester]--; c.each[requester] == 0 {
			delete(c.each, requester)
		}
	}, nil
}

// room reserves memory for a page of notifications. The caller calls free when it has written
// them. A second call does nothing.
func (s *Service) room(ctx context.Context, t *turn) (free func(), err error) {
	n := min(pageBytes, max(s.o.MaxBytes/4, 1))
	if err := t.acquire(ctx, s.memory, n); err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() { s.memory.Release(n) }), nil
}

// damaged remembers entries whose bodies could not be read, so that the next answer has a
// gap instead of breaking off at the same place. It may be shared between goroutines.
type damaged struct {
	mu  sync.Mutex
	lru *simplelru.LRU[place, struct{}]
}

// place names one entry.
type place struct {
	position journal.Position
	nonce    journal.Nonce
}

// mostDamaged is how many are remembered.
const mostDamaged = 10_000

func newDamaged() damaged {
	lru, _ := simplelru.NewLRU[place, struct{}](mostDamaged, nil) // fails for a size below 1 only
	return damaged{lru: lru}
}

func (d *damaged) add(a journal.Anchor) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lru.Add(place{a.Position, a.Nonce}, struct{}{})
}

func (d *damaged) has(a journal.Anchor) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.lru.Get(place{a.Position, a.Nonce})
	return ok
}
