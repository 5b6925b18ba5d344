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

// operation is something that a store does.
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
	opMark
	opMarks
	opSetFetched
	opUnmark
	opGet
	opUpdate
	opList
	opChanged
	opAttempts
	opCommit
	operationCount
)

// String is the name of the operation as a label: that of the method.
func (o operation) String() string {
	return [operationCount]string{
		"head", "interval", "append", "reset", "find", "read", "body", "changes", "topics", "trim", "record_gap", "remove",
		"ping", "mark", "marks", "set_fetched", "unmark",
		"get", "update", "list", "changed", "attempts", "commit",
	}[o]
}

// timed are the figures of one operation.
type timed struct {
	took   prometheus.Observer
	errors prometheus.Counter
}

func (m *Metrics) registerStore() {
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "rshub_store_operation_duration_seconds",
		Help:    "Operations of the store and the time that they took.",
		Buckets: []float64{.001, .01, .1, 1, 10},
	}, []string{"operation"})
	failures := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rshub_store_operation_errors_total",
		Help: "Operations of the store that failed. That something is not there, was trimmed or has moved on is no failure.",
	}, []string{"operation"})
	for o := range operationCount {
		m.operations[o] = timed{took.WithLabelValues(o.String()), failures.WithLabelValues(o.String())}
	}
	m.register("rshub_store_operation_duration_seconds", took)
	m.register("rshub_store_operation_errors_total", failures)
}

// done counts an operation that began at start and ended with err.
func (m *Metrics) done(o operation, start time.Time, err error) {
	m.operations[o].took.Observe(time.Since(start).Seconds())
	if err != nil && !expected(err) {
		m.operations[o].errors.Inc()
	}
}

// expected tells whether an error is an answer, or the caller's own end.
func expected(err error) bool {
	var trimmed *journal.TrimmedError
	return errors.Is(err, journal.ErrHeadMoved) || errors.Is(err, journal.ErrNotFound) ||
		errors.Is(err, journal.ErrRolledBack) || errors.As(err, &trimmed) ||
		errors.Is(err, journal.ErrTooManyMarks) || errors.Is(err, context.Canceled)
}

// Store is a store as the parts of a hub need it.
type Store interface {
	journal.Journal
	journal.Marks
	subscriptions.Store
}

// Store returns s with its operations counted and timed.
func (m *Metrics) Store(s Store) Store {
	return timedStore{timedJournal{s, m}, timedMarks{s, m}, timedSubscriptions{s, m}}
}

type timedStore struct {
	timedJournal
	timedMarks
	timedSubscriptions
}

// timedJournal passes Hints on as they are.
type timedJournal struct {
	journal.Journal
	m *Metrics
}

func (t timedJournal) Head(ctx context.Context, topic string) (journal.Head, error) {
	start := time.Now()
	head, err := t.Journal.Head(ctx, topic)
	t.m.done(opHead, start, err)
	return head, err
}

func (t timedJournal) Interval(ctx context.Context, topic string, from, until time.Time) (journal.Interval, error) {
	start := time.Now()
	i, err := t.Journal.Interval(ctx, topic, from, until)
	t.m.done(opInterval, start, err)
	return i, err
}

func (t timedJournal) Append(ctx context.Context, now time.Time, topic string, e journal.Entry, ifHead journal.Version) (journal.Entry, error) {
	start := time.Now()
	stored, err := t.Journal.Append(ctx, now, topic, e, ifHead)
	t.m.done(opAppend, start, err)
	return stored, err
}

func (t timedJournal) Reset(ctx context.Context, topic string, ifHead journal.Version) error {
	start := time.Now()
	err := t.Journal.Reset(ctx, topic, ifHead)
	t.m.done(opReset, start, err)
	return err
}

func (t timedJournal) Find(ctx context.Context, id uuid.UUID) (string, journal.Entry, error) {
	start := time.Now()
	topic, e, err := t.Journal.Find(ctx, id)
	t.m.done(opFind, start, err)
	return topic, e, err
}

func (t timedJournal) Read(ctx context.Context, topic string, after journal.Anchor, limit int, maxBytes int64) ([]journal.Entry, error) {
	start := time.Now()
	entries, err := t.Journal.Read(ctx, topic, after, limit, maxBytes)
	t.m.done(opRead, start, err)
	return entries, err
}

func (t timedJournal) Body(ctx context.Context, topic string, e journal.Entry) ([]byte, error) {
	start := time.Now()
	body, err := t.Journal.Body(ctx, topic, e)
	t.m.done(opBody, start, err)
	return body, err
}

func (t timedJournal) Changes(ctx context.Context, partition int, since uint64) ([]string, uint64, error) {
	start := time.Now()
	topics, next, err := t.Journal.Changes(ctx, partition, since)
	t.m.done(opChanges, start, err)
	return topics, next, err
}

func (t timedJournal) Topics(ctx context.Context, partition int, after uuid.UUID, limit int) ([]journal.Head, error) {
	start := time.Now()
	heads, err := t.Journal.Topics(ctx, partition, after, limit)
	t.m.done(opTopics, start, err)
	return heads, err
}

func (t timedJournal) Trim(ctx context.Context, topic string, cut journal.Cut) (journal.Head, error) {
	start := time.Now()
	head, err := t.Journal.Trim(ctx, topic, cut)
	t.m.done(opTrim, start, err)
	return head, err
}

func (t timedJournal) RecordGap(ctx context.Context, topic string, g journal.Gap) error {
	start := time.Now()
	err := t.Journal.RecordGap(ctx, topic, g)
	t.m.done(opRecordGap, start, err)
	return err
}

func (t timedJournal) Remove(ctx context.Context, topic string, ifHead journal.Version) error {
	start := time.Now()
	err := t.Journal.Remove(ctx, topic, ifHead)
	t.m.done(opRemove, start, err)
	return err
}
