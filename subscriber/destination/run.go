package destination

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"path"
	"sync"
	"time"

	"github.com/rshub/rshub/internal/egress"
	"github.com/rshub/rshub/resourcesync"
)

const (
	queued    = 4096 // resources that wait for one host
	storeSome = 256  // results that are stored together, at the latest after storeIn
	storeIn   = 200 * time.Millisecond
)

// result is what became of a resource.
type result struct {
	want
	what string
	file file
	err  error
	took time.Duration
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
}

// carryOut fetches, or deletes, what is wanted, and stores what became of each. It
// returns when all is stored; an error is that of the state, or says that ctx
// ended.
func (c *Copy) carryOut(ctx context.Context, t *tally, what string, total int, wants iter.Seq[want]) error {
	r := &run{c: c, tally: t, what: what, total: total, began: time.Now(), results: make(chan result, storeSome)}
	stored := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		err := r.record()
		if err != nil {
			cancel() // nothing is fetched that can't be recorded
		}
		stored <- err
	}()
	var workers sync.WaitGroup
	queues := map[string]chan want{}
	for w := range wants {
		host := egress.HostPortOf(w.url)
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
	ended := ctx.Err()
	close(r.results)
	return errors.Join(<-stored, ended)
}

// work does what is wanted of one resource.
func (r *run) work(ctx context.Context, w want) {
	if ctx.Err() != nil {
		return
	}
	mu := &r.c.busy[keyOf(w.url)[0]]
	mu.Lock() // a resource is worked on by one at a time
	defer mu.Unlock()
	begun := time.Now()
	res := result{want: w, what: Copied}
	if w.change == resourcesync.Deleted {
		res.what = Deleted
		res.file, res.err = r.c.remove(w)
	} else {
		res.file, res.err = r.c.fetch(ctx, w)
	}
	res.file.ChangedAt = w.changedAt
	if ctx.Err() != nil && res.err != nil {
		return // cut off: that was no failure
	}
	if res.err != nil {
		res.what = Failed
	}
	res.took = time.Since(begun)
	r.results <- res
}

// remove deletes the file of a resource, and the folders that it leaves empty.
func (c *Copy) remove(w want) (file, error) {
	f, known, err := c.state.file(w.url)
	if err != nil {
		return f, err
	}
	if !known { // fetched and not recorded before a crash, perhaps
		if f.Path, err = c.wish(w.url); err != nil {
			return f, nil //nolint:nilerr // what has no place is not there
		}
		if owner := c.state.owner(c.fold(f.Path)); owner != "" {
			return file{}, nil
		}
	}
	if err := c.root.Remove(f.Path); err != nil && !errors.Is(err, fs.ErrNotExist) && !notThere(c, f.Path) {
		return f, err
	}
	for dir := path.Dir(f.Path); dir != "."; dir = path.Dir(dir) {
		if c.root.Remove(dir) != nil {
			break // it is not empty
		}
	}
	return f, nil
}

// notThere reports whether there is no file at a path, for instance as one of the
// folders above is a file.
func notThere(c *Copy, p string) bool {
	info, err := c.root.Lstat(p)
	return err != nil || info.IsDir()
}

// record stores results until there are no more.
func (r *run) record() error {
	timer := time.NewTimer(storeIn)
	defer timer.Stop()
	batch := newSettled()
	var events []Event
	flush := func() error {
		if err := r.c.state.store(batch, time.Now()); err != nil {
			return err
		}
		r.c.settled(batch)
		for _, e := range events {
			r.tally.event(e)
			r.c.o.Event(e)
		}
		batch, events = newSettled(), nil
		r.progress(false)
		return nil
	}
	var failed error
	for {
		select {
		case res, more := <-r.results:
			if !more {
				if failed == nil {
					failed = flush()
				}
				r.progress(true)
				return failed
			}
			if failed != nil {
				continue // so that no worker waits for ever
			}
			r.add(batch, res)
			events = append(events, res.event())
			if batch.len() >= storeSome {
				failed = flush()
			}
		case <-timer.C:
			timer.Reset(storeIn)
			if failed == nil {
				failed = flush()
			}
		}
	}
}

// add adds a result to what is stored next.
func (r *run) add(batch *settled, res result) {
	r.done++
	url := res.url
	delete(batch.files, url)
	delete(batch.gone, url)
	delete(batch.failed, url)
	switch res.what {
	case Copied:
		r.bytes += res.file.Length
		batch.files[url], batch.keys[url] = res.file, r.c.fold(res.file.Path)
	case Deleted:
		batch.gone[url] = r.c.fold(res.file.Path)
		batch.deleted++
	default:
		r.failed++
		batch.failed[url] = res.failure()
	}
}

// settled lets go of paths that are recorded now.
func (c *Copy) settled(batch *settled) {
	c.placing.Lock()
	defer c.placing.Unlock()
	for _, key := range batch.keys {
		delete(c.placed, key)
	}
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

// Pauses between the tries of a resource that could not be had, while following.
const (
	againFirst = 2 * time.Second
	againMax   = time.Hour
)

// failure is what is remembered of a resource that could not be had.
func (res *result) failure() failure {
	wait := againFirst << min(res.tries, 12)
	return failure{
		Set: res.set, Change: res.change, Length: res.length, Hash: res.digests.String(), LastMod: res.lastMod, Links: res.mirrors,
		Why: res.err.Error(), Tries: res.tries + 1, NextAt: time.Now().Add(min(wait, againMax)), ChangedAt: res.changedAt,
	}
}

// again is what is wanted of a resource that could not be had.
func (f *failure) again(url string) want {
	return want{
		url: url, set: f.Set, length: f.Length, digests: resourcesync.ParseHashes(f.Hash), lastMod: f.LastMod, mirrors: f.Links,
		change: f.Change, changedAt: f.ChangedAt, tries: f.Tries,
	}
}
