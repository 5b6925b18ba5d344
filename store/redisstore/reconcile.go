package redisstore

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rshub/rshub/journal"
)

// reconciler finds what Redis lost, and makes sure that all hubs agree on it before
// anything is appended.
type reconciler struct {
	conn      *conn
	heads     *heads
	reader    *reader
	watcher   *watcher
	histories *histories
	hubs      *hubs
	isNew     bool // this hub made the store
	// lease, reached and lost are those of Options.
	lease   time.Duration
	reached func(partitions []int) (of []journal.Reached, ready bool)
	lost    func(Loss)
}

// run keeps all partitions reconciled until ctx ends. Nothing else compares.
func (r *reconciler) run(ctx context.Context) {
	tick := time.NewTicker(sameEvery)
	defer tick.Stop()
	for {
		r.reconcile(ctx)
		r.histories.pass()
		again := make(<-chan time.Time)
		if r.histories.unreconciled() > 0 {
			again = time.After(reconcileEvery)
		}
		select {
		case <-ctx.Done():
			return
		case <-r.histories.poke:
		case <-again:
		case <-tick.C:
			r.noticeHistories(ctx)
		}
	}
}

// reconcile reconciles the partitions that are not reconciled yet, as far as it can now.
// run tries again what could not be read.
func (r *reconciler) reconcile(ctx context.Context) {
	var due []int
	for n := range r.histories.of {
		h := &r.histories.of[n]
		if h.suspect.Swap(false) {
			h.compared = pair{}
			h.current.Store(nil)
		}
		if h.current.Load() == nil {
			due = append(due, n)
		}
	}
	if len(due) == 0 {
		return
	}
	found := r.readHistories(ctx, due)
	fresh := r.fresh(found)
	var open []int
	for _, n := range r.compareAll(ctx, due, found, fresh) {
		if p := found[n]; p.reconciled() {
			r.appendWith(n, p)
		} else {
			open = append(open, n)
		}
	}
	r.finish(ctx, r.confirm(ctx, open, found, false), found, fresh)
}

// fresh reports whether this hub made the store, and none of its partitions was ever
// reconciled: then no hub remembers anything of it.
func (r *reconciler) fresh(found map[int]pair) bool {
	if !r.isNew || len(found) < journal.Partitions {
		return false
	}
	for _, p := range found {
		if p.history != "" {
			return false
		}
	}
	return true
}

// appendWith has this hub append with a history that it compared with.
func (r *reconciler) appendWith(partition int, p pair) {
	h := &r.histories.of[partition]
	h.compared, h.epoch, h.since = p, p.epoch(), time.Time{}
	h.current.Store(&p.history)
}

// readHistories reads the histories of some partitions. It leaves out those that could
// not be read.
func (r *reconciler) readHistories(ctx context.Context, of []int) map[int]pair {
	calls := make([]call, len(of))
	for i, n := range of {
		calls[i].keys = []string{r.conn.key.partition(n, nameHistory)}
	}
	out := make(map[int]pair, len(of))
	for i, cmd := range r.conn.runAll(ctx, historyScript, calls) {
		if v, err := cmd.StringSlice(); err == nil && len(v) == 2 {
			out[of[i]] = pair{v[0], v[1]}
		}
	}
	return out
}

// compareAll compares the partitions whose history has changed since the last comparison,
// and returns all that are compared now. It skips an unreconciled one until the cursors
// are known, since these may know of later entries than the heads.
func (r *reconciler) compareAll(ctx context.Context, due []int, found map[int]pair, fresh bool) (done []int) {
	reached, ready := r.cursorsReached(due)
	compared := make([]bool, journal.Partitions)
	var reconciled, open []int
	for _, n := range due {
		p, ok := found[n]
		if !ok {
			continue
		}
		h := &r.histories.of[n]
		if h.replid != p.replid || h.since.IsZero() {
			h.replid, h.since = p.replid, time.Now()
		}
		switch {
		case h.compared.replid == p.replid && p.epoch() >= h.compared.epoch() && h.compared != (pair{}):
			compared[n] = true
		case p.reconciled():
			reconciled = append(reconciled, n)
		case ready || fresh:
			open = append(open, n)
		}
	}
	if r.hubs.id() != "" {
		open = r.confirm(ctx, open, found, true)
	}
	var all sync.WaitGroup
	places := make(chan struct{}, comparing)
	for _, n := range append(reconciled, open...) {
		all.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			h, p := &r.histories.of[n], found[n]
			if err := r.compare(ctx, n, h.epoch > 0 && p.history == "", reached[n]); err == nil {
				h.compared, compared[n] = p, true
			}
		})
	}
	all.Wait()
	for n, ok := range compared {
		if ok {
			done = append(done, n)
		}
	}
	return done
}

// confirm stores that this hub begins to compare some partitions, or that it has compared
// them, and returns those for which it could. Before its first heartbeat, a hub among others
// confirms nothing.
func (r *reconciler) confirm(ctx context.Context, of []int, found map[int]pair, begins bool) (done []int) {
	self := r.hubs.id()
	if self == "" {
		if r.lease > 0 && !r.fresh(found) {
			return nil
		}
		return of
	}
	calls := make([]call, len(of))
	for i, n := range of {
		calls[i] = call{keys: []string{r.conn.key.partition(n, nameConfirmed)}, args: []any{found[n].replid, self, begins}}
	}
	for i, cmd := range r.conn.runAll(ctx, confirmScript, calls) {
		switch stored, err := cmd.Int(); {
		case err == nil && stored == 1:
			done = append(done, of[i])
		case err == nil: // what was compared may be lost again
			r.histories.of[of[i]].compared = pair{}
		}
	}
	return done
}

// finish begins a new history of the partitions that all live hubs have compared.
func (r *reconciler) finish(ctx context.Context, of []int, found map[int]pair, fresh bool) {
	var calls []call
	var ready []int
	for _, n := range of {
		h := &r.histories.of[n]
		hubs, ok := r.hubs.seen(h.since, r.lease)
		if !ok && !fresh {
			continue
		}
		c := call{keys: []string{r.conn.key.partition(n, nameHistory), r.conn.key.partition(n, nameConfirmed)}, args: []any{found[n].replid, h.epoch}}
		for _, id := range hubs {
			c.args = append(c.args, id)
		}
		calls, ready = append(calls, c), append(ready, n)
	}
	for i, cmd := range r.conn.runAll(ctx, reconciledScript, calls) {
		if history, err := cmd.Text(); err == nil && history != "" {
			r.appendWith(ready[i], pair{found[ready[i]].replid, history})
		}
	}
	r.alert(ctx, of)
}

// alertKept is how long Redis keeps the alert that a partition is unreconciled. The
// other hubs ask more often.
const alertKept = time.Minute

// alert asks the other hubs to look at the partitions that are still unreconciled. They
// may not notice by themselves that one was emptied.
func (r *reconciler) alert(ctx context.Context, of []int) {
	var fields []any
	for _, n := range of {
		if h := &r.histories.of[n]; h.current.Load() == nil && time.Since(h.alerted) >= sameEvery {
			h.alerted = time.Now()
			fields = append(fields, n, strconv.FormatUint(journal.Random(), 36))
		}
	}
	if len(fields) == 0 || r.hubs.id() == "" {
		return
	}
	fields = append([]any{alertKept.Milliseconds()}, fields...)
	_ = r.conn.run(ctx, alertScript, []string{r.conn.key.nodes(nameAlerts)}, fields...).Err() // the next pass tries again
}

// hearAlerts invalidates the histories of the partitions in new alerts of other hubs.
// Alerts are pairs of a partition and the random text that was drawn for it.
func (r *reconciler) hearAlerts(alerts []string) {
	for i := 0; i+1 < len(alerts); i += 2 {
		n, err := strconv.Atoi(alerts[i])
		if err != nil || n < 0 || n >= journal.Partitions {
			continue
		}
		h := &r.histories.of[n]
		if last := h.heard.Swap(&alerts[i+1]); last == nil || *last != alerts[i+1] {
			if current := h.current.Load(); current != nil {
				r.histories.invalidate(n, current)
			}
		}
	}
}

// noticeHistories invalidates the histories of the partitions whose servers have begun
// another one.
func (r *reconciler) noticeHistories(ctx context.Context) {
	masters, err := r.conn.masters(ctx)
	if err != nil {
		return
	}
	for server, of := range masters {
		info, err := server.Info(ctx, "replication").Result()
		if unlessForbidden(err) != nil {
			continue
		}
		replid := parseInfo(info)["master_replid"]
		for _, n := range of {
			if h := r.histories.of[n].current.Load(); h != nil && !strings.HasSuffix(*h, ":"+replid) {
				r.histories.invalidate(n, h)
			}
		}
	}
}
