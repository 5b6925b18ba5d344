package storetest

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// Store is what is tested.
type Store interface {
	journal.Journal
	journal.Notebook
	journal.Pings
	journal.Restorer
	subscriptions.Store
}

// Harness holds one store under test, empty at first.
type Harness struct {
	Store
	// Reopen closes the store and opens it again, as a restart does.
	Reopen func() (Store, error)
	// Snapshot remembers the state of the store. The function that it returns
	// brings the store back to that state, as a restored backup or a failover
	// that lost the tail does.
	Snapshot func() (rollback func() (Store, error), err error)
	// Damage damages what is stored of an entry, behind the store's back. Nil: the
	// checks of damage are left out.
	Damage func(topic string, e journal.Entry, d Damage) error
	// Sealing is for the checks of secrets.
	Sealing *Sealing
}

// T is what a check uses of a *testing.T.
type T interface {
	Helper()
	Context() context.Context
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Check is one check of the suite.
type Check struct {
	Name string
	run  func(k *kit)
}

// Checks returns the suite.
func Checks() []Check {
	var all []Check
	for _, part := range [][]Check{appendChecks, headChecks, removeChecks, readChecks, trimChecks, damageChecks, gapChecks, watchChecks, durableChecks, recordChecks, commitChecks, pingChecks, noteChecks, restoreChecks, secretChecks} {
		all = append(all, part...)
	}
	return all
}

// Run runs the suite. open is called for each check and returns an empty store;
// it ends the store through t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) *Harness) {
	for _, c := range Checks() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.Run(t, open(t))
		})
	}
}

// Run runs one check on an empty store.
func (c Check) Run(t T, h *Harness) { c.run(&kit{T: t, h: h, patience: 10 * time.Second}) }

// kit is what the checks share: a store, and short words for what they do with
// it. What goes wrong in them ends the check.
type kit struct {
	T
	h *Harness
	// patience is how long to wait for what has to come.
	patience time.Duration
}

// alike are the rules by which results are compared: nil is an empty slice, and
// payloads are compared as a whole, which is what takes time.
var alike = []cmp.Option{
	cmpopts.EquateEmpty(),
	cmp.FilterValues(func(a, b []byte) bool { return len(a) > 0 || len(b) > 0 }, cmp.Comparer(bytes.Equal)),
}

// start is the time at which the checks begin.
var start = time.Date(2026, 3, 1, 12, 0, 0, 500, time.UTC)

// at is start and some seconds.
func at(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }

// topicName is the topic that a check uses where one will do.
const topicName = "https://source.example/changes/"

// timed is an entry with an interval in seconds after start.
func timed(from, until int, body string) journal.Entry {
	return journal.Entry{From: at(from), Until: at(until), Kind: journal.KindChange, MediaType: "application/xml", SHA256: hash(body), Size: int64(len(body)), Body: []byte(body)}
}

// plain is an entry without an interval.
func plain(body string) journal.Entry {
	return journal.Entry{Kind: journal.KindContent, MediaType: "text/plain", SHA256: hash(body), Size: int64(len(body)), Body: []byte(body)}
}

func (k *kit) ok(err error, what string) {
	k.Helper()
	if err != nil {
		k.Fatalf("%s: %v", what, err)
	}
}

func (k *kit) same(what string, got, want any) {
	k.Helper()
	if d := cmp.Diff(want, got, alike...); d != "" {
		k.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func (k *kit) head(topic string) journal.Head {
	k.Helper()
	h, err := k.h.Head(k.Context(), topic)
	k.ok(err, "Head")
	return h
}

// add appends an entry at the topic's head.
func (k *kit) add(topic string, now time.Time, e journal.Entry) journal.Entry {
	k.Helper()
	out, err := k.h.Append(k.Context(), now, topic, e, k.head(topic).Version)
	k.ok(err, "Append")
	return out
}

// fill appends n timed entries, the i-th over [i, i+1) and received at i+1.
func (k *kit) fill(topic string, n int) []journal.Entry {
	k.Helper()
	first := int(k.head(topic).Last.Seq) //nolint:gosec // a few
	out := make([]journal.Entry, 0, n)
	for i := first; i < first+n; i++ {
		out = append(out, k.add(topic, at(i+1), timed(i, i+1, fmt.Sprintf("body %04d", i))))
	}
	return out
}

func (k *kit) read(topic string, after journal.Anchor) []journal.Entry {
	k.Helper()
	out, err := k.h.Read(k.Context(), topic, after, 1000, 1<<30)
	k.ok(err, "Read")
	return out
}

func (k *kit) trim(cut journal.Cut) journal.Head {
	k.Helper()
	h, err := k.h.Trim(k.Context(), topicName, cut)
	k.ok(err, "Trim")
	return h
}

func (k *kit) get(id uuid.UUID) subscriptions.Record {
	k.Helper()
	rec, err := k.h.Get(k.Context(), id)
	k.ok(err, "Get")
	return rec
}

func (k *kit) set(id uuid.UUID, rec subscriptions.Record) subscriptions.Record {
	k.Helper()
	out, err := k.h.Update(k.Context(), id, func(subscriptions.Record) (subscriptions.Record, error) { return rec, nil })
	k.ok(err, "Update")
	return out
}

func (k *kit) commit(commits ...subscriptions.Commit) {
	k.Helper()
	k.ok(k.h.Commit(k.Context(), commits), "Commit")
}

func (k *kit) attempts(id uuid.UUID) []subscriptions.Attempt {
	k.Helper()
	out, err := k.h.Attempts(k.Context(), id)
	k.ok(err, "Attempts")
	return out
}

// reopen restarts the store.
func (k *kit) reopen() {
	k.Helper()
	s, err := k.h.Reopen()
	k.ok(err, "Reopen")
	k.h.Store = s
}

// topicsOf returns n topics of one partition.
func topicsOf(partition, n int) []string {
	var out []string
	for i := 0; len(out) < n; i++ {
		if topic := fmt.Sprintf("https://source.example/%d/", i); journal.Partition(journal.TopicID(topic)) == partition {
			out = append(out, topic)
		}
	}
	return out
}

// subscription is a subscription of the i-th callback.
func subscription(i int) subscriptions.Subscription {
	callback := fmt.Sprintf("https://subscriber.example/cb?n=%d", i)
	return subscriptions.Subscription{
		ID: subscriptions.ID(topicName, callback), Topic: topicName, Callback: callback, Secret: "a secret",
		CreatedAt: at(1), VerifiedAt: at(2), ExpiresAt: at(1000),
		Start:     journal.Anchor{Position: 7, Nonce: 8, Seq: 9, Until: at(3)},
		Requester: 1<<63 + 5,
		Cursor:    journal.Cursor{Generation: 10, Anchor: journal.Anchor{Position: 7, Nonce: 8, Seq: 9, Until: at(3)}},
	}
}

// subscriptionsOf returns n subscriptions of one shard.
func subscriptionsOf(shard, n int) []subscriptions.Subscription {
	var out []subscriptions.Subscription
	for i := 0; len(out) < n; i++ {
		if s := subscription(i); subscriptions.Shard(s.ID) == shard {
			out = append(out, s)
		}
	}
	return out
}
