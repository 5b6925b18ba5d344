package redisstore

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rshub/rshub/journal"
)

// reconciler finds out what Redis lost, and has all hubs agree on it before anything
// is appended.
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

// run keeps all partitions settled until ctx ends. It is the only one who
// compares.
func (r *reconciler) run(ctx context.Context) {
	tick := time.NewTicker(sameEvery)
	defer tick.Stop()
	for {
		r.reconcile(ctx)
		r.histories.pass()
		again := make(<-chan time.Time)
		if r.histories.unsettled() > 0 {
			again = time.After(settleEvery)
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

// reconcile settles what is not, as far as that can be done now. What cannot be
// read is tried again.
func (r *reconciler) reconcile(ctx context.Context) {
	var due []int
	for n := range r.histories.of {
		h := &r.histories.of[n]
		if h.suspect.Swap(false) {
			h.compared = pair{}
			h.settled.Store(nil)
		}
		if h.settled.Load() == nil {
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
		if p := found[n]; p.settled() {
			r.appendWith(n, p)
		} else {
			open = append(open, n)
		}
	}
	r.finish(ctx, r.vouch(ctx, open, found, false), found, fresh)
}

// fresh tells whether the store was made by this hub, and none of its partitions was
// ever settled: nobody remembers anything of it.
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
	h.settled.Store(&p.history)
}

// readHistories asks for those of some partitions; one that could not be read is
// left out.
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

// compareAll compares those partitions that have another history than when they were
// compared last, and returns all that are. Of one that is unsettled it waits until the
// cursors are known, which may tell more than the heads.
func (r *reconciler) compareAll(ctx context.Context, due []int, found map[int]pair, fresh bool) (done []int) {
	reached, ready := r.whoReached(due)
	compared := make([]bool, journal.Partitions)
	var settled, open []int
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
		case p.settled():
			settled = append(settled, n)
		case ready || fresh:
			open = append(open, n)
		}
	}
	if r.hubs.id() != "" {
		open = r.vouch(ctx, open, found, true)
	}
	var all sync.WaitGroup
	places := make(chan struct{}, comparing)
	for _, n := range append(settled, open...) {
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

// vouch says of some partitions that this hub begins to compare them, or else that it
// has, and returns those of which it could. A hub that meets others does so before it
// says anything.
func (r *reconciler) vouch(ctx context.Context, of []int, found map[int]pair, begins bool) (done []int) {
	self := r.hubs.id()
	if self == "" {
		if r.lease > 0 && !r.fresh(found) {
			return nil
		}
		return of
	}
	calls := make([]call, len(of))
	for i, n := range of {
		calls[i] = call{keys: []string{r.conn.key.partition(n, nameVouched)}, args: []any{found[n].replid, self, begins}}
	}
	for i, cmd := range r.conn.runAll(ctx, vouchScript, calls) {
		switch said, err := cmd.Int(); {
		case err == nil && said == 1:
			done = append(done, of[i])
		case err == nil: // what was compared may be lost again
			r.histories.of[of[i]].compared = pair{}
		}
	}
	return done
}

// finish settles partitions of which all hubs that live said that they compared.
func (r *reconciler) finish(ctx context.Context, of []int, found map[int]pair, fresh bool) {
	var calls []call
	var ready []int
	for _, n := range of {
		h := &r.histories.of[n]
		hubs, ok := r.hubs.seen(h.since, r.lease)
		if !ok && !fresh {
			continue
		}
		c := call{keys: []string{r.conn.key.partition(n, nameHistory), r.conn.key.partition(n, nameVouched)}, args: []any{found[n].replid, h.epoch}}
		for _, id := range hubs {
			c.args = append(c.args, id)
		}
		calls, ready = append(calls, c), append(ready, n)
	}
	for i, cmd := range r.conn.runAll(ctx, settleScript, calls) {
		if history, err := cmd.Text(); err == nil && history != "" {
			r.appendWith(ready[i], pair{found[ready[i]].replid, history})
		}
	}
	r.tellDoubts(ctx, of)
}

// doubtKept is how long the other hubs are told that a partition is unsettled. They
// ask more often.
const doubtKept = time.Minute

// tellDoubts has the other hubs look at those of some partitions that are unsettled
// still: by themselves they need not notice that one was emptied.
func (r *reconciler) tellDoubts(ctx context.Context, of []int) {
	var fields []any
	for _, n := range of {
		if h := &r.histories.of[n]; h.settled.Load() == nil && time.Since(h.told) >= sameEvery {
			h.told = time.Now()
			fields = append(fields, n, strconv.FormatUint(random(), 36))
		}
	}
	if len(fields) == 0 || r.hubs.id() == "" {
		return
	}
	fields = append([]any{doubtKept.Milliseconds()}, fields...)
	_ = r.conn.run(ctx, doubtScript, []string{r.conn.key.nodes(nameDoubted)}, fields...).Err() // they are told again
}

// heedDoubts looks at what other hubs doubt: partitions, each with what says when.
func (r *reconciler) heedDoubts(doubts []string) {
	for i := 0; i+1 < len(doubts); i += 2 {
		n, err := strconv.Atoi(doubts[i])
		if err != nil || n < 0 || n >= journal.Partitions {
			continue
		}
		h := &r.histories.of[n]
		if last := h.heeded.Swap(&doubts[i+1]); last == nil || *last != doubts[i+1] {
			if settled := h.settled.Load(); settled != nil {
				r.histories.doubt(n, settled)
			}
		}
	}
}

// noticeHistories doubts the partitions of the servers that have begun another
// history.
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
		replid := replicationID(info)
		for _, n := range of {
			if h := r.histories.of[n].settled.Load(); h != nil && !strings.HasSuffix(*h, ":"+replid) {
				r.histories.doubt(n, h)
			}
		}
	}
}

// replicationID reads it from INFO.
func replicationID(info string) string {
	for line := range strings.Lines(info) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "master_replid:"); ok {
			return id
		}
	}
	return ""
}
