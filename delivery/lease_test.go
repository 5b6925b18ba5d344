package delivery

import (
	"flag"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/storetest"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/websub"
)

var leaseDepth = flag.Int("lease-depth", 4, "how many of all steps TestLeases puts in every order")

// leaseStep is one thing that may happen.
type leaseStep struct {
	name string
	can  func(m *leaseModel) bool
	do   func(m *leaseModel)
}

func (m *leaseModel) inFlight() bool { return m.flight != nil }
func (m *leaseModel) inForce() bool  { return m.record().Subscription.EndedAt.IsZero() }
func (m *leaseModel) asked() bool    { return m.record().Request != nil }
func (m *leaseModel) once(name string) bool {
	return !slices.Contains(m.steps, name)
}

// leaseSteps are all that there is; the first of them are those of delivery and of
// a plain renewal.
var leaseSteps = []leaseStep{
	{"begin", func(m *leaseModel) bool { return !m.inFlight() }, func(m *leaseModel) { m.stuck = !m.begin() }},
	{"200", (*leaseModel).inFlight, func(m *leaseModel) { m.answer(200) }},
	{"410", (*leaseModel).inFlight, func(m *leaseModel) { m.answer(410) }},
	{"commit", func(m *leaseModel) bool { return m.d.commits[0].filling.n > 0 }, (*leaseModel).commit},
	{"renew", func(m *leaseModel) bool { return !m.asked() }, func(m *leaseModel) { m.request(websub.ModeSubscribe, "a") }},
	{"verified", (*leaseModel).asked, (*leaseModel).activate},
	{"hear", func(m *leaseModel) bool { return len(m.unread) > 0 }, (*leaseModel).hear},
	{"unsubscribe", (*leaseModel).inForce, func(m *leaseModel) { m.end(subscriptions.EndUnsubscribed, journal.GapUnsubscribe) }},

	{"500", (*leaseModel).inFlight, func(m *leaseModel) { m.answer(500) }},
	{"renew with another secret", func(m *leaseModel) bool { return !m.asked() }, func(m *leaseModel) { m.request(websub.ModeSubscribe, "b") }},
	{"rm", (*leaseModel).inForce, func(m *leaseModel) { m.end(subscriptions.EndRemoved, journal.GapRemoved) }},
	{"lapse", func(m *leaseModel) bool { return m.once("lapse") && m.once("expire") }, func(*leaseModel) { time.Sleep(leaseTime) }},
	{"expire", func(m *leaseModel) bool { return m.once("expire") }, (*leaseModel).expire},
	{"take over", func(m *leaseModel) bool { return m.once("take over") }, (*leaseModel).takeOver},
	{"late commit", func(m *leaseModel) bool { return len(m.late) > 0 }, (*leaseModel).commitLate},
	{"publish", func(m *leaseModel) bool { return m.once("publish") }, (*leaseModel).publish},
	{"replay", func(m *leaseModel) bool { return m.once("replay") && m.record().Subscription.Live(time.Now()) }, (*leaseModel).replay},
}

// plainSteps are how many of them that is, and plainDepth how many of these are put
// in every order.
const plainSteps, plainDepth = 8, 6

// expire lets the time pass in which the lease can be renewed.
func (m *leaseModel) expire() {
	time.Sleep(leaseTime + leaseResume)
	rec, head := m.record(), m.head()
	if after := subscriptions.Expire(rec, head, time.Now(), leaseResume); after.Subscription.EndedAt.Equal(rec.Subscription.EndedAt) {
		return // it ended before, or its renewal is pending
	}
	m.reason = subscriptions.EndExpired
	m.lacks(rec.Subscription.Cursor.Anchor, journal.GapExpired)
	m.update(false, func(rec subscriptions.Record) (subscriptions.Record, error) {
		return subscriptions.Expire(rec, head, time.Now(), leaseResume), nil
	})
}

func (m *leaseModel) replay() {
	m.epoch++
	m.update(false, func(rec subscriptions.Record) (subscriptions.Record, error) {
		return subscriptions.Replay(rec, journal.Anchor{}, time.Now())
	})
}

// A 410 ends the lease that was in force when its exchange began, and nothing else: no lease that
// was renewed or begun anew since, whatever happened in between (HUB-12, HUB-47, invariants 4, 8
// and 10). The test tries all orders of some steps. The plain ones are a delivery, a renewal and an
// unsubscribe, tried up to plainDepth. All steps are tried up to -lease-depth, which is 6 in `make
// nemesis`.
func TestLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(switched)
		d, err := New(Options{
			Schedulers: 1,
			Journal:    store, Subscriptions: store, Client: over(newWire()), HubURL: "https://hub.example/",
			Rand: func() float64 { return 0.5 }, Log: zap.NewNop(),
		})
		if err != nil {
			t.Fatal(err)
		}
		orders := 0
		var try func(steps []leaseStep, order []int, depth int)
		try = func(steps []leaseStep, order []int, depth int) {
			store.Memory = storetest.NewMemory()
			m := newLeaseModel(t, d, store.Memory)
			for _, i := range order {
				time.Sleep(time.Millisecond)
				m.steps = append(m.steps, steps[i].name)
				steps[i].do(m)
			}
			var next []int
			if len(order) < depth && !m.stuck {
				for i := range steps {
					if steps[i].can(m) {
						next = append(next, i)
					}
				}
			}
			m.finish()
			d.Abort(subscriptions.Shard(m.id))
			orders++
			for _, i := range next {
				try(steps, append(order, i), depth)
			}
		}
		try(leaseSteps, nil, *leaseDepth)
		all := orders
		try(leaseSteps[:plainSteps], nil, plainDepth)
		t.Logf("%d orders of up to %d steps, and %d of up to %d of the plain ones", all, *leaseDepth, orders-all, plainDepth)
		if all < 1000 || orders-all < 1000 {
			t.Error("too few to say anything")
		}
	})
}

// switched is a store that the test replaces.
type switched struct{ *storetest.Memory }
