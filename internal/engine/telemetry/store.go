package telemetry

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// operation is a method of a store.
type operation int

const (
	opHead operation = iota
	opInterval
	opAppend
	opReset
	opFind
	opRead
	opBody
	opChanges
	opTopics
	opTrim
	opRecordGap
	opRemove
	opPing
	opPingRecord
	opPingRecords
	opSetFetched
	opDeletePingRecord
	opGet
	opUpdate
	opList
	opChanged
	opAttempts
	opCommit
	operationCount
)

// String is the operation's label: the name of the method.
func (o operation) String() string {
	return [operationCount]string{
		"head", "interval", "append", "reset", "find", "read", "body", "changes", "topics", "trim", "record_gap", "remove",
		"ping", "mark", "marks", "set_fetched", "unmark",
		"get", "update", "list", "changed", "attempts", "commit",
	}[o]
}

// timed are the metrics of one operation.
type timed struct {
	took   prometheus.Observer
	errors prometheus.Counter
}

func (m *Metrics) registerStore() {
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "rshub_store_operation_duration_seconds",
		Help:    "Operations of the store, and how long they took.",
		Buckets: []float64{.001, .01, .1, 1, 10},
	}, []string{"operation"})
	failures := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rshub_store_operation_errors_total",
		Help: "Operations of the store that failed. Not found, trimmed and moved on are no failures.",
	}, []string{"operation"})
	for o := range operationCount {
		m.operations[o] = timed{took.WithLabelValues(o.String()), failures.WithLabelValues(o.String())}
	}
	m.set.Register("rshub_store_operation_duration_seconds", took)
	m.set.Register("rshub_store_operation_errors_total", failures)
}

// done counts an operation that began at start and ended with *err.
func (m *Metrics) done(o operation, start time.Time, err *error) {
	m.operations[o].took.Observe(time.Since(start).Seconds())
	if *err != nil && !expected(*err) {
		m.operations[o].errors.Inc()
	}
}

// expected reports whether an error is a normal answer, or the end of the caller's context.
func expected(err error) bool {
	var trimmed *journal.TrimmedError
	return errors.Is(err, journal.ErrHeadMoved) || errors.Is(err, journal.ErrNotFound) ||
		errors.Is(err, journal.ErrRolledBack) || errors.As(err, &trimmed) ||
		errors.Is(err, journal.ErrTooManyPings) || errors.Is(err, context.Canceled)
}

// Store is a store as the packages of a hub need it.
type Store interface {
	journal.Journal
	journal.Pings
	subscriptions.Store
}

// Store returns s with its operations counted and timed.
func (m *Metrics) Store(s Store) Store {
	return timedStore{timedJournal{s, m}, timedPings{s, m}, timedSubscriptions{s, m}}
}

type timedStore struct {
	timedJournal
	timedPings
	timedSubscriptions
}

// timedJournal does not time Hints.
type timedJournal struct {
	journal.Journal
	m *Metrics
}

func (t timedJournal) Head(ctx context.Context, topic string) (head journal.Head, err error) {
	defer t.m.done(opHead, time.Now(), &err)
	return t.Journal.Head(ctx, topic)
}

func (t timedJournal) Interval(ctx context.Context, topic string, from, until time.Time) (i journal.Interval, err error) {
	defer t.m.done(opInterval, time.Now(), &err)
	return t.Journal.Interval(ctx, topic, from, until)
}

func (t timedJournal) Append(ctx context.Context, now time.Time, topic string, e journal.Entry, ifHead journal.Version) (stored journal.Entry, err error) {
	defer t.m.done(opAppend, time.Now(), &err)
	return t.Journal.Append(ctx, now, topic, e, ifHead)
}

func (t timedJournal) Reset(ctx context.Context, topic string, ifHead journal.Version) (err error) {
	defer t.m.done(opReset, time.Now(), &err)
	return t.Journal.Reset(ctx, topic, ifHead)
}

func (t timedJournal) Find(ctx context.Context, id uuid.UUID) (topic string, e journal.Entry, err error) {
	defer t.m.done(opFind, time.Now(), &err)
	return t.Journal.Find(ctx, id)
}

func (t timedJournal) Read(ctx context.Context, topic string, after journal.Anchor, limit int, maxBytes int64) (entries []journal.Entry, err error) {
	defer t.m.done(opRead, time.Now(), &err)
	return t.Journal.Read(ctx, topic, after, limit, maxBytes)
}

func (t timedJournal) Body(ctx context.Context, topic string, e journal.Entry) (body []byte, err error) {
	defer t.m.done(opBody, time.Now(), &err)
	return t.Journal.Body(ctx, topic, e)
}

func (t timedJournal) Changes(ctx context.Context, partition int, since uint64) (topics []string, next uint64, err error) {
	defer t.m.done(opChanges, time.Now(), &err)
	return t.Journal.Changes(ctx, partition, since)
}

func (t timedJournal) Topics(ctx context.Context, partition int, after uuid.UUID, limit int) (heads []journal.Head, err error) {
	defer t.m.done(opTopics, time.Now(), &err)
	return t.Journal.Topics(ctx, partition, after, limit)
}

func (t timedJournal) Trim(ctx context.Context, topic string, cut journal.Cut) (head journal.Head, err error) {
	defer t.m.done(opTrim, time.Now(), &err)
	return t.Journal.Trim(ctx, topic, cut)
}

func (t timedJournal) RecordGap(ctx context.Context, topic string, g journal.Gap) (err error) {
	defer t.m.done(opRecordGap, time.Now(), &err)
	return t.Journal.RecordGap(ctx, topic, g)
}

func (t timedJournal) Remove(ctx context.Context, topic string, ifHead journal.Version) (err error) {
	defer t.m.done(opRemove, time.Now(), &err)
	return t.Journal.Remove(ctx, topic, ifHead)
}
