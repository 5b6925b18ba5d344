package publisher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/internal/base/web"
)

// The ladder of waits after POSTs that failed: doubled from the first to the
// longest, each 20 % more or less.
const (
	retryFirst = time.Second
	retryMax   = 5 * time.Minute
)

// rewindPause is the least time between two times that a hub lost its tail.
const rewindPause = 10 * time.Second

// Posted is one POST of an interval, and its result.
type Posted struct {
	Topic, Hub  string
	From, Until time.Time
	Entries     int
	Bytes       int64
	Took        time.Duration
	Receipt     Receipt // if Err is nil
	Err         error   // why the hub does not have it; often a *RefusedError
}

// sender posts to one hub. Only the goroutine of run sends. The other methods may be called
// by any goroutine.
type sender struct {
	p       *Publisher
	hub     Hub
	wake    clock.Signal // there may be something to send, or Resume was called
	posting atomic.Bool  // a POST is under way

	mu       sync.Mutex
	m        hubCursor
	round    int // counts the times that Resume moved the cursor
	rewound  time.Time
	last     HubStatus // what Status reports beside the cursor
	failures int
	ladder   *backoff.ExponentialBackOff
}

func newSender(p *Publisher, h Hub, m hubCursor) *sender {
	return &sender{p: p, hub: h, m: m, ladder: &backoff.ExponentialBackOff{
		InitialInterval: retryFirst, RandomizationFactor: 0.2, Multiplier: 2, MaxInterval: retryMax,
	}}
}

func (s *sender) cursor() hubCursor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m
}

// run sends until ctx ends.
func (s *sender) run(ctx context.Context) error {
	for ctx.Err() == nil {
		woken := s.wake.Wait()
		wait, err := s.step(ctx)
		if err := s.p.retryLater(ctx, "sending to "+s.hub.URL, err); err != nil {
			return err
		}
		if wait > 0 && err == nil {
			s.sleep(ctx, wait, woken)
		}
	}
	return nil
}

// step sends one interval, if there is one, and returns how long to wait for the
// next.
func (s *sender) step(ctx context.Context) (time.Duration, error) {
	i, round, ok, err := s.next(ctx)
	if err != nil {
		return 0, err
	}
	if !ok {
		return never, nil
	}
	return s.attempt(ctx, i, round)
}

// sleep waits until the next attempt is due and there may be something to send.
func (s *sender) sleep(ctx context.Context, most time.Duration, woken <-chan struct{}) {
	for end := time.Now().Add(most); clock.Wait(ctx, time.Until(end), woken); {
		woken = s.wake.Wait()
		if !s.status().NextAttempt.After(time.Now()) {
			return
		}
	}
}

// next returns the interval that the hub gets next: of those that begin at its watermark,
// the longest that is small enough. If all are too large, it divides one. A hub that has
// stopped gets none. It reads that together with the watermark, since Resume changes both.
func (s *sender) next(ctx context.Context) (i interval, round int, ok bool, err error) {
	for {
		s.mu.Lock()
		m, stopped := s.m, s.last.Stopped != ""
		round = s.round
		s.mu.Unlock()
		if stopped {
			return i, round, false, nil
		}
		var found []interval
		var deleted bool
		err = s.p.box.db.View(func(tx *boltfile.Tx) error {
			found, deleted = following(tx, m.Until)
			return nil
		})
		if err == nil && deleted {
			s.leftBehind(m.Until, round)
		}
		if err != nil || len(found) == 0 {
			return i, round, false, err
		}
		for n := len(found) - 1; n >= 0; n-- {
			if m.Refused == 0 || found[n].Size < m.Refused || found[n].Entries < 2 && n == 0 {
				return found[n], round, true, nil
			}
		}
		if err := s.p.divide(ctx, found[0]); err != nil && !errors.Is(err, errGone) {
			return i, round, false, err
		}
	}
}

// leftBehind stops a hub that was not among the hubs for so long that what follows its watermark is
// deleted, unless Resume was called since round was read.
func (s *sender) leftBehind(at time.Time, round int) {
	s.mu.Lock()
	news := round == s.round && s.last.Stopped == ""
	if news {
		s.last.Stopped = fmt.Sprintf("What comes after %s is not kept any more. Reset the topic at the hub, then Resume with an instant at which an interval begins; "+
			"subscribers see the gap and repair it from the Change Lists.", stamp(at))
	}
	s.mu.Unlock()
	if news {
		s.p.o.Log.Error("nothing is sent to this hub until Resume says how to go on: what it lacks is not kept any more",
			slog.String("event", "hub_left_behind"), slog.String("topic", s.p.o.Topic), slog.String("hub", s.hub.URL), slog.Time("after", at))
		s.p.changed.Broadcast()
	}
}

// attempt posts i once and does what follows. It returns how long to wait then.
func (s *sender) attempt(ctx context.Context, i interval, round int) (time.Duration, error) {
	body, err := s.p.box.body(i)
	if errors.Is(err, errGone) {
		return 0, nil // Resume moved the cursor past it
	}
	if err != nil {
		return 0, err
	}
	s.posting.Store(true)
	start := time.Now()
	posting, cancel := context.WithTimeout(ctx, web.Pace{Stall: s.p.o.Timeout, Rate: slowest}.Limit(i.Size))
	receipt, err := post(posting, s.p.o.Client, s.hub, Notification{
		Topic: s.p.o.Topic, Body: body, Location: s.p.location(i), CapabilityList: s.p.o.CapabilityList,
	})
	cancel()
	s.posting.Store(false)
	if err != nil && ctx.Err() != nil {
		return 0, nil // Run ends; the same bytes are sent at the next start
	}
	if s.p.o.Posted != nil {
		s.p.o.Posted(Posted{
			Topic: s.p.o.Topic, Hub: s.hub.URL, From: i.From, Until: i.Until, Entries: i.Entries, Bytes: i.Size,
			Took: time.Since(start), Receipt: receipt, Err: err,
		})
	}
	v := decide(err, i, time.Now(), s.cursor().Reached, s.p.begins)
	return s.follow(ctx, i, round, receipt, v, err)
}

// follow does what the outcome of a POST says, and returns how long to wait.
func (s *sender) follow(ctx context.Context, i interval, round int, r Receipt, v outcome, cause error) (time.Duration, error) {
	wait, ok := s.record(i, round, r, v, cause)
	if !ok {
		return 0, nil // Resume came in between, and has the last word
	}
	log := s.p.o.Log.With(slog.String("topic", s.p.o.Topic), slog.String("hub", s.hub.URL),
		slog.Time("from", i.From), slog.Time("until", i.Until))
	switch v.step {
	case advance:
		log.Info("the hub has the interval", slog.String("event", "interval_posted"),
			slog.Int("entries", i.Entries), slog.Bool("duplicate", r.Duplicate), slog.String("notification_id", r.ID))
		return 0, s.move(ctx, round, func(m *hubCursor) { *m = m.moveTo(i.Until) })
	case rewind:
		log.Warn("the hub lost its tail, which is sent again", slog.String("event", "hub_rewound"), slog.Time("expected", v.expected), slog.Any("error", cause))
		return wait, s.move(ctx, round, func(m *hubCursor) { *m = m.moveTo(v.expected) })
	case rejoin:
		log.Warn("the hub has again what it lost", slog.String("event", "hub_rejoined"), slog.Time("expected", v.expected), slog.Any("error", cause))
		return wait, s.move(ctx, round, func(m *hubCursor) { *m = m.moveTo(v.expected) })
	case divide:
		log.Warn("the interval is too large for the hub", slog.String("event", "interval_too_large"), slog.Int64("bytes", i.Size), slog.Any("error", cause))
		return 0, s.move(ctx, round, func(m *hubCursor) { m.Refused = i.Size })
	case halt:
		log.Error("nothing more is sent to this hub until Resume says how to go on: "+v.advice,
			slog.String("event", "hub_stopped"), slog.Time("expected", v.expected), slog.Any("error", cause))
		s.p.changed.Broadcast()
		return 0, nil
	}
	if v.permanent {
		log.Error("the hub refuses the interval, which is sent again: "+v.advice,
			slog.String("event", "interval_refused"), slog.Duration("wait", wait), slog.Any("error", cause))
	} else {
		log.Warn("the hub did not accept the interval, which is sent again: "+v.advice,
			slog.String("event", "interval_delayed"), slog.Duration("wait", wait), slog.Any("error", cause))
	}
	return wait, nil
}

// record stores the result of a POST for Status, and returns how long to wait before the next. Ok is
// false if Resume was called since round was read, so that nothing of that counts any more.
func (s *sender) record(i interval, round int, r Receipt, v outcome, cause error) (wait time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if round != s.round {
		return 0, false
	}
	s.last = HubStatus{LastStatus: r.Status, LastAt: time.Now()}
	if v.step == advance {
		s.failures = 0
		s.ladder.Reset()
		return 0, true
	}
	s.failures++
	s.last.LastError = sentences(cause, v.advice)
	var refused *RefusedError
	if errors.As(cause, &refused) {
		s.last.LastStatus = refused.Status
	}
	switch v.step {
	case halt:
		s.last.Stopped, s.last.Expected, s.last.Refused = v.advice, v.expected, i.From
	case again:
		wait = s.backOff(v.wait)
	case rewind, rejoin:
		wait = s.pause()
	}
	return wait, true
}

// backOff returns how long to wait before the same bytes are sent again: one step up the
// ladder, or longer if the hub asked for it. The caller has locked mu.
func (s *sender) backOff(asked time.Duration) time.Duration {
	wait := s.ladder.NextBackOff()
	if asked > 0 {
		wait = asked + min(wait, asked/5) // not all publishers at once
	}
	s.last.NextAttempt = time.Now().Add(wait)
	return wait
}

// pause is how long to wait before the lost tail is sent again, so that a hub that loses it
// over and over stays usable. The caller has locked mu.
func (s *sender) pause() time.Duration {
	before := s.rewound
	if s.rewound = time.Now(); before.IsZero() || s.rewound.Sub(before) > rewindPause {
		return 0
	}
	s.last.NextAttempt = s.rewound.Add(rewindPause)
	return rewindPause
}

// move changes the cursor durably, unless Resume was called since round was read.
func (s *sender) move(ctx context.Context, round int, change func(*hubCursor)) error {
	s.p.moving.Lock()
	defer s.p.moving.Unlock()
	s.mu.Lock()
	m, same := s.m, round == s.round
	s.mu.Unlock()
	if !same {
		return nil
	}
	change(&m)
	return s.set(ctx, m, anywhere, func() {})
}

// anywhere is the check of set for a cursor that may be anywhere.
func anywhere(*boltfile.Tx, *outboxState) error { return nil }

// set stores a cursor durably, if check returns nil in the same transaction, then changes it and calls
// more under one lock. The caller has locked moving.
func (s *sender) set(ctx context.Context, m hubCursor, check func(*boltfile.Tx, *outboxState) error, more func()) error {
	err := s.p.box.do(context.WithoutCancel(ctx), func(tx *boltfile.Tx, now *outboxState) error {
		if err := check(tx, now); err != nil {
			return err
		}
		return tx.Bucket(bucketHubs).PutJSON([]byte(s.hub.URL), m)
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.m = m
	more()
	s.mu.Unlock()
	s.p.changed.Broadcast()
	return nil
}

// sentences are the reason of an outcome, and its advice.
func sentences(cause error, advice string) string {
	return strings.TrimSuffix(cause.Error(), ".") + ". " + advice
}
