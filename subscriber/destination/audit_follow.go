package destination

import (
	"context"
	"sync"
	"time"

	"github.com/rshub/rshub/internal/base/clock"
)

// auditLook is how often an audit that is due asks whether it may begin.
const auditLook = time.Second

// lookOnceMore is when an audit checks its findings for the last time before a repair, after
// lookAgain: by then the lists of the Source have what was pushed.
const lookOnceMore = time.Minute

// auditor audits a copy again and again while it is followed, but never beside a sync.
type auditor struct {
	every time.Duration
	ready func() error          // nil: there is a copy to audit
	last  func() time.Time      // when an audit ended last; zero: never
	audit func(context.Context) // remembers that it ended

	mu       sync.Mutex
	syncs    int           // that run
	auditing chan struct{} // closed when the audit ends; nil: none runs
}

// run audits until ctx ends. The time since the last audit counts over restarts.
func (a *auditor) run(ctx context.Context) {
	from := a.last()
	if from.IsZero() {
		from = time.Now()
	}
	for clock.Sleep(ctx, min(time.Until(from.Add(a.every)), a.every)) { // the clock may have been set back since
		for a.ready() != nil || !a.begin() {
			if !clock.Sleep(ctx, auditLook) {
				return
			}
		}
		a.audit(ctx)
		a.end()
		from = time.Now()
	}
}

// begin begins an audit, unless a sync or another audit runs.
func (a *auditor) begin() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.syncs > 0 || a.auditing != nil {
		return false
	}
	a.auditing = make(chan struct{})
	return true
}

func (a *auditor) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.auditing)
	a.auditing = nil
}

// sync runs a sync when no audit runs, or when ctx has ended.
func (a *auditor) sync(ctx context.Context, do func()) {
	for {
		a.mu.Lock()
		wait := a.auditing
		if wait == nil || ctx.Err() != nil {
			a.syncs++
			a.mu.Unlock()
			break
		}
		a.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
		}
	}
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.syncs--
	}()
	do()
}

// auditFollowed audits and repairs the copy while changes are carried out, and reports the result.
func (c *Copy) auditFollowed(ctx context.Context) {
	end, err := c.o.turn(ctx, c.audited.Load)
	if err != nil {
		return
	}
	r, err := c.auditAndRepair(ctx)
	end()
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		err = c.state.update(func(w *writer) { numbersTable.put(w, auditedKey, time.Now().Unix()) })
	}
	c.o.Audited(r, err)
	fields := []any{"equal", r.Equal, "missing", r.Missing, "differing", r.Differing, "extra", r.Extra, "unverifiable", r.Unverifiable, "took", r.Took}
	if p := r.Repaired; p != nil {
		fields = append(fields, "found_missing", r.Found.Missing, "found_differing", r.Found.Differing, "found_extra", r.Found.Extra, "copied", p.Copied, "deleted", p.Deleted, "failed", p.Failed, "held", p.Held)
	}
	for _, set := range r.Sets {
		if set.Unknown != "" {
			fields = append(fields, "unknown", set.Unknown)
		}
	}
	log := c.log.With(fields...)
	switch {
	case err != nil:
		c.log.Warn("the copy could not be audited; it is audited again later", "event", "audit_failed", "error", err)
	case !r.InSync:
		log.Warn("the audit found that the copy is not in sync, and could not repair it", "event", "audit_done")
	case r.Repaired != nil:
		log.Warn("the audit found that the copy was not in sync, and repaired it", "event", "audit_done")
	default:
		log.Info("the audit found the copy in sync", "event", "audit_done")
	}
}

// lastAudit returns when auditFollowed ended last.
func (c *Copy) lastAudit() time.Time {
	if at, ok := numbersTable.read(c.state, auditedKey); ok {
		return time.Unix(at, 0)
	}
	return time.Time{}
}

// auditAndRepair audits the copy, repairs findings that stay, and looks whether that helped.
func (c *Copy) auditAndRepair(ctx context.Context) (AuditReport, error) {
	a, err := c.audit(ctx, true, nil)
	if err != nil {
		return AuditReport{}, err
	}
	nothing := func() error { return nil }
	last, err := a.recheck(ctx, c.o.looks, nothing)
	if err != nil || a.report.InSync {
		return a.report, err
	}
	a.report.Found = a.report.wrong()
	for i := range last.lacking {
		last.lacking[i].once = true
	}
	t := newTally(c.o.Source)
	if err := c.reconciler.repair(ctx, last, t); err != nil {
		return a.report, err
	}
	repaired := t.report()
	again, err := c.audit(ctx, false, a.problems)
	if err == nil {
		a.amend(again)
	}
	a.report.Repaired = &repaired
	return a.report, err
}

// recheck checks the findings again after some waits, and keeps those that stay. It returns the
// last check. Renew is called before each.
func (a *audit) recheck(ctx context.Context, waits []time.Duration, renew func() error) (*audit, error) {
	last := a
	for _, wait := range waits {
		if a.report.InSync {
			break
		}
		if !clock.Sleep(ctx, wait) {
			return last, ctx.Err()
		}
		if err := renew(); err != nil {
			return last, err
		}
		again, err := a.c.audit(ctx, a.repair, a.problems)
		if err != nil {
			return last, err
		}
		a.amend(again)
		last = again
	}
	return last, nil
}
