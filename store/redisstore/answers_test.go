package redisstore

import (
	"errors"
	"strings"
	"testing"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/test/redistest"
)

// A Sentinel that does not know the master answers with Nil, with which Redis says that there is no such key. A hub that
// has to connect again then finds nothing, and must not take that for an empty store.
func TestSentinelsThatKnowNoMaster(t *testing.T) {
	redis := redistest.Sentinel(t)
	s, err := openPinned(t, redis.URL(), "", "", false)
	if err != nil {
		t.Fatal(err)
	}
	stored := publish(t, s, topicName, 1)
	master := redis.Master(t)
	for _, m := range redis.Monitors {
		m.Do(t, "SENTINEL", "REMOVE", "rshub")
	}
	master.Do(t, "CLIENT", "KILL", "TYPE", "normal")

	for name, ask := range map[string]func() error{
		"Head":   func() error { _, err := s.Head(t.Context(), topicName); return err },
		"Find":   func() error { _, _, err := s.Find(t.Context(), stored[0].ID); return err },
		"a body": func() error { _, err := s.reader.readChunks(t.Context(), stored[0], 1); return err },
		"Kept":   func() error { _, err := s.Kept(t.Context(), "key"); return err },
	} {
		if err := ask(); !errors.Is(err, ErrAway) || errors.Is(err, journal.ErrNotFound) || !strings.Contains(err.Error(), "know no master") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
