package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// A topic that is flooded is cut back to its share of --retention-total; the
// others keep all that they have, also what is older than the flood, and a
// subscriber who was away gets it.
func TestFloodedTopicPushesNobodyOut(t *testing.T) {
	t.Parallel()
	h := startHub(t, "--retention-total=1MiB", "--retry-first=100ms", "--retry-max=200ms")
	small, hog := newSource("http://127.0.0.1:2/small"), newSource("http://127.0.0.1:2/hog")
	r := newReceiver(t, 1)
	h.subscribe(small.topic, r.url(0, "/cb")).want(t, http.StatusAccepted)
	h.active(1)
	r.onPost(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	const kept, flood, size = 5, 48, 64 << 10
	for range kept {
		h.accepted(small.topic, small.next(1000))
	}
	for range flood {
		h.accepted(hog.topic, hog.next(size))
	}
	retained := func(topic string) (entries, bytes int64) {
		var got struct {
			Retained struct{ Entries, Bytes int64 }
		}
		h.api("/api/v1/topics/"+uuid.NewSHA1(uuid.NameSpaceURL, []byte(topic)).String(), &got)
		return got.Retained.Entries, got.Retained.Bytes
	}
	eventually(t, time.Minute, func() error {
		if _, bytes := retained(hog.topic); bytes > 1<<20 {
			return fmt.Errorf("the flooded topic has %d bytes", bytes)
		}
		return nil
	})
	if n, _ := retained(small.topic); n != kept {
		t.Errorf("the other topic keeps %d notifications, want %d", n, kept)
	}
	if n, bytes := retained(hog.topic); n == 0 || n == flood || bytes < size {
		t.Errorf("the flooded one keeps %d, of %d bytes", n, bytes)
	}
	r.onPost(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	eventually(t, time.Minute, func() error {
		ids := map[string]bool{}
		for _, d := range r.got() {
			ids[d.id] = true
		}
		if len(ids) != kept {
			return fmt.Errorf("%d of %d were delivered", len(ids), kept)
		}
		return nil
	})
}

// --publish-rate in bytes, and a log that a flood of refusals does not fill.
func TestPublishRateAndTheLogOfAFlood(t *testing.T) {
	h := startHub(t, "--publish-rate=100KiB/h", "--max-body=100KiB", "--max-inflight-bytes=1MiB")
	s := newSource("http://127.0.0.1:2/t")
	h.accepted(s.topic, s.next(60<<10))
	refused := h.publish(s.topic, s.next(60<<10))
	if refused.status != http.StatusTooManyRequests || !strings.Contains(string(refused.body), "Too many bytes from you") || refused.header.Get("Retry-After") == "" {
		t.Errorf("%d %v %s", refused.status, refused.header, refused.body)
	}
	for range 1000 {
		h.publish(s.topic, make([]byte, 60<<10))
	}
	h.accepted("http://127.0.0.1:3/t", newSource("").next(1000))
	var log string
	eventually(t, time.Minute, func() error {
		h.log.mu.Lock()
		defer h.log.mu.Unlock()
		if log = strings.Join(h.log.lines, "\n"); !strings.Contains(log, "http://127.0.0.1:2/t") {
			return errors.New("the log is not there yet")
		}
		return nil
	})
	if n := strings.Count(log, `"outcome":"rate-limited"`); n < 100 || n > 200 {
		t.Errorf("%d lines about 1001 refusals", n)
	}
}
