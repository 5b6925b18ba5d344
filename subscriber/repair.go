package subscriber

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/rshub/rshub/resourcesync"
)

// Why a gap was looked for.
const (
	GapMissed = "missed" // a notification came that begins later than the one before it ended
	GapLease  = "lease"  // there was no lease for a while, or there is one for the first time
	GapPulled = "pulled" // CatchUp was called
	GapCheck  = "check"  // the Change List was asked whether anything was not pushed
)

// errBehind says that the Change Lists do not reach as far as the hub yet.
var errBehind = errors.New("the Change List does not have it yet")

// errTooOld says that no list reaches back far enough.
var errTooOld = errors.New("no Change List reaches back that far")

// catchUp has the Change List asked what was not pushed.
func (s *Subscriber) catchUp(why string) {
	s.mu.Lock()
	if s.wanted == "" {
		s.wanted = why
	}
	s.mu.Unlock()
	s.wakeUp()
}

// CatchUp takes what the Change Lists have after what was received, and hands it
// on as Changes. It is for whoever pulls, and may be called while Run runs. It
// needs to know where to begin: Options.Start, or something that was received.
func (s *Subscriber) CatchUp(ctx context.Context) error {
	from, err := s.until()
	if err != nil {
		return err
	}
	if from.IsZero() {
		return errors.New("subscriber: nothing was received yet, so there is nothing to catch up from; take a baseline and give its time as Options.Start")
	}
	s.repairing.Lock()
	defer s.repairing.Unlock()
	return s.repair(ctx, &repairJob{why: GapPulled})
}

// keepComplete repairs gaps until ctx ends.
func (s *Subscriber) keepComplete(ctx context.Context) {
	rest, begun := repairFirst, time.Time{}
	lastCheck := time.Now().Add(min(firstCheck, s.o.CheckEvery) - s.o.CheckEvery)
	for {
		woken := s.wake.wait()
		job, wait, err := s.nextRepair(lastCheck)
		if err == nil && job != nil {
			if begun.IsZero() {
				begun = time.Now()
			}
			job.patient = time.Since(begun) < repairPatience
			s.repairing.Lock()
			err = s.repair(ctx, job)
			s.repairing.Unlock()
			if err == nil {
				if job.target.IsZero() {
					lastCheck = time.Now()
					s.caughtUp(job.why)
				}
				rest, begun = repairFirst, time.Time{}
				continue
			}
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.log.Warn("a gap could not be repaired; it is tried again", "event", "repair_failed", "error", err, "wait", rest)
			s.troubled(err)
			wait, woken = rest, nil
			rest = min(2*rest, repairMax)
		}
		if !pause(ctx, wait, woken) {
			return
		}
	}
}

// repairJob is what is to be repaired.
type repairJob struct {
	why string
	// target is how far; zero: as far as the lists go. beyond is the end of the
	// notification that begins at target.
	target, beyond time.Time
	// limit leaves out what happened after it and may still be pushed.
	limit   time.Time
	patient bool // lists that are behind are asked again
}

// nextRepair is what is to be repaired now; nil: nothing for a time.
func (s *Subscriber) nextRepair(lastCheck time.Time) (*repairJob, time.Duration, error) {
	var from, until, received time.Time
	var waits, begun bool
	err := s.state.view(func(tx *bbolt.Tx) (err error) {
		var t tail
		if t, err = s.tail(tx); err != nil {
			return err
		}
		begun = !t.Until.IsZero()
		from, until, received, waits, err = firstHeld(tx)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := lookAgain
	if waits {
		if wait = time.Until(received.Add(s.o.HoldFor)); wait <= 0 || s.counts.Held >= s.o.MaxHeld {
			return &repairJob{why: GapMissed, target: from, beyond: until}, 0, nil
		}
	}
	if !begun {
		s.wanted = "" // nothing was received that anything could follow
		return nil, wait, nil
	}
	if s.wanted != "" && !waits {
		return &repairJob{why: s.wanted}, 0, nil
	}
	if s.o.CheckEvery > 0 && !waits {
		check := time.Until(lastCheck.Add(s.o.CheckEvery))
		if check <= 0 {
			return &repairJob{why: GapCheck, limit: time.Now().Add(-underWay)}, 0, nil
		}
		wait = min(wait, check)
	}
	return nil, wait, nil
}

func (s *Subscriber) caughtUp(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wanted == why {
		s.wanted = ""
	}
}

// repair hands on what the Change Lists have after the tail, in order, as if it
// had been pushed, up to the target.
func (s *Subscriber) repair(ctx context.Context, job *repairJob) error {
	ctx, cancel := context.WithTimeout(ctx, 10*fetchTimeout)
	defer cancel()
	from, err := s.until()
	if err != nil {
		return err
	}
	gap := Gap{From: from, Until: job.target, Why: job.why, FoundAt: time.Now(), State: GapOpen}
	if job.why == GapMissed {
		if err := s.record(&gap); err != nil {
			return err
		}
	}
	list, archive, err := s.changeLists(ctx)
	if err != nil {
		return err
	}
	plan, err := makePlan(ctx, s.o.Client, list, archive, from)
	if errors.Is(err, errTooOld) {
		return s.giveUp(job, gap, plan, err)
	}
	if err != nil {
		return err
	}
	gap.Via, gap.Unproven = plan.root, plan.unproven
	reached := from
	for _, l := range plan.lists {
		if !job.target.IsZero() && l.from.After(job.target) {
			reached = job.target
			break
		}
		n, until, err := s.takeList(ctx, l, job)
		gap.Changes += n
		if err != nil {
			return err
		}
		if until.After(reached) {
			reached = until
		}
	}
	if !job.target.IsZero() && reached.Before(job.target) {
		if job.patient {
			return fmt.Errorf("%s: %w", plan.root, errBehind)
		}
		gap.Unproven = true // nobody has it: what there is was handed on
	}
	return s.close(job, gap)
}

// close ends a repair: the inbox is complete up to the target, and what was held
// goes on from there.
func (s *Subscriber) close(job *repairJob, gap Gap) error {
	gap.State, gap.RepairedAt = GapRepaired, time.Now()
	err := s.update(func(tx *bbolt.Tx) error {
		if !job.target.IsZero() {
			if err := s.reach(tx, tail{Until: job.target}); err != nil {
				return err
			}
		}
		if gap.Until.IsZero() {
			t, err := s.tail(tx)
			if err != nil {
				return err
			}
			gap.Until = t.Until
		}
		if gap.Changes == 0 && job.why != GapMissed || job.why == GapPulled {
			return nil // nothing was missing
		}
		return putGap(tx, &gap)
	})
	if err != nil {
		return err
	}
	if gap.Changes > 0 && job.why != GapPulled || job.why == GapMissed {
		s.log.Info("a gap was repaired from the Source's Change Lists", "event", "gap_repaired",
			"from", gap.From, "until", gap.Until, "changes", gap.Changes, "list", gap.Via, "why", gap.Why, "unproven", gap.Unproven)
	}
	s.troubled(nil)
	s.more.tell()
	return nil
}

// reach moves the tail on, where it is not further already, and takes what was
// held and now follows.
func (s *Subscriber) reach(tx *bbolt.Tx, to tail) error {
	t, err := s.tail(tx)
	if err != nil {
		return err
	}
	switch {
	case to.Until.Equal(t.Until):
		to.Edge = bounded(append(slices.Clone(t.Edge), to.Edge...))
		fallthrough
	case to.Until.After(t.Until):
		if err := putJSON(tx.Bucket(metaBucket), tailKey, to); err != nil {
			return err
		}
	}
	return s.release(tx)
}

// giveUp tells the application that an interval can't be had (DST-16).
func (s *Subscriber) giveUp(job *repairJob, gap Gap, p plan, why error) error {
	to := job.target
	if len(p.lists) > 0 && (to.IsZero() || p.lists[0].from.Before(to)) {
		to = p.lists[0].from // from where on they have it again
	}
	if to.IsZero() {
		return why
	}
	gap.Until, gap.State, gap.Via = to, GapBaseline, p.root
	err := s.update(func(tx *bbolt.Tx) error {
		if err := s.append(tx, batch{From: gap.From, Until: to, Baseline: true, Received: time.Now()}, nil); err != nil {
			return err
		}
		if err := s.reach(tx, tail{Until: to}); err != nil {
			return err
		}
		return putGap(tx, &gap)
	})
	if err != nil {
		return err
	}
	s.log.Error("a gap cannot be repaired: a new baseline is needed", "event", "baseline_needed", "from", gap.From, "until", gap.Until, "error", why)
	s.more.tell()
	return nil
}

// until is how far the inbox is complete.
func (s *Subscriber) until() (time.Time, error) {
	var t tail
	err := s.state.view(func(tx *bbolt.Tx) (err error) { t, err = s.tail(tx); return err })
	return t.Until, err
}

// hand appends changes from a list to the inbox; all up to until are among them.
func (s *Subscriber) hand(changes []resourcesync.Entry, until time.Time) error {
	return s.update(func(tx *bbolt.Tx) error {
		t, err := s.tail(tx)
		if err != nil {
			return err
		}
		b := batch{
			From: t.Until, Until: until, Received: time.Now(), Repaired: true, MediaType: "application/xml",
			After: t.Until, Skip: t.Edge,
		}
		skip := named(b.Skip)
		changes = slices.DeleteFunc(changes, func(e resourcesync.Entry) bool { return b.had(&e, skip) })
		for i := range changes {
			if e := &changes[i]; e.Datetime.Equal(until) && len(b.edge) < maxEdge {
				b.edge = append(b.edge, name(e))
			}
		}
		if len(changes) > 0 {
			payload, err := asNotification(changes, b.From, until)
			if err != nil {
				return err
			}
			if err := s.append(tx, b, payload); err != nil {
				return err
			}
		}
		return s.reach(tx, tail{Until: until, Edge: b.edge})
	})
}

// asNotification writes changes as the notification that would have brought them.
func asNotification(changes []resourcesync.Entry, from, until time.Time) ([]byte, error) {
	if until.Before(from) {
		until = from
	}
	var out bytes.Buffer
	w, err := resourcesync.NewWriter(&out, resourcesync.Head{Capability: resourcesync.ChangeNotification, From: from, Until: until}, resourcesync.WriteOptions{})
	if err != nil {
		return nil, err
	}
	for _, e := range changes {
		err := w.Write(e)
		var broken *resourcesync.Error
		if errors.As(err, &broken) {
			// What is beyond the rules of today is left out, and the change kept.
			err = w.Write(resourcesync.Entry{Loc: e.Loc, Change: e.Change, Datetime: e.Datetime, LastMod: e.LastMod})
		}
		if err != nil {
			return nil, fmt.Errorf("a change of %s: %w", e.Loc, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func named(edge []string) map[string]bool {
	out := make(map[string]bool, len(edge))
	for _, n := range edge {
		out[n] = true
	}
	return out
}
