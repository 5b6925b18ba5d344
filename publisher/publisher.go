package publisher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/websub"
)

// Errors of Record.
var (
	// ErrFull: Options.MaxStored is reached. Nothing was recorded. Try again when the
	// hubs have accepted some.
	ErrFull = errors.New("the outbox is full")
	// ErrClosed: the Publisher was closed.
	ErrClosed = errors.New("the publisher is closed")
)

// Publisher publishes the changes of one topic. It may be shared between
// goroutines.
type Publisher struct {
	o         Options
	release   func() // closes the client that Open made
	frameSize int64  // of a notification without entries, in bytes
	box       *outbox
	senders   []*sender

	cutting sync.Mutex   // locked to cut or divide
	moving  sync.Mutex   // locked to move a cursor
	changed clock.Signal // something was recorded, a cursor moved or a hub stopped

	troubles sync.Map // part of Run -> why it waits for the disk
}

// Open opens the outbox in o.Dir. Nothing is sent before Run. The error says
// which option is wrong, or what is wrong with the folder.
func Open(o Options) (*Publisher, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Publisher{o: o}
	if p.frameSize, err = o.frameSize(); err != nil {
		return nil, err
	}
	from := o.From.UTC()
	if from.IsZero() {
		from = time.Now().UTC().Truncate(tick)
	}
	if !isStorable(from) {
		return nil, fmt.Errorf("the first interval would begin at %s: use a time from 1970 to 2262", from.Format(time.RFC3339))
	}
	if p.o.Client, p.release, err = withoutRedirects(o.Client); err != nil {
		return nil, err
	}
	if p.box, err = openOutbox(o.Dir, state{Topic: o.Topic, Kind: o.Kind, Until: from}); err != nil {
		return nil, err
	}
	if err := p.openSenders(); err != nil {
		return nil, errors.Join(err, p.box.db.Close())
	}
	return p, nil
}

// openSenders makes a sender for each hub. The cursor of a new hub is the end of what has
// been cut.
func (p *Publisher) openSenders() error {
	for _, h := range p.o.Hubs {
		if h.InClear() {
			p.o.Log.Warn("the token for this hub goes over the network unencrypted: use its https URL",
				slog.String("event", "credential_in_clear"), slog.String("hub", h.URL))
		}
	}
	return p.box.do(context.Background(), func(tx *boltfile.Tx, now *outboxState) error {
		p.senders = p.senders[:0]
		for _, h := range p.o.Hubs {
			m, err := cursorOf(tx.Bucket(bucketHubs), h.URL, now)
			if err != nil {
				return err
			}
			p.senders = append(p.senders, newSender(p, h, m))
		}
		return nil
	})
}

// cursorOf reads the cursor of a hub. Cursors under other spellings of its URL become one
// with it, which is the latest of them. A hub without any gets one.
func cursorOf(hubs boltfile.Bucket, hub string, now *outboxState) (m hubCursor, err error) {
	var found [][]byte
	for k := range hubs.From(nil) {
		if websub.HubURL(string(k)) != websub.HubURL(hub) {
			continue
		}
		var other hubCursor
		if hubs.GetJSON(k, &other); found == nil || other.Until.After(m.Until) {
			m = other
		}
		found = append(found, bytes.Clone(k))
	}
	if found == nil && now.Begun {
		m.Until = now.Until
	}
	for _, k := range found {
		err = errors.Join(err, hubs.Delete(k))
	}
	return m, errors.Join(err, hubs.PutJSON([]byte(hub), m))
}

// The parts of Run beside the hubs.
const (
	partCutting  = "cutting"
	partTrimming = "trimming"
)

// wakeSenders tells all hubs' senders that there may be something to send.
func (p *Publisher) wakeSenders() {
	for _, s := range p.senders {
		s.wake.Broadcast()
	}
}

// begins reports whether a stored interval begins at an instant.
func (p *Publisher) begins(at time.Time) bool {
	found, err := boltfile.Read(p.box.db, func(tx *boltfile.Tx) []interval { return beginningAt(tx, at) })
	return err == nil && len(found) > 0 && !at.IsZero()
}

// Close releases the folder. Run has to have returned. It may be called again.
func (p *Publisher) Close() error {
	p.release()
	err := p.box.db.Close()
	p.changed.Broadcast() // ends a Flush
	return err
}
