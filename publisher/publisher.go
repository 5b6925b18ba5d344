package publisher

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// Errors of Record.
var (
	// ErrFull: Options.MaxStored is reached. Nothing was recorded; try again when
	// the hubs have taken some.
	ErrFull = errors.New("the outbox is full")
	// ErrClosed: the Publisher was closed.
	ErrClosed = errors.New("the publisher is closed")
)

// Change is one change of a resource, or of a document for Framework.
type Change struct {
	// Seq, where not zero, counts the changes of whoever records them, upwards.
	// One that is not above Recorded was recorded before and is passed over, so
	// that a feeder may repeat itself after a crash.
	Seq uint64
	// At is when the change was detected; zero: now. Where it is not later than
	// that of the change before, or lies in an interval that has been cut, it
	// becomes the earliest instant that does not: times strictly rise.
	At time.Time
	// Entry says what changed: Loc and Change at least, and Capability for
	// Framework. Datetime is set to At. Of a deletion, Hash, Length, Type and
	// Encoding are left out (DOC-17).
	Entry resourcesync.Entry
}

// Publisher publishes the changes of one topic. It may be shared between
// goroutines.
type Publisher struct {
	o Options
}

// Open opens the outbox in o.Dir. Nothing is sent before Run. The error says
// which option is wrong, or what is with the folder.
func Open(o Options) (*Publisher, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Publisher{o: o}, nil
}

// Record takes changes, in this order. When it returns nil they are on disk and
// will be published; after an error none of them is, but where ctx ended they
// may be. An entry that is none is an error that wraps a *resourcesync.Error, and
// names which it is. Calls at the same time share one write.
func (p *Publisher) Record(ctx context.Context, changes ...Change) error {
	return errors.ErrUnsupported
}

// Recorded is the highest Seq that was recorded; 0: none was.
func (p *Publisher) Recorded() uint64 { return 0 }

// Flush cuts what was recorded before the call without waiting for more, and
// returns when every hub has it. An error says which hubs don't: because ctx
// ended, or because they stopped. It takes Run to be running.
func (p *Publisher) Flush(ctx context.Context) error { return errors.ErrUnsupported }

// Run cuts and sends until ctx ends, and then returns nil. Any other end is an
// error of the disk. It is called once.
func (p *Publisher) Run(ctx context.Context) error { return errors.ErrUnsupported }

// Resume has a hub go on that has stopped: with the interval that starts at from,
// whatever it got before. A zero from is where it stopped, for a hub that was
// mended or whose topic was reset. Where from is later than all intervals, what
// is recorded is cut there. An error names the intervals that there are around
// from.
func (p *Publisher) Resume(ctx context.Context, hub string, from time.Time) error {
	return errors.ErrUnsupported
}

// Handler serves the topic URI (SRC-02, SRC-03) and, below it, the immutable
// copies of notifications. It is mounted where the path of the topic leads.
func (p *Publisher) Handler() http.Handler { return http.NotFoundHandler() }

// Status tells how things stand.
func (p *Publisher) Status() Status { return Status{} }

// Close gives the folder free. Run has to have returned.
func (p *Publisher) Close() error { return nil }
