package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// Store is what the suite tests.
type Store interface {
	journal.Journal
	journal.Notebook
	journal.Shelf
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
	// Damage damages what is stored of an entry, without the store. Nil: the checks of
	// damage are left out.
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
	return slices.Concat(appendChecks, headChecks, removeChecks, readChecks, trimChecks, damageChecks, gapChecks, watchChecks, durableChecks, recordChecks, commitChecks, pingChecks, noteChecks, shelfChecks, restoreChecks, secretChecks)
}

// Run runs the suite. It calls open for each check. open returns an empty store and closes it
// through t.Cleanup.
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

// kit is what the checks share: a store, and helpers that call it. An error that a helper does not
// expect ends the check.
type kit struct {
	T
	h *Harness
	// patience is how long to wait for a hint or a closed channel.
	patience time.Duration
}

// alike are the rules for comparing results: nil equals an empty slice, and payloads are compared as
// a whole, because that is faster.
var alike = []cmp.Option{
	cmpopts.EquateEmpty(),
	cmp.FilterValues(func(a, b []byte) bool { return len(a) > 0 || len(b) > 0 }, cmp.Comparer(bytes.Equal)),
}

// start is the first time in the checks.
var start = time.Date(2026, 3, 1, 12, 0, 0, 500, time.UTC)

// at is start and some seconds.
func at(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }

// topicName is the topic of checks that need only one.
const topicName = "https://source.example/changes/"

// timed is an entry with an interval in seconds after start.
func timed(from, until int, body string) journal.Entry {
	return journal.Entry{From: at(from), Until: at(until), Kind: journal.KindChange, MediaType: "application/xml", SHA256: hash(body), Size: int64(len(body)), Body: []byte(body)}
}

// plain is an entry without an interval.
func plain(body string) journal.Entry {
	return journal.Entry{Kind: journal.KindContent, MediaType: "text/plain", SHA256: hash(body), Size: int64(len(body)), Body: []byte(body)}
}

// ok ends the check on an error.
func (k *kit) ok(err error, what string) {
	k.Helper()
	if err != nil {
		k.Fatalf("%s: %v", what, err)
	}
}

// expect reports a failure with a message, unless the condition is true.
func (k *kit) expect(so bool, format string, args ...any) {
	k.Helper()
	if !so {
		k.Errorf(format, args...)
	}
}

// fails expects an error that is want, or none where want is nil. The message says what was done.
// Unlike ok, it may be called in any goroutine.
func (k *kit) fails(err, want error, format string, args ...any) {
	k.Helper()
	k.expect(errors.Is(err, want), "%s: error %v, want %v", fmt.Sprintf(format, args...), err, want)
}

// result is what a call returned.
type result[V any] struct {
	value V
	err   error
}

func call[V any](value V, err error) result[V] { return result[V]{value, err} }

// must returns the value. An error ends the check.
func (r result[V]) must(k *kit, what string) V {
	k.Helper()
	k.ok(r.err, what)
	return r.value
}

// errOf returns the error of a call whose value does not matter.
func errOf[V any](_ V, err error) error { return err }

// stored is the result of Store.Find.
type stored struct {
	topic string
	entry journal.Entry
}

// find asks a store for an entry.
func find(ctx context.Context, s Store, id uuid.UUID) result[stored] {
	topic, e, err := s.Find(ctx, id)
	return call(stored{topic, e}, err)
}

// changes returns the topics of a partition that changed, and the value for the next question.
func (k *kit) changes(partition int, since uint64) ([]string, uint64) {
	k.Helper()
	topics, next, err := k.h.Changes(k.Context(), partition, since)
	k.ok(err, "Changes")
	return topics, next
}

// changed is changes for the records of a shard.
func (k *kit) changed(shard int, since uint64) ([]uuid.UUID, uint64) {
	k.Helper()
	ids, next, err := k.h.Changed(k.Context(), shard, since)
	k.ok(err, "Changed")
	return ids, next
}

func (k *kit) same(what string, got, want any) {
	k.Helper()
	if d := cmp.Diff(want, got, alike...); d != "" {
		k.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func (k *kit) head(topic string) journal.Head {
	k.Helper()
	return call(k.h.Head(k.Context(), topic)).must(k, "Head")
}

// add appends an entry at the topic's head.
func (k *kit) add(topic string, now time.Time, e journal.Entry) journal.Entry {
	k.Helper()
	return call(k.h.Append(k.Context(), now, topic, e, k.head(topic).Version)).must(k, "Append")
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
	return call(k.h.Read(k.Context(), topic, after, 1000, 1<<30)).must(k, "Read")
}

func (k *kit) trim(cut journal.Cut) journal.Head {
	k.Helper()
	return call(k.h.Trim(k.Context(), topicName, cut)).must(k, "Trim")
}

func (k *kit) get(id uuid.UUID) subscriptions.Record {
	k.Helper()
	return call(k.h.Get(k.Context(), id)).must(k, "Get")
}

func (k *kit) set(id uuid.UUID, rec subscriptions.Record) subscriptions.Record {
	k.Helper()
	return call(k.h.Update(k.Context(), id, func(subscriptions.Record) (subscriptions.Record, error) { return rec, nil })).must(k, "Update")
}

func (k *kit) commit(commits ...subscriptions.Commit) {
	k.Helper()
	k.ok(k.h.Commit(k.Context(), commits), "Commit")
}

func (k *kit) attempts(id uuid.UUID) []subscriptions.Attempt {
	k.Helper()
	return call(k.h.Attempts(k.Context(), id)).must(k, "Attempts")
}

// reopen restarts the store.
func (k *kit) reopen() {
	k.Helper()
	s := call(k.h.Reopen()).must(k, "Reopen")
	k.h.Store = s
}

// firstOf calls of with 0, 1, 2 and so on, and returns the first n results whose id is in a
// partition or shard.
func firstOf[V any](n, in int, of func(i int) V, id func(V) uuid.UUID) (out []V) {
	for i := 0; len(out) < n; i++ {
		if v := of(i); journal.Partition(id(v)) == in {
			out = append(out, v)
		}
	}
	return out
}

// topicsOf returns n topics of one partition.
func topicsOf(partition, n int) []string {
	return firstOf(n, partition, func(i int) string { return fmt.Sprintf("https://source.example/%d/", i) }, journal.TopicID)
}

// topicIDs returns the ids of topics in the order in which a store lists them.
func topicIDs(topics []string) (ids []uuid.UUID) {
	for _, topic := range topics {
		ids = append(ids, journal.TopicID(topic))
	}
	slices.SortFunc(ids, byID)
	return ids
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
	return firstOf(n, shard, subscription, func(s subscriptions.Subscription) uuid.UUID { return s.ID })
}
