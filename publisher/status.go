package publisher

import "time"

// Status is what a Publisher is doing, for people and as JSON. Times that are
// zero are left out.
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
	// Hubs are in the order of Options.
	Hubs []HubStatus `json:"hubs"`
	// Error is why nothing can be written to the outbox; empty while all is well.
	Error string `json:"error,omitempty"`
}

// State is what is going on between a Publisher and a hub.
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
	// LastStatus is that of the last answer, 0 where there was none, LastAt when
	// it came, and LastError what was wrong and what to do; empty after a 200.
	LastStatus int       `json:"last_status,omitempty"`
	LastAt     time.Time `json:"last_at,omitzero"`
	LastError  string    `json:"last_error,omitempty"`
	// Failures counts the POSTs since the last 200.
	Failures    int       `json:"failures,omitempty"`
	NextAttempt time.Time `json:"next_attempt,omitzero"`
	// Stopped says why nothing more is sent and what can be done, and Expected
	// where the hub wants the next interval to start.
	Stopped  string    `json:"stopped,omitempty"`
	Expected time.Time `json:"expected,omitzero"`
}
