package source

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/rshub/rshub/publisher"
)

// Announcement is a request of an application: changes that it made and hands over. They are
// recorded all or not at all.
type Announcement struct {
	// Name is the application's name of the request; empty: it has none. A request whose Name
	// was recorded within the last 72 hours records nothing, and gets the first Receipt.
	Name string
	// Sum is a digest of the request. A Name with another one is refused.
	Sum [32]byte
	// Changes have a Change each; one without is refused.
	Changes []Given
}

// Receipt says what became of an Announcement.
type Receipt struct {
	// Last is the number of its last change, and At the time of that. Changes is how many
	// there were.
	Last    uint64
	At      time.Time
	Changes int
	// Repeated: the Name was recorded before, and this is the receipt of then.
	Repeated bool
	// Err is why nothing of it is recorded: it is ErrNameUsed or ErrManyNames, or wraps
	// publisher.ErrFull. Nil: all of it is on disk, and will be published.
	Err error
}

// Errors of a Receipt.
var (
	ErrNameUsed  = errors.New("this name (Idempotency-Key or id) was used for another request within the last 72 hours; give each request a name of its own, and repeat it unchanged")
	ErrManyNames = errors.New("as many names of requests are remembered as may be; put more changes into each request, or send them without a name")
)

// errNotAnnounced is the error of Announce for a set whose changes come from elsewhere.
var errNotAnnounced = errors.New("the changes of this set are not announced: it has a folder or a catalogue")

// Announce records announcements for a set with Set.Announced, in their order, and returns a
// receipt for each. Changes of a resource are published as they are announced, whatever was
// announced before. After an error nothing is recorded, unless the disk failed so late that it
// may be; the error wraps ErrGiven if no document can have what is announced. Concurrent calls
// share a write.
func (s *Source) Announce(set string, all ...Announcement) ([]Receipt, error) {
	for _, x := range s.sets {
		if x.name != set {
			continue
		}
		if _, ok := x.packager.origin.(announced); !ok {
			return nil, errNotAnnounced
		}
		if err := x.packager.composer.fits(all); err != nil {
			return nil, err
		}
		receipts, err := x.index.announce(time.Now(), all, full(x))
		if err == nil {
			x.moved.Broadcast()
		}
		return receipts, err
	}
	return nil, fmt.Errorf("there is no set %q", set)
}

// fits returns an error for a path whose URL no document can have.
func (s *composer) fits(all []Announcement) error {
	for i := range all {
		for j := range all[i].Changes {
			r := &all[i].Changes[j].Resource
			if r.URL != "" {
				continue // announce checks it
			}
			if n := utf8.RuneCountInString(s.urlOf(&s.address, r)); n > longestURL {
				return fmt.Errorf("%w: the URL of %.100q... would have %d characters, and %d are the most", ErrGiven, r.Path, n, longestURL)
			}
		}
	}
	return nil
}

// mostWaiting is how many announced changes may wait for the outbox.
const mostWaiting = 1_000_000

// full returns why nothing more may be announced; nil: it may. What was announced goes from the log
// to the outbox, and both have a bound.
func full(s *set) error {
	if s.changes == nil {
		return nil
	}
	if err := s.changes.Full(); err != nil {
		return err
	}
	log, offset := s.index.state(), s.shelf.current().History.Offset
	waiting := log.last.seq + offset
	if recorded := max(s.changes.Recorded(), log.begin.seq+offset); waiting >= recorded+mostWaiting { // what the log lost waits for nothing
		return fmt.Errorf("%w: %d changes wait to be put into it; the log and the status say why", publisher.ErrFull, waiting-recorded)
	}
	return nil
}

// Flush records in the outbox what was announced before the call, and returns when every hub has
// it. The error says which hubs do not have it, because ctx ended or they stopped. Run has to be
// running.
func (s *Source) Flush(ctx context.Context) error {
	var errs []error
	for _, x := range s.sets {
		if x.changes == nil {
			continue
		}
		err := x.feed(ctx)
		if err == nil {
			err = x.changes.Flush(ctx)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
