package publisher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/websub"
)

// Errors of Record.
var (
	// ErrFull: Options.MaxStored is reached. Nothing was recorded; try again when
	// the hubs have taken some.
	ErrFull = errors.New("the outbox is full")
	// ErrClosed: the Publisher was closed.
	ErrClosed = errors.New("the publisher is closed")
)

// Publisher publishes the changes of one topic. It may be shared between
// goroutines.
type Publisher struct {
	o         Options
	ownClient bool  // Options named none
	frameSize int64 // of a notification without entries, in bytes
	box       *outbox
	senders   []*sender

	cutting sync.Mutex    // held by who cuts, or divides
	moving  sync.Mutex    // held by who moves a cursor
	cutter  chan struct{} // wakes Run

	troubles sync.Map // part of Run -> why it waits for the disk

	progressMu sync.Mutex
	progress   chan struct{} // closed and replaced when a cursor moves or a hub stops
}

// Open opens the outbox in o.Dir. Nothing is sent before Run. The error says
// which option is wrong, or what is with the folder.
func Open(o Options) (*Publisher, error) {
	own := o.Client == nil
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Publisher{o: o, ownClient: own, cutter: make(chan struct{}, 1), progress: make(chan struct{})}
	if p.frameSize, err = o.frameSize(); err != nil {
		return nil, err
	}
	from := o.From.UTC()
	if from.IsZero() {
		from = time.Now().UTC().Truncate(tick)
	}
	if from.Before(firstInstant) || !from.Before(lastInstant) {
		return nil, fmt.Errorf("the first interval would begin at %s: use a time from 1970 to 2262", from.Format(time.RFC3339))
	}
	if p.box, err = openOutbox(o.Dir, state{Topic: o.Topic, Kind: o.Kind, Until: from}); err != nil {
		return nil, err
	}
	if err := p.enlist(); err != nil {
		return nil, errors.Join(err, p.box.db.Close())
	}
	return p, nil
}

// enlist makes a sender for each hub, and a cursor for one that is new: the end of
// what has been cut.
func (p *Publisher) enlist() error {
	err := p.box.do(context.Background(), func(tx *boltfile.Tx, now *outboxState) error {
		p.senders = p.senders[:0]
		hubs := tx.Bucket(bucketHubs)
		for _, h := range p.o.Hubs {
			m, err := cursorOf(hubs, h.URL, now)
			if err != nil {
				return err
			}
			p.senders = append(p.senders, newSender(p, h, m))
		}
		return nil
	})
	for _, h := range p.o.Hubs {
		if h.InClear() {
			p.o.Log.Warn("the token for this hub goes over the network unencrypted: use its https URL",
				slog.String("event", "credential_in_clear"), slog.String("hub", h.URL))
		}
	}
	return err
}

// cursorOf reads the cursor of a hub, which may be there under another spelling of its
// URL: that one is taken over, or the later of the two. A hub that has none gets one.
func cursorOf(hubs boltfile.Bucket, hub string, now *outboxState) (hubCursor, error) {
	var found []hubCursor
	var others [][]byte
	err := hubs.ForEach(func(k, v []byte) error {
		if websub.HubURL(string(k)) != websub.HubURL(hub) {
			return nil
		}
		if string(k) != hub {
			others = append(others, bytes.Clone(k))
		}
		m, err := unpackCursor(v)
		found = append(found, m)
		return err
	})
	for _, k := range others {
		err = errors.Join(err, hubs.Delete(k))
	}
	if err != nil {
		return hubCursor{}, err
	}
	if len(found) == 0 {
		var m hubCursor
		if now.Begun {
			m.Until = now.Until
		}
		found = append(found, m)
	}
	m := slices.MaxFunc(found, func(a, b hubCursor) int { return a.Until.Compare(b.Until) })
	return m, hubs.Put([]byte(hub), pack(m))
}

// The parts of Run beside the hubs.
const (
	partCutting  = "cutting"
	partTrimming = "trimming"
)

// wakeCutter has Run look whether it is time to cut.
func (p *Publisher) wakeCutter() { nudge(p.cutter) }

// wakeSenders tells all hubs that there is something.
func (p *Publisher) wakeSenders() {
	for _, s := range p.senders {
		nudge(s.wake)
	}
}

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// moved tells those that wait for a hub.
func (p *Publisher) moved() {
	p.progressMu.Lock()
	defer p.progressMu.Unlock()
	close(p.progress)
	p.progress = make(chan struct{})
	p.wakeCutter()
}

func (p *Publisher) onProgress() <-chan struct{} {
	p.progressMu.Lock()
	defer p.progressMu.Unlock()
	return p.progress
}

// begins reports whether an interval that is kept begins at an instant.
func (p *Publisher) begins(at time.Time) bool {
	found := false
	err := p.box.view(func(tx *boltfile.Tx) error {
		is, err := beginningAt(tx, at)
		found = len(is) > 0
		return err
	})
	return err == nil && found && !at.IsZero()
}

// Close gives the folder free. Run has to have returned. It may be called again.
func (p *Publisher) Close() error {
	if own, ok := p.o.Client.(*egress.Client); ok && p.ownClient {
		own.CloseIdleConnections()
	}
	return p.box.db.Close()
}
