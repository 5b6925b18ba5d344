package redisstore

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/journal"
)

// reconciler finds out what Redis lost, and makes sure that all hubs agree on it before
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

// run keeps all partitions reconciled until ctx ends.
func (r *reconciler) run(ctx context.Context) {
	for noticed := time.Now(); ; {
		r.reconcile(ctx)
		r.histories.pass()
		wait := sameEvery
		if r.histories.unreconciled() > 0 {
			wait = reconcileEvery
		}
		if !clock.Wait(ctx, wait, r.histories.poke) {
			return
		}
		if time.Since(noticed) >= sameEvery {
			noticed = time.Now()
			r.noticeHistories(ctx)
		}
	}
}

// reconcile reconciles the partitions that are not reconciled yet, as far as possible now.
// run tries the others again.
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

// fresh reports whether this hub made the store and none of its partitions was ever
// reconciled. Then no hub remembers anything of it.
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

// appendWith lets this hub append with a history that it compared with.
func (r *reconciler) appendWith(partition int, p pair) {
	h := &r.histories.of[partition]
	h.compared, h.epoch, h.since = p, p.epoch(), time.Time{}
	h.current.Store(&p.history)
}

// readHistories reads the histories of some partitions. It leaves out those that could
// not be read.
func (r *reconciler) readHistories(ctx context.Context, of []int) map[int]pair {
	out := make(map[int]pair, len(of))
	for n, cmd := range runEach(ctx, r.conn, historyScript, of, func(n int) call {
		return call{keys: []string{r.conn.key.partition(n, nameHistory)}}
	}) {
		if p, err := readPair(cmd); err == nil {
			out[n] = p
		}
	}
	return out
}

// compareAll compares the partitions whose history has changed since the last comparison,
// and returns all that are compared now. It skips an unreconciled one until the cursors are
// known, because a cursor may be later than the head that this hub remembers.
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
	var all errgroup.Group
	all.SetLimit(comparing)
	for _, n := range append(reconciled, open...) {
		all.Go(func() error {
			h, p := &r.histories.of[n], found[n]
			if err := r.compare(ctx, n, h.epoch > 0 && p.history == "", reached[n]); err == nil {
				h.compared, compared[n] = p, true
			}
			return nil
		})
	}
	_ = all.Wait() // no function returns an error
	for n, ok := range compared {
		if ok {
			done = append(done, n)
		}
	}
	return done
}

// confirm stores that this hub begins to compare some partitions, or that it has compared
// them, and returns those for which Redis stored it. If there may be other hubs, a hub
// confirms nothing before its first heartbeat.
func (r *reconciler) confirm(ctx context.Context, of []int, found map[int]pair, begins bool) (done []int) {
	self := r.hubs.id()
	if self == "" {
		if r.lease > 0 && !r.fresh(found) {
			return nil
		}
		return of
	}
	for n, cmd := range runEach(ctx, r.conn, confirmScript, of, func(n int) call {
		return call{[]string{r.conn.key.partition(n, nameConfirmed)}, []any{found[n].replid, self, begins}}
	}) {
		switch stored, err := cmd.Bool(); {
		case stored:
			done = append(done, n)
		case err == nil: // Redis may have lost again what was compared
			r.histories.of[n].compared = pair{}
		}
	}
	return done
}

// finish begins a new history of the partitions that all live hubs have compared.
func (r *reconciler) finish(ctx context.Context, of []int, found map[int]pair, fresh bool) {
	live := map[int][]string{} // the hubs that must have compared, by partition
	for _, n := range of {
		if hubs, ok := r.hubs.seen(r.histories.of[n].since, r.lease); ok || fresh {
			live[n] = hubs
		}
	}
	for n, cmd := range runEach(ctx, r.conn, reconciledScript, slices.Collect(maps.Keys(live)), func(n int) call {
		c := call{[]string{r.conn.key.partition(n, nameHistory), r.conn.key.partition(n, nameConfirmed)}, []any{found[n].replid, r.histories.of[n].epoch}}
		for _, id := range live[n] {
			c.args = append(c.args, id)
		}
		return c
	}) {
		if history, err := cmd.Text(); err == nil && history != "" {
			r.appendWith(n, pair{found[n].replid, history})
		}
	}
	r.alert(ctx, of)
}

// alertKept is how long Redis keeps the alert that a partition is unreconciled. The
// other hubs ask more often.
const alertKept = time.Minute

// alert asks the other hubs to check the partitions that are still unreconciled. They may
// not notice by themselves that one was emptied.
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
	for alert := range slices.Chunk(alerts, 2) {
		n, err := strconv.Atoi(alert[0])
		if err != nil || n < 0 || n >= journal.Partitions {
			continue
		}
		if last := r.histories.of[n].heard.Swap(&alert[1]); last == nil || *last != alert[1] {
			r.histories.outdated(n, func(string) bool { return true })
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
			r.histories.outdated(n, func(history string) bool { return !strings.HasSuffix(history, ":"+replid) })
		}
	}
}
