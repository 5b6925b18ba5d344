package redisstore

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rshub/rshub/journal"
)

// settle keeps all partitions settled until ctx ends. It is the only one who
// compares.
func (s *Store) settle(ctx context.Context) {
	tick := time.NewTicker(sameEvery)
	defer tick.Stop()
	for {
		s.settleAll(ctx)
		s.histories.pass()
		again := make(<-chan time.Time)
		if s.histories.unsettled() > 0 {
			again = time.After(settleEvery)
		}
		select {
		case <-ctx.Done():
			return
		case <-s.histories.poke:
		case <-again:
		case <-tick.C:
			s.noticeHistories(ctx)
		}
	}
}

// settleAll settles what is not, as far as that can be done now. What cannot be
// read is tried again.
func (s *Store) settleAll(ctx context.Context) {
	var due []int
	for n := range s.histories.of {
		h := &s.histories.of[n]
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
	found := s.readHistories(ctx, due)
	fresh := s.fresh(found)
	var open []int
	for _, n := range s.compareAll(ctx, due, found, fresh) {
		if p := found[n]; p.settled() {
			s.settledWith(n, p)
		} else {
			open = append(open, n)
		}
	}
	s.finish(ctx, s.vouch(ctx, open, found, false), found, fresh)
}

// fresh tells whether the store was made by this hub, and none of its partitions was
// ever settled: nobody remembers anything of it.
func (s *Store) fresh(found map[int]pair) bool {
	if !s.meta.isNew || len(found) < journal.Partitions {
		return false
	}
	for _, p := range found {
		if p.history != "" {
			return false
		}
	}
	return true
}

// settledWith has this hub append with a history that it compared with.
func (s *Store) settledWith(partition int, p pair) {
	h := &s.histories.of[partition]
	h.compared, h.epoch, h.since = p, p.epoch(), time.Time{}
	h.settled.Store(&p.history)
}

// readHistories asks for those of some partitions; one that could not be read is
// left out.
func (s *Store) readHistories(ctx context.Context, of []int) map[int]pair {
	calls := make([]call, len(of))
	for i, n := range of {
		calls[i].keys = []string{s.key.partition(n, nameHistory)}
	}
	out := make(map[int]pair, len(of))
	for i, cmd := range s.runAll(ctx, historyScript, calls) {
		if v, err := cmd.StringSlice(); err == nil && len(v) == 2 {
			out[of[i]] = pair{v[0], v[1]}
		}
	}
	return out
}

// compareAll compares those partitions that have another history than when they were
// compared last, and returns all that are. Of one that is unsettled it waits until the
// cursors are known, which may tell more than the heads.
func (s *Store) compareAll(ctx context.Context, due []int, found map[int]pair, fresh bool) (done []int) {
	reached, ready := s.whoReached(due)
	compared := make([]bool, journal.Partitions)
	var settled, open []int
	for _, n := range due {
		p, ok := found[n]
		if !ok {
			continue
		}
		h := &s.histories.of[n]
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
	if s.hubs.id() != "" {
		open = s.vouch(ctx, open, found, true)
	}
	var all sync.WaitGroup
	places := make(chan struct{}, comparing)
	for _, n := range append(settled, open...) {
		all.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			h, p := &s.histories.of[n], found[n]
			if err := s.compare(ctx, n, h.epoch > 0 && p.history == "", reached[n]); err == nil {
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
func (s *Store) vouch(ctx context.Context, of []int, found map[int]pair, begins bool) (done []int) {
	self := s.hubs.id()
	if self == "" {
		if s.ownerLease > 0 && !s.fresh(found) {
			return nil
		}
		return of
	}
	calls := make([]call, len(of))
	for i, n := range of {
		calls[i] = call{keys: []string{s.key.partition(n, nameVouched)}, args: []any{found[n].replid, self, begins}}
	}
	for i, cmd := range s.runAll(ctx, vouchScript, calls) {
		switch said, err := cmd.Int(); {
		case err == nil && said == 1:
			done = append(done, of[i])
		case err == nil: // what was compared may be lost again
			s.histories.of[of[i]].compared = pair{}
		}
	}
	return done
}

// finish settles partitions of which all hubs that live said that they compared.
func (s *Store) finish(ctx context.Context, of []int, found map[int]pair, fresh bool) {
	var calls []call
	var ready []int
	for _, n := range of {
		h := &s.histories.of[n]
		hubs, ok := s.hubs.seen(h.since, s.ownerLease)
		if !ok && !fresh {
			continue
		}
		c := call{keys: []string{s.key.partition(n, nameHistory), s.key.partition(n, nameVouched)}, args: []any{found[n].replid, h.epoch}}
		for _, id := range hubs {
			c.args = append(c.args, id)
		}
		calls, ready = append(calls, c), append(ready, n)
	}
	for i, cmd := range s.runAll(ctx, settleScript, calls) {
		if history, err := cmd.Text(); err == nil && history != "" {
			s.settledWith(ready[i], pair{found[ready[i]].replid, history})
		}
	}
	s.tellDoubts(ctx, of)
}

// doubtKept is how long the other hubs are told that a partition is unsettled. They
// ask more often.
const doubtKept = time.Minute

// tellDoubts has the other hubs look at those of some partitions that are unsettled
// still: by themselves they need not notice that one was emptied.
func (s *Store) tellDoubts(ctx context.Context, of []int) {
	var fields []any
	for _, n := range of {
		if h := &s.histories.of[n]; h.settled.Load() == nil && time.Since(h.told) >= sameEvery {
			h.told = time.Now()
			fields = append(fields, n, strconv.FormatUint(random(), 36))
		}
	}
	if len(fields) == 0 || s.hubs.id() == "" {
		return
	}
	fields = append([]any{doubtKept.Milliseconds()}, fields...)
	_ = s.run(ctx, doubtScript, []string{s.key.nodes(nameDoubted)}, fields...).Err() // they are told again
}

// heedDoubts looks at what other hubs doubt: partitions, each with what says when.
func (s *Store) heedDoubts(doubts []string) {
	for i := 0; i+1 < len(doubts); i += 2 {
		n, err := strconv.Atoi(doubts[i])
		if err != nil || n < 0 || n >= journal.Partitions {
			continue
		}
		h := &s.histories.of[n]
		if last := h.heeded.Swap(&doubts[i+1]); last == nil || *last != doubts[i+1] {
			if settled := h.settled.Load(); settled != nil {
				s.histories.doubt(n, settled)
			}
		}
	}
}

// noticeHistories doubts the partitions of the servers that have begun another
// history.
func (s *Store) noticeHistories(ctx context.Context) {
	masters, err := s.masters(ctx)
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
			if h := s.histories.of[n].settled.Load(); h != nil && !strings.HasSuffix(*h, ":"+replid) {
				s.histories.doubt(n, h)
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
