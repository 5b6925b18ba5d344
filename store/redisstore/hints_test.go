package redisstore

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/test/redistest"
)

// hears waits until what a publishes comes to who listens to b: a hint may get
// lost while a connection is made.
func hears(t *testing.T, a *Store, hints <-chan string, topic string) {
	t.Helper()
	eventually(t, "a hint", func() bool {
		publish(t, a, topic, 1)
		for wait := time.After(50 * time.Millisecond); ; {
			select {
			case got := <-hints:
				if got == topic {
					return true
				}
			case <-wait:
				return false
			}
		}
	})
}

func TestHintsComeFromOtherHubs(t *testing.T) {
	eachTopology(t, func(t *testing.T, url string) {
		prefix := freshPrefix()
		a := openStore(t, Options{URL: url, Prefix: prefix, Timeout: patience})
		b := openStore(t, Options{URL: url, Prefix: prefix, Timeout: patience})
		hints := journal.HintedTopics(t.Context(), b.Hints)
		hearsAll := func(by *Store, hints <-chan string, topic string) {
			t.Helper()
			for i := range 20 { // of partitions on each of a Cluster's servers
				hears(t, by, hints, fmt.Sprint(topic, i))
			}
		}
		hearsAll(a, hints, topicName)
		// A hub's own hints come once.
		own := journal.HintedTopics(t.Context(), a.Hints)
		hearsAll(b, own, topicName+"first") // it listens; further hints of those may be on their way
		publish(t, a, topicName, 1)
		publish(t, b, topicName+"last", 1)
		var got []string
		for len(got) == 0 || got[len(got)-1] != topicName+"last" {
			select {
			case topic := <-own:
				if !strings.HasPrefix(topic, topicName+"first") {
					got = append(got, topic)
				}
			case <-time.After(patience):
				t.Fatalf("hints of %v", got)
			}
		}
		if len(got) != 2 && !a.conn.cluster { // in a Cluster they come over several connections
			t.Errorf("hints of %v", got)
		}
	})
}

func TestHintsComeAgainAfterAConnectionBroke(t *testing.T) {
	server := redistest.Standalone(t)
	a, b := openStore(t, Options{URL: server.URL(), Timeout: patience}), openStore(t, Options{URL: server.URL(), Timeout: patience})
	hints := journal.HintedTopics(t.Context(), b.Hints)
	hears(t, a, hints, topicName)
	server.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
	hears(t, a, hints, topicName)
	server.Restart(t)
	hears(t, a, hints, topicName)
}

func TestHintsFollowASlot(t *testing.T) {
	servers := redistest.Cluster(t)
	a, b := openStore(t, Options{URL: servers.URL(), Timeout: patience}), openStore(t, Options{URL: servers.URL(), Timeout: patience})
	hints := journal.HintedTopics(t.Context(), b.Hints)
	hears(t, a, hints, topicName)
	slot := servers.Slot(t, a.conn.key.topic(topicName).heads)
	from, _ := servers.Owner(t, slot)
	to := servers.Servers()[0]
	if to == from {
		to = servers.Servers()[1]
	}
	servers.MigrateSlot(t, slot, to)
	entries := read(t, a, topicName, journal.Anchor{})
	if len(entries) == 0 {
		t.Errorf("no entry after the slot moved")
	}
	hears(t, a, hints, topicName)
}
