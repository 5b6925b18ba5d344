package destination

import (
	"context"
	"errors"
	"iter"
	"sync"
	"syscall"
	"time"
)

const (
	queued    = 1024 // resources that wait for one host
	storeSome = 4096 // results that are stored together, after storeIn at the latest
	storeIn   = 500 * time.Millisecond
)

// result is what was done about a resource.
type result struct {
	desired
	what    string
	touched bool     // Unchanged, except for its record
	apart   bool     // Unchanged, and its failure stays
	next    *failure // Unchanged, and this is to be tried
	file    file
	err     error
	took    time.Duration
}

// run carries out what is wanted: each host has its own workers, and one goroutine
// stores the results.
type run struct {
	Progress
	reconciler *reconciler
	tally      *tally
	results    chan result
	stop       context.CancelCauseFunc
}

// carryOut fetches, or deletes, what is wanted, and stores the results. It returns when all
// is stored. An error is that of the state, of the disk or of wants, or says that ctx ended.
func (r *reconciler) carryOut(ctx context.Context, t *tally, what string, total int, wants iter.Seq2[desired, error]) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	few := func(most int) int { // a push of one change needs no room for thousands
		if total == 0 {
			return most // nobody knows
		}
		return min(most, total)
	}
	one := &run{reconciler: r, tally: t, results: make(chan result, few(storeSome)), stop: cancel}
	one.Progress = Progress{What: what, Total: total, Began: time.Now(), CurrentlyFor: r.o.Source}
	var recorder, workers sync.WaitGroup
	recorder.Go(func() { one.record(ctx) })
	queues := map[string]chan desired{}
	var failed error
	for w, err := range wants {
		if err != nil {
			failed = err
			break
		}
		host := r.fetcher.web.queueOf(w.url)
		q := queues[host]
		if q == nil {
			q = make(chan desired, few(queued))
			queues[host] = q
			for range few(r.o.Parallel) {
				workers.Go(func() {
					for w := range q {
						one.work(ctx, w)
					}
				})
			}
		}
		select {
		case q <- w:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
	}
	for _, q := range queues {
		close(q)
	}
	workers.Wait()
	close(one.results)
	recorder.Wait()
	return errors.Join(context.Cause(ctx), failed)
}

// each yields resources without an error.
func each(wants []desired) iter.Seq2[desired, error] {
	return func(yield func(desired, error) bool) {
		for _, w := range wants {
			if !yield(w, nil) {
				return
			}
		}
	}
}

// work does what is wanted of one resource.
func (r *run) work(ctx context.Context, w desired) {
	if ctx.Err() != nil || !r.reconciler.claims.acquire(ctx, w.url) {
		return
	}
	begun := time.Now()
	res, ok := r.reconciler.reconcileOne(ctx, w)
	switch {
	case fatal(res.err):
		r.stop(res.err)
		ok = false
	case ctx.Err() != nil && res.err != nil: // interrupted: that is no failure
		ok = false
	}
	if !ok {
		r.reconciler.claims.release(w.url)
		return
	}
	res.took = time.Since(begun)
	res.open = nil
	r.results <- res
}

// fatal reports whether an error is one of the disk and not of a resource. Other resources
// would fail as well.
func fatal(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EIO)
}

// record stores results until there are no more.
func (r *run) record(ctx context.Context) {
	timer := time.NewTimer(storeIn)
	defer timer.Stop()
	var batch []result
	flush := func() {
		if err := r.store(ctx, batch); err != nil {
			r.stop(diskFull(err, r.reconciler.o.StateDir)) // fetch nothing that cannot be recorded
		}
		batch = batch[:0]
		r.progress(false)
	}
	for {
		select {
		case res, more := <-r.results:
			if !more {
				flush()
				r.progress(true)
				return
			}
			if batch = append(batch, res); len(batch) >= storeSome {
				flush()
			}
		case <-timer.C:
			timer.Reset(storeIn)
			flush()
		}
	}
}

// store makes results durable, and reports them.
func (r *run) store(ctx context.Context, batch []result) error {
	c, d := r.reconciler, records{}
	defer func() {
		for i := range batch {
			c.claims.release(batch[i].url)
			if batch[i].file.Path != "" {
				c.tree.release(batch[i].file.Path)
			}
		}
	}()
	for i := range batch { // each of another URL, as they are claimed
		if rec := c.recordOf(&batch[i]); rec != (record{}) {
			d[batch[i].url] = rec
		}
	}
	if len(d) > 0 && !c.o.DryRun {
		if err := c.handover.add(ctx, c.handed(batch)); err != nil {
			return err
		}
		if err := c.state.store(d, c.tree.fold, time.Now()); err != nil {
			return err
		}
	}
	for i := range batch {
		e := batch[i].event()
		r.Done++
		switch e.What {
		case Copied:
			r.Bytes += e.Bytes
		case Failed:
			r.Failed++
		}
		c.report(r.tally, e)
	}
	return nil
}

// recordOf returns what is to be stored of a result.
func (r *reconciler) recordOf(res *result) (rec record) {
	switch res.what {
	case Copied:
		rec.file = &res.file
	case Deleted:
		rec.gone = true
	case Failed, HeldBack:
		if !res.once {
			rec.failed = res.failure(res.err)
		}
	case Unchanged:
		if _, failed := r.state.failure(res.url); res.touched {
			rec.file = &res.file
		} else {
			rec.well = failed && !res.apart
		}
		rec.failed = res.next
	}
	if res.unlisted && res.change.Removes() && res.err == nil {
		rec.pushed = &deletion{res.set, res.changedAt}
	}
	if s := res.membershipChange(); s != nil && (res.what != Unchanged || r.state.changesMembership(res.url, s)) {
		rec.says = s
	}
	return rec
}

// report counts an event, and passes it on unless nothing changed.
func (r *reconciler) report(t *tally, e Event) {
	r.done.Add(1)
	t.event(e)
	if e.What != Unchanged {
		r.o.Event(e)
	}
}

// progress reports how far the run is, unless there is nothing to do.
func (r *run) progress(finished bool) {
	if r.Finished = finished; r.Done+r.Total > 0 {
		r.reconciler.o.Progress(r.Progress)
	}
}

func (res *result) event() Event {
	return Event{
		What: res.what, URL: res.url, Path: res.file.Path, Bytes: res.file.Length, Hash: res.file.Hash,
		Change: res.change, ChangedAt: res.changedAt, NotificationID: res.notificationID, Took: res.took, Instead: res.file.Instead, Patched: res.file.patched, Err: res.err,
	}
}
