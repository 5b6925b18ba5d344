package publisher

import (
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
)

// Status is the state of a Publisher, for people and as JSON, which leaves out zero times.
type Status struct {
	Topic string `json:"topic"`
	Kind  Kind   `json:"kind"`
	// Recorded is the highest Seq, and Last the time of the last change.
	Recorded uint64    `json:"recorded"`
	Last     time.Time `json:"last,omitzero"`
	// Until is the end of the last interval.
	Until time.Time `json:"until,omitzero"`
	// Queued counts the changes that are in no interval yet.
	Queued      int   `json:"queued"`
	QueuedBytes int64 `json:"queued_bytes"`
	// Kept counts the intervals on disk, acknowledged ones among them.
	Kept      int   `json:"kept"`
	KeptBytes int64 `json:"kept_bytes"`
	// MaxStored is Options.MaxStored. Full: it is reached.
	MaxStored int64 `json:"max_stored"`
	Full      bool  `json:"full,omitempty"`
	// Hubs are in the order of Options.
	Hubs []HubStatus `json:"hubs"`
	// Error is what is wrong with the outbox; empty while all is well.
	Error string `json:"error,omitempty"`
}

// State is the state of sending to a hub.
type State string

// The states.
const (
	UpToDate State = "up to date" // the hub has every interval
	Sending  State = "sending"    // a POST is under way, or about to be
	Waiting  State = "waiting"    // the last POST failed; NextAttempt says when it is sent again
	Stopped  State = "stopped"    // Resume has to say how to go on
)

// HubStatus is how far one hub is.
type HubStatus struct {
	URL   string `json:"url"`
	State State  `json:"state"`
	// Until is the watermark: the end of the last interval that the hub
	// acknowledged.
	Until time.Time `json:"until,omitzero"`
	// Pending counts the intervals that the hub does not have.
	Pending      int   `json:"pending"`
	PendingBytes int64 `json:"pending_bytes"`
	// Oldest is the end of the first interval that the hub does not have; zero: it has all.
	Oldest time.Time `json:"oldest,omitzero"`
	// TooLarge is the size of the smallest notification that was too large for the
	// hub, in bytes; 0: none was. Smaller ones are cut since, until Resume.
	TooLarge int64 `json:"too_large,omitempty"`
	// LastStatus is the status of the last answer, 0 if there was none, and LastAt its
	// time. LastError says what was wrong and what to do; empty after a 200.
	LastStatus int       `json:"last_status,omitempty"`
	LastAt     time.Time `json:"last_at,omitzero"`
	LastError  string    `json:"last_error,omitempty"`
	// Failures counts the POSTs since the last 200.
	Failures    int       `json:"failures,omitempty"`
	NextAttempt time.Time `json:"next_attempt,omitzero"`
	// Stopped says why nothing more is sent and what to do. Expected is where the hub
	// expects the next interval to begin, and Refused where that began which it refused.
	Stopped  string    `json:"stopped,omitempty"`
	Expected time.Time `json:"expected,omitzero"`
	Refused  time.Time `json:"refused,omitzero"`
}

// Status returns the current Status.
func (p *Publisher) Status() Status {
	now := p.box.outboxState()
	st := Status{
		Topic: p.o.Topic, Kind: p.o.Kind, Recorded: now.Recorded, Last: now.Last,
		Queued: now.queued, QueuedBytes: now.queuedBytes, Kept: now.kept, KeptBytes: now.keptBytes,
		MaxStored: p.o.MaxStored, Full: p.full(&now) != nil, Hubs: make([]HubStatus, len(p.senders)),
	}
	if now.Begun {
		st.Until = now.Until
	}
	trouble := p.box.db.Trouble()
	p.troubles.Range(func(_, err any) bool {
		trouble, _ = err.(error)
		return false // one says enough
	})
	if trouble != nil {
		st.Error = trouble.Error()
	}
	for n, s := range p.senders {
		h := s.status()
		var err error
		if err = p.box.pending(s.cursor(), &h); err != nil && st.Error == "" {
			st.Error = err.Error()
		}
		if h.State == "" {
			h.State = UpToDate
			if h.Pending > 0 {
				h.State = Sending
			}
		}
		st.Hubs[n] = h
	}
	return st
}

// status is the status that needs no look at the outbox.
func (s *sender) status() HubStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.last
	h.URL, h.Until, h.TooLarge, h.Failures = s.hub.URL, s.m.Until, s.m.Refused, s.failures
	switch {
	case h.Stopped != "":
		h.State = Stopped
	case s.posting.Load():
		h.State = Sending
	case h.NextAttempt.After(time.Now()):
		h.State = Waiting
	}
	return h
}

// pending counts the intervals after a cursor into the status of a hub. Of an interval that
// was divided, it counts the whole.
func (x *outbox) pending(m hubCursor, h *HubStatus) error {
	return x.db.View(func(tx *boltfile.Tx) error {
		var last interval // that was counted
		for i := range intervalsFrom(tx, m.Until) {
			switch {
			case h.Pending > 0 && i.From.Equal(last.From): // last is a part of it
				h.PendingBytes -= last.Size
			case i.From.Before(last.Until):
				continue // a part of last
			default:
				h.Pending++
			}
			h.PendingBytes += i.Size
			if last = i; h.Pending == 1 {
				h.Oldest = i.Until
			}
		}
		return nil
	})
}
