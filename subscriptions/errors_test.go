package subscriptions

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
)

// A commit of many subscriptions can fail for each of them. The error names the first
// five by id, counts the others, and wraps all reasons.
func TestCommitErrorNamesAFew(t *testing.T) {
	e := &CommitError{Failed: map[uuid.UUID]error{}}
	for n := range 7 {
		e.Failed[uuid.UUID{15: byte(n)}] = fmt.Errorf("reason %d", n)
	}
	e.Failed[uuid.UUID{15: 6}] = journal.ErrPacked
	text := e.Error()
	for n := range 5 {
		if want := fmt.Sprintf("subscription %v: reason %d; ", uuid.UUID{15: byte(n)}, n); !strings.Contains(text, want) {
			t.Errorf("%q lacks %q", text, want)
		}
	}
	if !strings.HasSuffix(text, "; and 2 more") || strings.Contains(text, "reason 5") {
		t.Errorf("%q does not count the other 2", text)
	}
	if !errors.Is(e, journal.ErrPacked) {
		t.Error("the error does not wrap the reasons")
	}
}

// What failed for the same reason has it once.
func TestCommitErrorSaysAReasonOnce(t *testing.T) {
	e := &CommitError{Failed: map[uuid.UUID]error{}}
	for n := range 7 {
		e.Failed[uuid.UUID{15: byte(n)}] = errors.New("out of memory")
	}
	e.Failed[uuid.UUID{15: 1}] = errors.New("no such key")
	id := func(n byte) string { return uuid.UUID{15: n}.String() }
	want := "subscription " + id(0) + ", " + id(2) + ", " + id(3) + ", " + id(4) + ": out of memory; subscription " + id(1) + ": no such key; and 2 more"
	if text := e.Error(); text != want {
		t.Errorf("%q, want %q", text, want)
	}
}

// The errors for a requester, a callback and the log say what was wrong.
func TestErrorsSayWhy(t *testing.T) {
	for want, err := range map[string]error{
		"There are too many.":                        &LimitError{Reason: "There are too many.", RetryAfter: time.Minute},
		"subscription " + uuid.Nil.String() + ": no": &CommitError{Failed: map[uuid.UUID]error{uuid.Nil: errors.New("no")}},
	} {
		if err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	}
}

// A change of a record merges the stored cursor, whatever the change returns, and a failed
// change stores nothing.
func TestChangeMergesTheCursor(t *testing.T) {
	id := ID("https://source.example/changes/", "https://callback.example/")
	ahead := journal.Cursor{Generation: 2}
	stored := Record{Subscription: &Subscription{ID: id, Cursor: ahead}}
	next, grows, err := stored.Change(id, func(rec Record) (Record, error) {
		s := *rec.Subscription
		s.ID, s.Cursor = uuid.Nil, journal.Cursor{Generation: 1}
		return Record{Subscription: &s}, nil
	})
	if err != nil || grows || next.Subscription.ID != id || next.Subscription.Cursor != ahead {
		t.Errorf("%+v, grows %t, %v", next.Subscription, grows, err)
	}
	failure := errors.New("no")
	if next, _, err := stored.Change(id, func(rec Record) (Record, error) { return rec, failure }); !errors.Is(err, failure) || next != (Record{}) {
		t.Errorf("%+v, %v", next, err)
	}
	if _, grows, _ := (Record{}).Change(id, func(Record) (Record, error) { return Record{Request: &Request{ID: id}}, nil }); !grows {
		t.Error("a first request does not grow the store")
	}
}

// New refuses options that a Service cannot do without.
func TestNewNeedsItsOptions(t *testing.T) {
	w := newWorld(Options{})
	for name, o := range map[string]Options{
		"Store":  {Heads: w, Client: w},
		"Heads":  {Store: w.store, Client: w},
		"Client": {Store: w.store, Heads: w},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}
