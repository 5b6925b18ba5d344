package telemetry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/embedstore"
	"github.com/rshub/rshub/store/storetest"
	"github.com/rshub/rshub/subscriptions"
)

// A store that is counted does what it does uncounted, and each of its operations
// is counted by the suite's end.
func TestCountedStoreIsTheSame(t *testing.T) {
	m := fresh()
	// Carrying a topic from one store to another is not counted, and neither are notes and what is on the shelf.
	type whole struct {
		Store
		journal.Restorer
		journal.Notebook
		journal.Shelf
	}
	t.Run("suite", func(t *testing.T) {
		storetest.Run(t, func(*testing.T) *storetest.Harness {
			h := storetest.NewMemory().Harness()
			h.Damage = nil // to read what is damaged counts as a failure
			reopen, snapshot := h.Reopen, h.Snapshot
			counted := func(s storetest.Store, err error) (storetest.Store, error) {
				if err != nil {
					return nil, err
				}
				return whole{m.Store(s), s, s, s}, nil
			}
			h.Store = whole{m.Store(h.Store), h.Store, h.Store, h.Store}
			h.Reopen = func() (storetest.Store, error) { return counted(reopen()) }
			h.Snapshot = func() (func() (storetest.Store, error), error) {
				rollback, err := snapshot()
				return func() (storetest.Store, error) { return counted(rollback()) }, err
			}
			return h
		})
	})
	text := scrape(m)
	const wrong = 2 // numbers that no partition has, with which the suite calls these
	refused := map[operation]int{opChanges: wrong, opTopics: wrong, opPingRecords: wrong, opList: wrong, opChanged: wrong}
	for o := range operationCount {
		if strings.Contains(text, fmt.Sprintf("_count{operation=%q} 0\n", o)) {
			t.Errorf("%v was not counted", o)
		}
		if !strings.Contains(text, fmt.Sprintf("rshub_store_operation_errors_total{operation=%q} %d\n", o, refused[o])) {
			t.Errorf("%v did not fail %d times, it says", o, refused[o])
		}
	}
}

// calls are all operations, each under its name.
func calls(s Store) map[operation]func(context.Context) error {
	id, e, now := uuid.UUID{}, journal.Entry{}, time.Unix(0, 0)
	second := func(_ any, err error) error { return err }
	third := func(_, _ any, err error) error { return err }
	keep := func(r subscriptions.Record) (subscriptions.Record, error) { return r, nil }
	return map[operation]func(context.Context) error{
		opHead:             func(ctx context.Context) error { return second(s.Head(ctx, "t")) },
		opInterval:         func(ctx context.Context) error { return second(s.Interval(ctx, "t", now, now)) },
		opAppend:           func(ctx context.Context) error { return second(s.Append(ctx, now, "t", e, "")) },
		opReset:            func(ctx context.Context) error { return s.Reset(ctx, "t", "") },
		opFind:             func(ctx context.Context) error { return third(s.Find(ctx, id)) },
		opRead:             func(ctx context.Context) error { return second(s.Read(ctx, "t", journal.Anchor{}, 1, 1)) },
		opBody:             func(ctx context.Context) error { return second(s.Body(ctx, "t", e)) },
		opChanges:          func(ctx context.Context) error { return third(s.Changes(ctx, 0, 0)) },
		opTopics:           func(ctx context.Context) error { return second(s.Topics(ctx, 0, id, 1)) },
		opRecordGap:        func(ctx context.Context) error { return s.RecordGap(ctx, "t", journal.Gap{}) },
		opRemove:           func(ctx context.Context) error { return s.Remove(ctx, "t", "") },
		opTrim:             func(ctx context.Context) error { return second(s.Trim(ctx, "t", journal.Cut{})) },
		opPing:             func(ctx context.Context) error { return s.Ping(ctx, now, []string{"t"}) },
		opPingRecord:       func(ctx context.Context) error { return second(s.PingRecord(ctx, "t")) },
		opPingRecords:      func(ctx context.Context) error { return second(s.PingRecords(ctx, 0, id, 1)) },
		opSetFetched:       func(ctx context.Context) error { return s.SetFetched(ctx, journal.PingRecord{Topic: "t"}) },
		opDeletePingRecord: func(ctx context.Context) error { return s.DeletePingRecord(ctx, journal.PingRecord{Topic: "t"}) },
		opGet:              func(ctx context.Context) error { return second(s.Get(ctx, id)) },
		opUpdate:           func(ctx context.Context) error { return second(s.Update(ctx, id, keep)) },
		opList:             func(ctx context.Context) error { return second(s.List(ctx, 0, id, 1)) },
		opChanged:          func(ctx context.Context) error { return third(s.Changed(ctx, 0, 0)) },
		opAttempts:         func(ctx context.Context) error { return second(s.Attempts(ctx, id)) },
		opCommit:           func(ctx context.Context) error { return s.Commit(ctx, []subscriptions.Commit{{ID: id}}) },
	}
}

// An operation that fails, here as it took too long, is counted as that, under its
// own name; one that its caller gave up is not.
func TestFailuresOfTheStore(t *testing.T) {
	late, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	gone, leave := context.WithCancel(t.Context())
	leave()
	store, err := embedstore.Open(t.TempDir(), embedstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	for o := range operationCount {
		m := fresh()
		do := calls(m.Store(store))[o]
		if err := do(late); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v: %v", o, err)
		}
		before := scrape(m)
		for _, line := range []string{
			fmt.Sprintf("rshub_store_operation_errors_total{operation=%q} 1", o),
			fmt.Sprintf("rshub_store_operation_duration_seconds_count{operation=%q} 1", o),
		} {
			if !slices.Contains(changed(scrape(fresh()), before), line) {
				t.Errorf("missing: %s", line)
			}
		}
		if err := do(gone); !errors.Is(err, context.Canceled) {
			t.Errorf("%v: %v", o, err)
		}
		if lines := strings.Join(changed(before, scrape(m)), "\n"); strings.Contains(lines, "errors_total") || !strings.Contains(lines, "_count{") {
			t.Errorf("%v, given up: %s", o, lines)
		}
	}
}

// What is an answer is no failure, nor is what an Update's caller thinks.
func TestAnswersAreNoFailures(t *testing.T) {
	for err, want := range map[error]bool{
		journal.ErrHeadMoved: true, fmt.Errorf("wrapped: %w", journal.ErrNotFound): true, journal.ErrRolledBack: true,
		&journal.TrimmedError{}: true, journal.ErrTooManyPings: true,
		journal.ErrFull: false, journal.ErrPacked: false, errors.New("the disk is gone"): false,
	} {
		if got := expected(err); got != want {
			t.Errorf("%v: %t", err, got)
		}
	}
	m := fresh()
	_, err := m.Store(storetest.NewMemory()).Update(t.Context(), uuid.UUID{}, func(subscriptions.Record) (subscriptions.Record, error) {
		return subscriptions.Record{}, subscriptions.ErrSuperseded
	})
	if !errors.Is(err, subscriptions.ErrSuperseded) || !strings.Contains(scrape(m), `errors_total{operation="update"} 0`) {
		t.Errorf("%v", err)
	}
}
