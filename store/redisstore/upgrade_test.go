package redisstore

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/cluster"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/test/redistest"
)

// oldStore is a store as the version before made it, and two hubs on it.
func oldStore(t *testing.T, lease time.Duration) (hubs [2]*Store) {
	t.Helper()
	server, o := redistest.Standalone(t), Options{Prefix: freshPrefix(), Timeout: patience, Lease: lease}
	o.URL = server.URL()
	for i := range hubs {
		hubs[i] = openStore(t, o)
		key := hubs[i].conn.key.meta(nameStore)
		server.Do(t, "HSET", key, "schema", strconv.Itoa(previous))
		server.Do(t, "HDEL", key, "writes")
	}
	eventually(t, "the first hub sees the store as the second one did", hubs[0].Upgrader.Pending)
	return hubs
}

// schemaOf returns the fields schema and writes.
func schemaOf(t *testing.T, s *Store) (may, writes string) {
	t.Helper()
	v, err := s.conn.client.HMGet(t.Context(), s.conn.key.meta(nameStore), "schema", "writes").Result()
	if err != nil {
		t.Fatal(err)
	}
	return textOf(v[0]), textOf(v[1])
}

func TestUpgrade(t *testing.T) {
	const lease = 300 * time.Millisecond
	hubs := oldStore(t, lease)
	a, b := hubs[0], hubs[1]
	live := func(s *Store, n cluster.Node, ttl time.Duration) {
		t.Helper()
		if _, err := s.Leases.Heartbeat(t.Context(), n, ttl); err != nil {
			t.Fatal(err)
		}
	}
	live(a, cluster.Node{ID: "a", Format: Format}, time.Minute)
	live(b, cluster.Node{ID: "b", Name: "north", Version: "v0.8.0"}, time.Minute)

	err := a.Upgrader.FinishUpgrade(t.Context())
	if older, ok := errors.AsType[*cluster.OlderHubsError](err); !ok || !strings.Contains(older.Error(), "north (v0.8.0)") {
		t.Errorf("beside a hub of an older version: %v", err)
	}
	if may, writes := schemaOf(t, a); may != "1" || writes != "" {
		t.Errorf("schema %s, writes %s", may, writes)
	}

	live(b, cluster.Node{ID: "b", Name: "north", Format: Format}, time.Minute)
	for range 2 { // it may be finished again
		if err := a.Upgrader.FinishUpgrade(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if may, writes := schemaOf(t, a); may != "2" || writes != "2" || a.Upgrader.Pending() {
		t.Errorf("schema %s, writes %s", may, writes)
	}
	eventually(t, "the other hub writes the newest format", func() bool { return !b.Upgrader.Pending() })
	for name, s := range map[string]*Store{"the hub that finished": a, "the other hub": b} {
		topic := topicName + name
		e, err := s.Append(t.Context(), time.Now(), topic, journal.Entry{Body: []byte("x"), Kind: journal.KindContent}, "")
		if err != nil {
			t.Fatal(err)
		}
		gap := journal.Gap{Count: 1, Reason: journal.GapRolledBack, Position: e.Position + 1, Seq: 2, After: e.Anchor()}
		if err := s.RecordGap(t.Context(), topic, gap); err != nil {
			t.Fatal(err)
		}
		if h, err := a.Head(t.Context(), topic); err != nil || len(h.Gaps) != 1 || h.Gaps[0].After != e.Anchor() {
			t.Errorf("%s stored %+v, %v", name, h.Gaps, err)
		}
	}
}

// A hub of an older version that opened the store just before nobody can any more is found
// before it meets a value that it cannot read.
func TestUpgradeBesideAHubThatStarts(t *testing.T) {
	hubs := oldStore(t, 2*time.Second)
	done := make(chan error, 1)
	go func() { done <- hubs[0].Upgrader.FinishUpgrade(t.Context()) }()
	eventually(t, "the store is closed for older versions", func() bool { may, _ := schemaOf(t, hubs[1]); return may == "2" })
	if err := hubs[0].Upgrader.FinishUpgrade(t.Context()); !errors.Is(err, cluster.ErrUpgradeRuns) {
		t.Errorf("at the same time: %v", err)
	}
	if f, err := hubs[1].Upgrader.Formats(t.Context()); err != nil || !f.Closed || !f.Pending() {
		t.Errorf("meanwhile %+v, %v", f, err)
	}
	if _, err := hubs[1].Leases.Heartbeat(t.Context(), cluster.Node{ID: "old"}, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.As(err, new(*cluster.OlderHubsError)) {
		t.Errorf("the upgrade was finished: %v", err)
	}
	if may, writes := schemaOf(t, hubs[0]); may != "1" || writes != "1" || !hubs[0].Upgrader.Pending() {
		t.Errorf("schema %s, writes %s", may, writes)
	}
}

// An upgrade that broke off is finished by the next call, at any hub.
func TestUpgradeThatBreaksOff(t *testing.T) {
	hubs := oldStore(t, time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- hubs[0].Upgrader.FinishUpgrade(ctx) }()
	eventually(t, "the store is closed for older versions", func() bool { may, _ := schemaOf(t, hubs[1]); return may == "2" })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, writes := schemaOf(t, hubs[1]); writes != "1" || !hubs[0].Upgrader.Pending() {
		t.Errorf("writes %s", writes)
	}
	if err := hubs[1].Upgrader.FinishUpgrade(t.Context()); err != nil || hubs[1].Upgrader.Pending() {
		t.Error(err)
	}
}

// Two hubs may be asked to finish an upgrade at once. What one of them finished stays, though
// the other still is in an earlier step.
func TestUpgradeAtTwoHubs(t *testing.T) {
	hubs := oldStore(t, time.Second)
	slow, ok := hubs[0].Upgrader.(*upgrader)
	if !ok {
		t.Fatal("no upgrader of this package")
	}
	if err := hubs[1].Upgrader.FinishUpgrade(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, step := range [][2]int{{schema, previous}, {previous, previous}} {
		if err := slow.set(t.Context(), step[0], step[1]); err != nil {
			t.Error(err)
		}
		if may, writes := schemaOf(t, hubs[0]); may != "2" || writes != "2" || slow.Pending() {
			t.Errorf("after step %v: schema %s, writes %s", step, may, writes)
		}
	}
}
