package destination

import (
	"context"
	"errors"
	"iter"
	"net/url"
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
	want
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
	c       *Copy
	tally   *tally
	what    string
	total   int
	began   time.Time
	done    int
	bytes   int64
	failed  int
	results chan result
	stop    context.CancelCauseFunc
}

// carryOut fetches, or deletes, what is wanted, and stores what became of each. It
// returns when all is stored; an error is that of the state or of the disk, or says
// that ctx ended.
func (c *Copy) carryOut(ctx context.Context, t *tally, what string, total int, wants iter.Seq[want]) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &run{c: c, tally: t, what: what, total: total, began: time.Now(), results: make(chan result, storeSome), stop: cancel}
	stored := make(chan struct{})
	go func() {
		defer close(stored)
		r.record()
	}()
	var workers sync.WaitGroup
	queues := map[string]chan want{}
	for w := range wants {
		host := c.hostOf(w.url)
		q := queues[host]
		if q == nil {
			q = make(chan want, queued)
			queues[host] = q
			for range c.o.Parallel {
				workers.Go(func() {
					for w := range q {
						r.work(ctx, w)
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
	close(r.results)
	<-stored
	return context.Cause(ctx)
}

// hostOf is the queue of a URL: that of its host, or of all that are not called.
func (c *Copy) hostOf(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	h, err := c.web.host(u)
	if err != nil {
		return ""
	}
	return h.name
}

// work does what is wanted of one resource.
func (r *run) work(ctx context.Context, w want) {
	if ctx.Err() != nil || !r.c.claims.take(ctx, w.url) {
		return
	}
	begun := time.Now()
	res, ok := r.c.handle(ctx, w)
	switch {
	case fatal(res.err):
		r.stop(res.err)
		ok = false
	case ctx.Err() != nil && res.err != nil: // cut off: that was no failure
		ok = false
	}
	if !ok {
		r.c.claims.give(w.url)
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

// handle does what is wanted of one resource, which is claimed. False: it is not
// wanted any more.
func (c *Copy) handle(ctx context.Context, w want) (res result, ok bool) {
	res = result{want: w, what: Unchanged}
	if w.again {
		f, failed := c.state.failure(w.url)
		if !failed || f.Change != w.change || !f.ChangedAt.Equal(w.changedAt) {
			return res, false
		}
	}
	if w.mark {
		res.apart = true
	} else if w.change.Removes() {
		if c.state.othersList(w.url, w.leaving()) {
			f, _ := c.state.failure(w.url)
			res.apart = !f.Change.Removes()
		} else if c.isThere(w.url) {
			res.what = Deleted
			if !c.o.DryRun {
				res.file, res.err = c.remove(w)
			}
		}
	} else if have, there := c.has(w); there {
		res.file = have
		res.touched = c.refresh(&res.file, w)
	} else {
		res.what = Copied
		if c.o.DryRun {
			res.file.Length = max(0, w.length)
		} else {
			before := c.recorded(w)
			res.file, res.err = c.fetch(ctx, w)
			res.file.ChangedAt = w.changedAt
			if res.err == nil && before != "" && res.file.Hash == before {
				res.what, res.touched = Unchanged, true
			}
		}
	}
	if res.err != nil {
		res.what = Failed
	}
	return res, true
}

// refresh brings what is remembered of a file up to date, where the Source tells
// another time of the same bytes, or has the resource in another set.
func (c *Copy) refresh(f *file, w want) (touched bool) {
	if c.o.DryRun {
		return false
	}
	if !w.lastMod.IsZero() && !w.lastMod.Equal(f.LastMod) {
		c.setTime(f.Path, w.lastMod)
		f.LastMod, touched = w.lastMod, true
	}
	if f.Set != w.set && !c.isSet(f.Set) {
		f.Set, touched = w.set, true
	}
	if f.Set == w.set && w.changedAt.After(f.ChangedAt) {
		f.ChangedAt, touched = w.changedAt, true
	}
	return touched
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
	c, d := r.c, newSettled()
	defer func() {
		for i := range batch {
			c.claims.give(batch[i].url)
			if batch[i].file.Path != "" {
				c.release(batch[i].file.Path)
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
		if s := res.says(); s != nil && (res.what != Unchanged || c.isNews(res.url, s)) {
			d.says[res.url] = *s
		}
	}
	if d.len() > 0 && !c.o.DryRun {
		if err := c.state.store(d, c.fold, time.Now()); err != nil {
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
	r.c.o.Progress(Progress{
		What: r.what, Done: r.done, Total: r.total, Failed: r.failed, Bytes: r.bytes, Began: r.began, Finished: finished, CurrentlyFor: r.c.o.Source,
	})
}

func (res *result) event() Event {
	return Event{
		What: res.what, URL: res.url, Path: res.file.Path, Bytes: res.file.Length, Hash: res.file.Hash,
		Change: res.change, ChangedAt: res.changedAt, NotificationID: res.notificationID, Took: res.took, Err: res.err,
	}
}
