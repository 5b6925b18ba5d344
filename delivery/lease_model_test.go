package delivery

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/storetest"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/websub"
)

const (
	leaseTopic, leaseCallback = "https://source.example/leases", "https://s.example/cb"
	leaseTime, leaseResume    = 10 * time.Minute, 10 * time.Minute
)

// leaseModel is one subscription and its lane. The Dispatcher, the transitions and the store are
// the real ones. The model makes the steps of all goroutines, in any order. Beside them it records
// in the simplest way what should be true.
type leaseModel struct {
	*storetest.Memory
	t  *testing.T
	d  *Dispatcher
	id uuid.UUID

	flight *job  // an exchange that was begun
	body   *body // the one that flight sends
	unread []change
	late   []subscriptions.Commit // in the hands of a hub that lost its share
	steps  []string               // that were taken
	stuck  bool                   // the last of them did nothing

	// What should be true. An epoch is what a 410 may end. It begins with a lease, and with a
	// replay, since the operator asked for more.
	epoch, heard, began int       // the latest, what the Dispatcher knows, and that of flight
	gone, goneLate      []gone410 // 410s that are not stored
	overtaken           bool      // one hub stored results since the take-over, and the other will
	reason              string    // of the end; empty: in force
	gaps                []journal.Gap
	acked, owed         map[uint64]bool // entries by seq: answered with 2xx, not to be lost in silence
}

// change is a change that the Dispatcher will learn of.
type change struct {
	subscription subscriptions.Subscription
	epoch        int
	renewal      bool
}

// gone410 is a 410 of an exchange that began in an epoch.
type gone410 struct {
	epoch int
	gap   journal.Gap
	last  uint64 // the newest entry by then
}

// newLeaseModel begins with a live subscription that lacks two entries, which the
// Dispatcher knows.
func newLeaseModel(t *testing.T, d *Dispatcher, store *storetest.Memory) *leaseModel {
	m := &leaseModel{
		Memory: store, t: t, d: d, id: subscriptions.ID(leaseTopic, leaseCallback),
		acked: make(map[uint64]bool), owed: make(map[uint64]bool),
	}
	m.take()
	m.request(websub.ModeSubscribe, "a")
	m.activate()
	m.publish()
	m.publish()
	m.hear()
	return m
}

func (m *leaseModel) fail(format string, args ...any) {
	m.t.Helper()
	m.t.Fatalf("after %q: %s", m.steps, fmt.Sprintf(format, args...))
}

func (m *leaseModel) ok(err error) {
	if err != nil {
		m.fail("%v", err)
	}
}

func (m *leaseModel) record() subscriptions.Record {
	rec, err := m.Get(m.t.Context(), m.id)
	m.ok(err)
	return rec
}

func (m *leaseModel) head() journal.Head {
	h, err := m.Head(m.t.Context(), leaseTopic)
	m.ok(err)
	return h
}

// update does what the Service does. The Dispatcher learns of changes in order, but later.
func (m *leaseModel) update(renewal bool, f func(subscriptions.Record) (subscriptions.Record, error)) {
	rec, err := m.Update(m.t.Context(), m.id, f)
	m.ok(err)
	m.unread = append(m.unread, change{*rec.Subscription, m.epoch, renewal})
}

// request stores a pending request.
func (m *leaseModel) request(mode websub.Mode, secret string) {
	r := subscriptions.Request{
		ID: uuid.New(), Mode: mode, Topic: leaseTopic, Callback: leaseCallback, Secret: secret,
		Lease: leaseTime, AcceptedAt: time.Now(), Start: m.head().Last,
	}
	_, err := m.Update(m.t.Context(), m.id, func(rec subscriptions.Record) (subscriptions.Record, error) {
		rec.Request = &r
		return rec, nil
	})
	m.ok(err)
}

// activate is what follows from a challenge that was echoed.
func (m *leaseModel) activate() {
	before := m.record()
	m.epoch++
	m.update(true, func(rec subscriptions.Record) (subscriptions.Record, error) {
		return subscriptions.Activate(rec, rec.Request.ID, time.Now(), time.Now(), leaseResume)
	})
	if m.reason == "" && before.Subscription != nil {
		same := before.Subscription.Secret == before.Request.Secret
		if after := m.record().Subscription.Cursor; same != (after.Generation == before.Subscription.Cursor.Generation) {
			m.fail("invariant 4: a renewal (the same secret: %t) made generation %d of %d", same, after.Generation, before.Subscription.Cursor.Generation)
		}
		return
	}
	m.reason = ""
	for seq := before.Request.Start.Seq + 1; seq <= m.head().Last.Seq; seq++ {
		m.owed[seq], m.acked[seq] = true, false
	}
}

// end ends the subscription in the store, with the gap of what was not stored.
func (m *leaseModel) end(reason, gapReason string) {
	head := m.head()
	if from := m.record().Subscription.Cursor.Anchor; m.reason == "" {
		m.reason = reason
		m.lacks(from, gapReason)
	}
	m.update(false, func(rec subscriptions.Record) (subscriptions.Record, error) {
		rec = subscriptions.End(rec, reason, head, time.Now())
		rec.Request = nil
		return rec, nil
	})
}

// lacks notes the gap from an anchor to the head.
func (m *leaseModel) lacks(from journal.Anchor, reason string) {
	if g := m.gapFrom(from, reason); g.Count > 0 {
		m.gaps = journal.AddGap(m.gaps, g)
	}
}

func (m *leaseModel) gapFrom(from journal.Anchor, reason string) journal.Gap {
	head := m.head().Last
	return journal.Gap{From: from.Until, Until: head.Until, Count: head.Seq - from.Seq, Reason: reason}
}

func (m *leaseModel) publish() {
	h := m.head()
	e := journal.Entry{
		From: interval(h.Last.Seq), Until: interval(h.Last.Seq + 1), Kind: journal.KindChange,
		ReceivedAt: time.Now(), Body: []byte("x"), Size: 1,
	}
	e, err := m.Append(m.t.Context(), time.Now(), leaseTopic, e, h.Version)
	m.ok(err)
	if m.reason == "" {
		m.owed[e.Seq] = true
	}
	m.d.heads.touch(leaseTopic)
}

// begin begins the next exchange, if there is one.
func (m *leaseModel) begin() bool {
	for {
		for m.d.heads.queue.len() > 0 {
			m.d.heads.read(m.d.heads.next(), m.head(), nil)
		}
		for m.d.only().s.step() == 0 {
			continue
		}
		m.d.only().mu.Lock()
		j, ok := m.d.only().s.pick()
		m.d.only().mu.Unlock()
		if !ok {
			return false
		}
		b, err := m.d.sender.next(m.t.Context(), &j)
		if errors.Is(err, errHead) {
			m.d.sender.notNow(&j, b, err)
			continue
		}
		m.ok(err)
		d := &delivery{job: j, body: b}
		if !m.d.sender.confirm(m.t.Context(), d) { // its lease ran out
			m.d.bodies.put(b, j.lane.host, j.health())
			continue
		}
		m.flight, m.body, m.began = &d.job, b, m.heard
		return true
	}
}

// answer ends the exchange.
func (m *leaseModel) answer(status int) {
	j, b, results := *m.flight, m.body, m.d.commits[0].filling.n
	d := &delivery{job: j, body: b, out: outcome{Result: Result{Status: status}, started: time.Now()}}
	if m.d.sender.decide(m.t.Context(), d) {
		m.d.sender.commit(m.t.Context(), d)
	}
	m.drop()
	counts := m.d.commits[0].filling.n > results
	switch {
	case status == 200:
		m.acked[b.anchor.seq] = true
	case status == 410 && counts:
		m.gone = append(m.gone, gone410{m.began, m.gapFrom(j.cursor.unpack().Anchor, journal.GapGone), m.head().Last.Seq})
	case status == 410 && m.began == m.heard && m.d.only().s.lane(m.id) != nil:
		m.fail("a 410 did not count")
	}
}

func (m *leaseModel) drop() {
	m.d.bodies.put(m.body, m.flight.lane.host, m.flight.health())
	m.flight, m.body = nil, nil
}

// commit stores the results that wait.
func (m *leaseModel) commit() {
	results := m.d.commits[0].filling.n
	m.d.commits[0].write(m.t.Context(), false)
	if n := m.d.commits.uncommitted(); n > 0 {
		m.fail("%d results are not stored", n)
	}
	m.stored(m.gone)
	m.overtaken = m.overtaken || results > 0
	m.gone = nil
}

func (m *leaseModel) commitLate() {
	m.ok(m.Commit(m.t.Context(), m.late))
	m.stored(m.goneLate)
	m.overtaken = true
	m.late, m.goneLate = nil, nil
}

// stored says that 410s were given to the store. One ends what its exchange began
// with, and nothing else. It need not where the other hub has stored newer results.
func (m *leaseModel) stored(ends []gone410) {
	for _, g := range ends {
		lost := m.overtaken && m.record().Subscription.EndReason != subscriptions.EndGone
		if m.reason == "" && g.epoch == m.epoch && !lost {
			m.reason = subscriptions.EndGone
			m.gaps = journal.AddGap(m.gaps, g.gap)
			maps.DeleteFunc(m.owed, func(seq uint64, _ bool) bool { return seq > g.last })
		}
	}
}

// hear informs the Dispatcher of a change.
func (m *leaseModel) hear() {
	c := m.unread[0]
	m.unread, m.heard = m.unread[1:], c.epoch
	m.d.Apply(c.subscription)
	if l := m.d.only().s.lane(m.id); c.renewal && l != nil && l.state == waiting {
		m.fail("a renewal was verified, and what waits is not due")
	}
}

// sweep has the Dispatcher ask what changed.
func (m *leaseModel) sweep() {
	shard := subscriptions.Shard(m.id)
	m.ok(m.d.shards.sweepShard(m.t.Context(), shard, m.d.shards.sweepable().shards[shard]))
	m.heard = m.epoch
}

// takeOver is another hub that takes over the shard. It knows what is stored. The hub before it may
// store results later.
func (m *leaseModel) takeOver() {
	m.late, m.goneLate = append(m.late, m.d.commits[0].filling.commits...), append(m.goneLate, m.gone...)
	m.d.commits[0].filling, m.gone, m.overtaken = group{}, nil, false
	m.d.Abort(subscriptions.Shard(m.id))
	if m.flight != nil {
		m.d.only().s.giveBack(*m.flight)
		m.drop()
	}
	m.take()
	m.unread, m.heard = nil, m.epoch
}

func (m *leaseModel) take() { m.ok(m.d.Start(m.t.Context(), subscriptions.Shard(m.id))) }

// finish lets all that is under way come to an end, every callback answer 200,
// and judges what is left.
func (m *leaseModel) finish() {
	if m.flight != nil {
		m.answer(200)
	}
	m.commit()
	for range 2 {
		m.sweep()
		for range 4 { // the waits of a few failures
			for m.begin() {
				m.answer(200)
				m.commit()
			}
			time.Sleep(10 * time.Second)
		}
		m.commitLate()
	}
	s := m.record().Subscription
	if s.EndReason != m.reason || s.EndedAt.IsZero() != (m.reason == "") {
		m.fail("the subscription ended as %q, and should have as %q", s.EndReason, m.reason)
	}
	if lane := m.d.only().s.lane(m.id) != nil; lane != (m.reason == "") {
		m.fail("there is a lane: %t, of a subscription that ended as %q", lane, m.reason)
	}
	var got, want string
	for i := range s.Gaps {
		got += fmt.Sprintf("%s %d\n", s.Gaps[i].Reason, s.Gaps[i].Count)
	}
	for i := range m.gaps {
		want += fmt.Sprintf("%s %d\n", m.gaps[i].Reason, m.gaps[i].Count)
	}
	if got != want {
		m.fail("the gaps are\n%sand should be\n%s", got, want)
	}
	for seq := range m.owed {
		waits := m.reason == "" && !s.Live(time.Now()) && seq > s.Cursor.Seq
		if !m.acked[seq] && !waits && !m.isGap(s.Gaps, seq) {
			m.fail("entry %d was lost in silence", seq)
		}
	}
}

func (m *leaseModel) isGap(gaps []journal.Gap, seq uint64) bool {
	for _, g := range gaps {
		if until := interval(seq); g.From.Before(until) && !g.Until.Before(until) {
			return true
		}
	}
	return false
}
