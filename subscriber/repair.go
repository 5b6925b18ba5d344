package subscriber

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/internal/base/clock"
)

var (
	// errBehind says that the Change Lists do not reach as far as the hub yet.
	errBehind = errors.New("the Change List does not have it yet")
	// errNoList says that the Source offers no Change List.
	errNoList = errors.New("the Source offers no Change List for the topic")
	// errFull says that the application has to commit something first.
	errFull = errors.New("there is no room for more before the application has committed some of what waits")
)

// ErrTooOld is wrapped where no Change List reaches back far enough.
var ErrTooOld = errors.New("no Change List reaches back that far")

// tooOldError says that no list reaches back far enough.
type tooOldError struct {
	list string
	from time.Time // since when there is everything
}

func (e *tooOldError) Error() string {
	return fmt.Sprintf("%v: %s has everything since %s only", ErrTooOld, e.list, e.from.UTC().Format(time.RFC3339Nano))
}

// Unwrap returns ErrTooOld.
func (e *tooOldError) Unwrap() error { return ErrTooOld }

// repairer fills gaps from what the hub keeps, and from the Source's Change Lists.
type repairer struct {
	o        *Options
	log      *slog.Logger
	large    func(list string, entries int)  // warns of a list, once
	later    func(list string, at time.Time) // warns of changes that are far in the future, once of each list
	inbox    *inbox
	renewal  *renewal
	troubles *troubles

	running sync.Mutex             // one repair at a time
	wanted  atomic.Pointer[string] // why a check of the Change Lists is requested; nil: none is
	polls   atomic.Bool            // the Change List is read every PollEvery
}

// poll says whether the Change List is to be read every PollEvery, beginning now. It reports
// whether that is new.
func (r *repairer) poll(on bool) bool {
	changed := r.polls.Swap(on) != on
	switch {
	case changed && on:
		r.catchUp(GapPolled)
	case changed:
		r.troubles.set(repairing, nil) // it is set again, if it is not about polling
	}
	return changed
}

// catchUp requests a check of the Change Lists for what was not pushed.
func (r *repairer) catchUp(why string) {
	r.wanted.CompareAndSwap(nil, &why)
	r.inbox.wake.Broadcast()
}

// CatchUp reads what the Change Lists have after what was received, and hands it on as
// Changes. It is for programs that pull, and may be called while Run runs. It needs a
// place to begin: Options.Start, or something that was received.
func (s *Subscriber) CatchUp(ctx context.Context) error {
	from, err := s.inbox.until()
	if err != nil {
		return err
	}
	if from.IsZero() {
		return errors.New("subscriber: nothing was received yet, so there is nothing to catch up from; make a baseline and set Options.Start to its time")
	}
	return s.repairer.repair(ctx, &repairJob{why: GapPulled, limit: time.Now().Add(ahead)})
}

// keepComplete repairs gaps until ctx ends.
func (r *repairer) keepComplete(ctx context.Context) {
	rest := repairFirst
	lastCheck := time.Now()
	if r.o.CheckEvery > 0 {
		r.catchUp(GapStart) // notifications may have been pushed while it did not run
	}
	for {
		woken := r.inbox.wake.Wait()
		job, wait, err := r.next(lastCheck)
		if err == nil && job != nil {
			r.wanted.CompareAndSwap(job.wanted, nil) // before it reads, since what is requested from here on may come after that
			if err = r.repair(ctx, job); err == nil {
				if job.target.IsZero() {
					lastCheck = time.Now()
				}
				rest = repairFirst
				continue
			}
			if job.wanted != nil {
				r.wanted.CompareAndSwap(nil, job.wanted)
			}
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			r.log.Warn("a gap could not be repaired; it is tried again", "event", "repair_failed", "error", err, "wait", rest)
			r.troubles.set(repairing, err)
			wait, woken = rest, nil
			rest = min(2*rest, repairMax)
		}
		if !clock.Wait(ctx, wait, woken) {
			return
		}
	}
}

// repairJob is a repair: why and how far.
type repairJob struct {
	why string
	// target is where it ends; zero: where the lists end. beyond is the end of the
	// notification that begins at target.
	target, beyond time.Time
	// limit leaves out later changes.
	limit  time.Time
	wanted *string // the request for this job; nil: nobody requested it
	hub    bool    // the hub is asked, and not the Source
}

// next returns the next repair; nil: there is none for the time that it returns.
func (r *repairer) next(lastCheck time.Time) (*repairJob, time.Duration, error) {
	var first batch
	var waits bool
	var gaps []Gap
	wanted := r.wanted.Load() // first: what is requested later may be about a beginning that is not read here
	until, err := boltfile.Read(r.inbox.db, func(tx *boltfile.Tx) time.Time {
		gaps = readGaps(tx)
		first, waits = firstRetained(tx)
		return r.inbox.tail(tx).Until
	})
	if err != nil {
		return nil, 0, err
	}
	if slices.ContainsFunc(gaps, func(g Gap) bool { return g.isClosedBy(until) }) {
		return nil, 0, r.closeFilled()
	}
	begun, now := !until.IsZero(), time.Now()
	if waits {
		hold := r.o.HoldFor
		if !begun {
			hold = min(hold, beginAfter)
		}
		wait := min(first.Received.Add(hold).Sub(now), hold)
		switch {
		case wait > 0 && r.inbox.counted().Held < r.o.MaxHeld:
			return nil, wait, nil
		case !begun:
			return nil, 0, r.inbox.begin(first.From)
		}
		return &repairJob{why: GapMissed, target: first.From, beyond: first.Until, limit: now.Add(ahead)}, 0, nil
	}
	check, poll := lastCheck.Add(r.o.CheckEvery).Sub(now), lastCheck.Add(r.o.PollEvery).Sub(now)
	polls := r.polls.Load()
	switch {
	case !begun && !polls: // nothing was received that anything could follow
		r.wanted.CompareAndSwap(wanted, nil)
	case wanted != nil:
		return &repairJob{why: *wanted, limit: now.Add(ahead), wanted: wanted}, 0, nil
	case polls && poll <= 0:
		return &repairJob{why: GapPolled, limit: now.Add(ahead)}, 0, nil
	case polls:
		return nil, min(poll, lookAgain), nil
	case r.o.CheckEvery > 0 && check <= 0:
		return &repairJob{why: GapCheck, limit: now.Add(-underWay)}, 0, nil
	case r.o.CheckEvery > 0:
		return nil, min(check, lookAgain), nil
	}
	return nil, lookAgain, nil
}

// repair hands on what the Change Lists have after the tail, in order, as if it
// had been pushed, up to the target.
func (r *repairer) repair(ctx context.Context, job *repairJob) error {
	r.running.Lock()
	defer r.running.Unlock()
	from, err := r.inbox.until()
	if err != nil {
		return err
	}
	if from.IsZero() {
		return r.beginPolling(ctx, job.why)
	}
	gap := Gap{From: from, Until: job.target, Why: job.why, FoundAt: time.Now(), State: GapOpen}
	missed := job.why == GapMissed
	if missed {
		if err := r.record(&gap); err != nil {
			return err
		}
	}
	before := gap.Changes
	err = r.fill(ctx, job, &gap)
	var old *tooOldError
	age := time.Since(gap.FoundAt)
	switch {
	case err == nil:
		return r.closeGap(job, gap)
	case ctx.Err() != nil:
	case errors.As(err, &old):
		return r.giveUp(job, gap, old.from, err)
	case errors.Is(err, errNoList) && !missed && job.why != GapPulled:
		r.look(err, job.why)
		return nil // there is nothing to ask; the next notification shows whether anything is missing
	case missed && (errors.Is(err, errNoList) || errors.Is(err, errBehind) && age > repairPatience || !errors.Is(err, errFull) && age > repairGiveUp):
		return r.giveUp(job, gap, job.target, err)
	}
	if missed && gap.Changes > before {
		err = errors.Join(err, r.record(&gap))
	}
	return err
}

// beginPolling begins with the changes from now on, if there is a Change List: nothing was
// received that they could follow.
func (r *repairer) beginPolling(ctx context.Context, why string) error {
	_, _, err := r.changeLists(ctx)
	switch {
	case err == nil:
		return r.inbox.begin(time.Now())
	case !errors.Is(err, errNoList):
		return err
	}
	r.look(err, why)
	return nil
}

// look has the application look for what was not pushed, as there is no Change List. If it cannot,
// and nothing is pushed, then nothing comes, which is a trouble.
func (r *repairer) look(err error, why string) {
	switch {
	case r.o.Look != nil:
		r.o.Look()
	case why == GapPolled:
		r.troubles.set(repairing, err)
	}
}

// fill hands on what there is for a gap: what the hub keeps, where that is enough, and else what
// the Change Lists of the Source have. The answer of the hub begins at the gap, so it is the
// shorter one. Only the Source knows of changes that its hub never got, so a check of what was
// not pushed asks the Source.
func (r *repairer) fill(ctx context.Context, job *repairJob, gap *Gap) error {
	ctx, cancel := context.WithTimeout(ctx, 10*fetchTimeout)
	defer cancel()
	if job.why == GapMissed || job.why == GapLease {
		err := r.fillFromHub(ctx, job, gap)
		if err == nil || ctx.Err() != nil || errors.Is(err, errFull) {
			return err
		}
		r.log.Debug("the hub does not have what is missing, so the Change Lists are read", "event", "hub_lacks", "error", err)
	}
	list, archive, err := r.changeLists(ctx)
	if err != nil {
		return err
	}
	return r.fillFrom(ctx, r.o.Client, list, archive, job, gap)
}

// fillFrom hands on what lists have for a gap.
func (r *repairer) fillFrom(ctx context.Context, client Doer, list, archive string, job *repairJob, gap *Gap) error {
	from, err := r.inbox.until()
	if err != nil {
		return err
	}
	plan, err := makePlan(ctx, client, list, archive, from)
	gap.Via, gap.Unproven = plan.root, plan.unproven
	if err != nil {
		return err
	}
	reached := from
	for _, l := range plan.lists {
		if !job.target.IsZero() && l.from.After(job.target) {
			reached = job.target
			break
		}
		n, until, err := r.readList(ctx, client, l, job)
		gap.Changes += n
		if err != nil {
			return err
		}
		reached = clock.Later(reached, until)
	}
	if reached.Before(job.target) {
		return fmt.Errorf("%s: %w", plan.root, errBehind)
	}
	if job.hub {
		return nil
	}
	return r.inbox.forget(plan.lists)
}
