package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// stubbornSource is a Source as design section 9 wants it: it keeps what it sent,
// sends the same bytes until they are answered 200, to one hub or another, and
// sends again what a 409 says that the hub lost.
type stubbornSource struct {
	w      *world
	n      int // of the topic
	story  *topicStory
	bodies [][]byte
	first  time.Time // where its first interval begins
	// at is the interval that is to be accepted next, since is from when on, and
	// reached where it has been at most.
	at, reached int
	since       time.Duration
}

const link = `<%s>; rel="self", <%s>; rel="hub"`

// hubURL is what all hubs of a nemesis call themselves: they are one.
const hubURL = "http://hub.example/"

func (s *stubbornSource) from(n int) time.Time { return s.first.Add(time.Duration(n) * time.Second) }

// run publishes until ctx ends, and a last interval after that, so that the
// Source learns what the store lost.
func (s *stubbornSource) run(ctx context.Context, pause time.Duration) error {
	for ctx.Err() == nil {
		if err := s.publish(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	<-s.w.healed
	return s.publish(context.WithoutCancel(ctx))
}

// publish builds the next interval and returns when all that was built is
// accepted.
func (s *stubbornSource) publish(ctx context.Context) error {
	n := len(s.bodies)
	body := notification(s.from(n), s.from(n+1), 100+s.n) // no two topics have the same bytes
	s.w.learn(body, s.n, n)
	s.bodies = append(s.bodies, body)
	s.w.mu.Lock()
	s.since = s.w.now()
	s.story.intervals = append(s.story.intervals, &posted{sent: s.since, again: map[string]sending{}})
	s.w.mu.Unlock()
	deadline := time.Now().Add(patience)
	for try := 0; s.at < len(s.bodies); try++ {
		if time.Now().After(deadline) {
			return fmt.Errorf("interval %d of %s is not accepted after %v: %s", s.at, s.story.url, patience, *s.w.lastAnswer.Load())
		}
		if done, err := s.post(ctx, s.w.hubs[(s.n+try)%len(s.w.hubs)]); err != nil {
			return err
		} else if !done {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		deadline = time.Now().Add(patience) // there may be much to send again
	}
	return nil
}

// post sends the interval that is next to a hub, and reports whether that said
// anything but to come again.
func (s *stubbornSource) post(ctx context.Context, h *hub) (bool, error) {
	limited, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	header := http.Header{
		"Content-Type": {"application/xml"}, "Link": {fmt.Sprintf(link, s.story.url, s.w.public)},
		"Accept": {"application/problem+json"},
	}
	a, err := try(limited, http.MethodPost, h.url(), header, s.bodies[s.at])
	if err != nil {
		return false, nil // it is away; another may be there
	}
	answered := string(a.body)
	s.w.lastAnswer.Store(&answered)
	switch a.status {
	case http.StatusOK:
		var r receipt
		if err := json.Unmarshal(a.body, &r); err != nil {
			return false, err
		}
		s.accepted(r)
		return true, nil
	case http.StatusServiceUnavailable:
		if a.header.Get("Retry-After") == "" {
			return false, fmt.Errorf("a 503 without Retry-After: %s", a.body)
		}
		return false, nil
	case http.StatusConflict:
		return true, s.rewind(a.body)
	}
	return false, fmt.Errorf("a publish was answered %d %s", a.status, a.body)
}

func (s *stubbornSource) accepted(r receipt) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	i := s.story.intervals[s.at]
	now := s.w.now()
	if i.accepted == 0 {
		i.accepted = now
	} else if _, known := i.again[r.ID]; !known && !slices.Contains(i.ids, r.ID) {
		i.again[r.ID] = sending{s.since, now}
	}
	if !slices.Contains(i.ids, r.ID) {
		i.ids = append(i.ids, r.ID)
	}
	s.at++
	s.since, s.reached = now, max(s.reached, s.at)
}

// rewind goes to the interval that the hub expects: back to one that was sent before,
// or forward again to where it was already, when there were two masters for a moment.
func (s *stubbornSource) rewind(problem []byte) error {
	var p struct {
		ExpectedFrom time.Time `json:"expected_from"`
	}
	if err := json.Unmarshal(problem, &p); err != nil {
		return fmt.Errorf("%w: %s", err, problem)
	}
	for n := range s.reached + 1 {
		if s.from(n).Equal(p.ExpectedFrom) {
			s.w.mu.Lock()
			defer s.w.mu.Unlock()
			s.at, s.since = n, s.w.now()
			s.story.rewinds++
			return nil
		}
	}
	return fmt.Errorf("interval %d of %s was answered 409, and expected_from is of none that was sent before: %s", s.at, s.story.url, strings.TrimSpace(string(problem)))
}
