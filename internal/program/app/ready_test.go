package app

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/cluster"
	"github.com/rshub/rshub/store/embedstore"
	"github.com/rshub/rshub/subscriptions"
)

// Each reason not to be ready has its name and says what is the matter.
func TestReadiness(t *testing.T) {
	a := newApp(t)
	reasons := func() map[string]string {
		failed := make(map[string]string)
		for _, c := range a.ready(t.Context()) {
			if c.Err != nil {
				failed[c.Name] = c.Err.Error()
			}
		}
		return failed
	}
	want := func(what, reason, word string) {
		t.Helper()
		if got := reasons(); !strings.Contains(got[reason], word) || len(got) != 1 {
			t.Errorf("%s: %v", what, got)
		}
	}
	open := func(minFree int64) {
		t.Helper()
		s, err := embedstore.Open(t.TempDir(), embedstore.Options{MinFree: minFree})
		if err != nil {
			t.Fatal(err)
		}
		a.backend = &backend{hubStore: s, leases: cluster.Alone}
	}
	open(-1)
	want("before the parts are there", "starting", "subscriptions")
	if err := a.backend.Close(); err != nil {
		t.Fatal(err)
	}
	if got := reasons(); !strings.Contains(got["store"], "closed") {
		t.Errorf("closed: %v", got)
	}

	open(math.MaxInt64)
	if got := reasons(); !strings.Contains(got["high water"], "free") || got["store"] != "" {
		t.Errorf("at the high water: %v", got)
	}
	if err := a.backend.Close(); err != nil {
		t.Fatal(err)
	}

	running := newApp(t)
	if err := running.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for running.starting() != nil {
		time.Sleep(time.Millisecond) // the store is being read
	}
	a = running
	if got := reasons(); len(got) != 0 {
		t.Errorf("running: %v", got)
	}
	a.draining.Store(true)
	want("draining", "draining", "shutting down")
	if err := a.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Every check that passes says what it found. A check that cannot be made is left out: the
// space of a store that does not answer, and leases if there are none.
func TestReadinessSaysWhatWasLookedAt(t *testing.T) {
	a := newApp(t)
	said := func() string {
		var names []string
		for _, c := range a.ready(t.Context()) {
			if c.Err == nil && c.Holds == "" {
				t.Errorf("%s holds, and nothing is said of it", c.Name)
			}
			names = append(names, fmt.Sprintf("%s %t", c.Name, c.Err == nil))
		}
		return strings.Join(names, ", ")
	}
	want := func(what, want string) {
		t.Helper()
		if got := said(); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for a.starting() != nil {
		time.Sleep(time.Millisecond)
	}
	want("alone", "starting true, store true, high water true, draining true")
	running := a.shards.Load()
	a.shards.Store(&shards{keeper: running.keeper, store: struct{ cluster.Store }{}})
	want("with others", "starting true, store true, high water true, cluster true, draining true")
	if err := a.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	want("at the end", "starting true, store false, cluster true, draining false")
}

// An operator's change reaches the parts of the hub once they are there. Before that, there is
// no Control.
func TestOperatorsChangesReachTheParts(t *testing.T) {
	a := newApp(t)
	if c := (operator{a}).control(); c != nil {
		t.Fatalf("before the start: %v", c)
	}
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := (operator{a}).control().Retry(t.Context(), uuid.New()); !errors.Is(err, subscriptions.ErrNotFound) {
		t.Errorf("after it: %v", err)
	}
	if _, _, err := (operator{a}).control().Replay(time.Now())(t.Context(), uuid.New()); !errors.Is(err, subscriptions.ErrNotFound) {
		t.Errorf("after it: %v", err)
	}
	if err := a.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}
