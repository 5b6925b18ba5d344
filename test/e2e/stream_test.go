package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rshub/rshub/subscriber"
)

// streamer reads a stream as a browser does: it reconnects with the last id.
type streamer struct {
	mu  sync.Mutex
	ids []string // of notifications, each the first time that it came
	bad []string // gaps, and what it could not read
}

// follow reads until ctx ends.
func (s *streamer) follow(ctx context.Context, h *hub, topic string) {
	last := ""
	for ctx.Err() == nil {
		last = readStream(ctx, h.url()+"?hub.topic="+url.QueryEscape(topic)+"&after=earliest", last, s.take)
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// readStream reads one stream to its end, and returns the last id. Take gets each event.
func readStream(ctx context.Context, address, last string, take func(event, data string)) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return last
	}
	req.Header.Set("Accept", "text/event-stream")
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return last // the hub is away
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	if resp.StatusCode != http.StatusOK {
		return last // nothing was published yet
	}
	event, data := "", ""
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 2<<20)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "event":
			event = value
		case "data":
			data = value
		case "id":
			last = value
		case "":
			if event != "" {
				take(event, data)
			}
			event, data = "", ""
		}
	}
	return last
}

// ranged reads with package subscriber until ctx ends.
func (s *streamer) ranged(ctx context.Context, h *hub, topic string) {
	for n, err := range subscriber.Notifications(ctx, subscriber.StreamOptions{Hub: h.url(), Topic: topic, After: "earliest", Client: http.DefaultClient}) {
		switch {
		case err != nil: // the hub is away
		case n.Gap != "":
			s.take("gap", n.Gap)
		default:
			s.take("notification", fmt.Sprintf(`{"id":%q}`, n.ID))
		}
	}
}

func (s *streamer) take(event, data string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var n struct{ ID string }
	if err := json.Unmarshal([]byte(data), &n); event != "notification" || err != nil {
		s.bad = append(s.bad, event+" "+data)
	} else if !slices.Contains(s.ids, n.ID) {
		s.ids = append(s.ids, n.ID)
	}
}

// Readers of streams miss nothing when a hub is killed: each has every accepted notification in order,
// from one hub after another. The first reads with package subscriber.
func TestStreamOutlivesKills(t *testing.T) {
	const notifications, readers, kills = 60, 10, 5
	rnd := newRand(t)
	h := startHub(t)
	src := newSource("http://" + h.addr + "/nowhere")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	all := make([]streamer, readers)
	var reading sync.WaitGroup
	for i := range all {
		reading.Go(func() {
			if i == 0 {
				all[i].ranged(ctx, h, src.topic)
			} else {
				all[i].follow(ctx, h, src.topic)
			}
		})
	}
	var accepted []string
	for i := range notifications {
		r, err := h.publishUntilAccepted(ctx, src.topic, src.next(200))
		if err != nil {
			t.Fatal(err)
		}
		accepted = append(accepted, r.ID)
		if i%(notifications/kills) == rnd.IntN(notifications/kills) {
			h.kill()
			h.start()
		}
	}
	for i := range all {
		eventually(t, time.Minute, func() error {
			all[i].mu.Lock()
			defer all[i].mu.Unlock()
			if len(all[i].bad) > 0 || !slices.Equal(all[i].ids, accepted) {
				return fmt.Errorf("reader %d has %d notifications of %d, in order: %t; %q", i, len(all[i].ids), len(accepted), slices.Equal(all[i].ids, accepted[:min(len(all[i].ids), len(accepted))]), all[i].bad)
			}
			return nil
		})
	}
	cancel()
	reading.Wait()
}
