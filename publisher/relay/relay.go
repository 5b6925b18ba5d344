package relay

import (
	"errors"
	"fmt"
	"time"

	"github.com/rshub/rshub/publisher"
	"github.com/rshub/rshub/publisher/source"
	"github.com/rshub/rshub/resourcesync"
)

// Outcome is what became of a request.
type Outcome string

// The outcomes.
const (
	Recorded Outcome = "recorded" // its changes are on disk
	Repeated Outcome = "repeated" // they were already, by the request of this name
	Refused  Outcome = "refused"  // something is wrong with it
	Failed   Outcome = "failed"   // they could not be recorded now
)

// Outcomes returns all outcomes.
func Outcomes() []Outcome { return []Outcome{Recorded, Repeated, Refused, Failed} }

// Options configure a Relay. Record and Prefixes are required.
type Options struct {
	// Record records what was announced, in this order, and returns a receipt for each when
	// it is on disk, as source.Source.Announce does. After an error nothing is known of any.
	Record func(all []source.Announcement) ([]source.Receipt, error)
	// Prefixes are what the URL of a resource may begin with. A URL with a dot segment is refused.
	Prefixes []string
	// Token returns the bearer token that requests over HTTP need. Nil: they need none, and
	// then their Host has to name this machine, unless Socket is set.
	Token func() string
	// Socket: Handler serves a Unix socket, to which a Host header says nothing.
	Socket bool
	// Hint is what GET answers beside the fields, for people.
	Hint string
	// Counted, if not nil, is called with the outcome of each request or line.
	Counted func(Outcome)
}

// Relay accepts changes. It may be shared between goroutines.
type Relay struct {
	o      Options
	bodies chan struct{} // a place for each large body that is in memory
}

// New returns a Relay.
func New(o Options) *Relay {
	if o.Counted == nil {
		o.Counted = func(Outcome) {}
	}
	return &Relay{o: o, bodies: make(chan struct{}, largeBodies)}
}

// answer is what a request gets, in this order.
type answer struct {
	ID       string `json:"id,omitempty"`      // of a line
	Line     int    `json:"line,omitempty"`    // of a line with an error
	Seq      uint64 `json:"seq,omitempty"`     // of the last change
	Changes  int    `json:"changes,omitempty"` // how many there were
	Datetime string `json:"datetime,omitempty"`
	Error    string `json:"error,omitempty"`
}

func received(r source.Receipt) answer {
	return answer{Seq: r.Last, Changes: r.Changes, Datetime: resourcesync.FormatDatetime(r.At)}
}

// announcement is a request under the name that the application gave it; empty: none.
func announcement(name string, changes []source.Given) source.Announcement {
	a := source.Announcement{Name: name, Changes: changes}
	if name != "" {
		a.Sum = sum(changes)
	}
	return a
}

// outcome returns the answer to a request that was recorded or not.
func outcome(r source.Receipt) (answer, Outcome, error) {
	switch {
	case errors.Is(r.Err, publisher.ErrFull):
		return answer{}, Failed, notRecorded(r.Err)
	case r.Err != nil:
		return answer{}, Refused, r.Err
	case r.Repeated:
		return received(r), Repeated, nil
	}
	return received(r), Recorded, nil
}

// notRecorded is what an application is told of an error of the disk.
func notRecorded(err error) error {
	return fmt.Errorf("this cannot be recorded now: %w; send it again later, with the same name if it has one", err)
}

// retryAfter is after how long an application may try again.
const retryAfter = 5 * time.Second

// errClosing is the answer while the relay ends.
var errClosing = errors.New("the relay is shutting down; send this again when it is back, with the same name if it has one")
