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
	storeSome = 4096 // results that are stored together, at the latest after storeIn
	storeIn   = 500 * time.Millisecond
)

// result is what became of a resource.
type result struct {
	desired
	what    string
	touched bool // Unchanged, and yet the record is another
	apart   bool // Unchanged, and a failure to have it is none the less
	file    file
	err     error
	took    time.Duration
}

// run carries out what is wanted: each host has its own workers, and one goroutine
// stores what became of it.
type run struct {
	reconciler *reconciler
	tally      *tally
	what       string
	total      int
	began      time.Time
	done       int
	bytes      int64
	failed     int
	results    chan result
	stop       context.CancelCauseFunc
}

// carryOut fetches, or deletes, what is wanted, and stores what became of each. It
// returns when all is stored; an error is that of the state or of the disk, or says
// that ctx ended.
func (r *reconciler) carryOut(ctx context.Context, t *tally, what string, total int, wants iter.Seq[desired]) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	one := &run{reconciler: r, tally: t, what: what, total: total, began: time.Now(), results: make(chan result, storeSome), stop: cancel}
	stored := make(chan struct{})
	go func() {
		defer close(stored)
		one.record()
	}()
	var workers sync.WaitGroup
	queues := map[string]chan desired{}
	for w := range wants {
		host := r.fetcher.web.queueOf(w.url)
		q := queues[host]
		if q == nil {
			q = make(chan desired, queued)
			queues[host] = q
			for range r.o.Parallel {
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
	<-stored
	return context.Cause(ctx)
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
	case ctx.Err() != nil && res.err != nil: // cut off: that was no failure
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

// fatal reports whether an error is one of the disk, and no resource's: then nothing
// else will do better.
func fatal(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EIO)
}

// record stores results until there are no more.
func (r *run) record() {
	timer := time.NewTimer(storeIn)
	defer timer.Stop()
	var batch []result
	flush := func() {
		if err := r.store(batch); err != nil {
			r.stop(err) // nothing is fetched that can't be recorded
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

// store makes results durable, and tells of them.
func (r *run) store(batch []result) error {
	c, d := r.reconciler, newRecords()
	defer func() {
		for i := range batch {
			c.claims.release(batch[i].url)
			if batch[i].file.Path != "" {
				c.tree.release(batch[i].file.Path)
			}
		}
	}()
	for i := range batch { // each of another URL, as they are claimed
		res := &batch[i]
		if res.unlisted && res.change.Removes() && res.what != Failed {
			d.pushed[res.url] = deletion{res.set, res.changedAt}
		}
		switch res.what {
		case Copied:
			d.files[res.url] = res.file
		case Deleted:
			d.gone[res.url] = res.file.Path
			d.deleted++
		case Failed:
			d.failed[res.url] = res.failure(res.err)
		case Unchanged:
			if _, failed := c.state.failure(res.url); res.touched {
				d.files[res.url] = res.file
			} else if failed && !res.apart {
				d.well[res.url] = true
			}
		}
		if s := res.membershipChange(); s != nil && (res.what != Unchanged || c.state.changesMembership(res.url, s)) {
			d.says[res.url] = *s
		}
	}
	if d.len() > 0 && !c.o.DryRun {
		if err := c.state.store(d, c.tree.fold, time.Now()); err != nil {
			return err
		}
	}
	for i := range batch {
		res := &batch[i]
		r.done++
		switch res.what {
		case Copied:
			r.bytes += res.file.Length
		case Failed:
			r.failed++
		}
		e := res.event()
		r.tally.event(e)
		if e.What != Unchanged {
			c.o.Event(e)
		}
	}
	return nil
}

func (r *run) progress(finished bool) {
	r.reconciler.o.Progress(Progress{
		What: r.what, Done: r.done, Total: r.total, Failed: r.failed, Bytes: r.bytes, Began: r.began, Finished: finished, CurrentlyFor: r.reconciler.o.Source,
	})
}

func (res *result) event() Event {
	return Event{
		What: res.what, URL: res.url, Path: res.file.Path, Bytes: res.file.Length, Hash: res.file.Hash,
		Change: res.change, ChangedAt: res.changedAt, NotificationID: res.notificationID, Took: res.took, Err: res.err,
	}
}
