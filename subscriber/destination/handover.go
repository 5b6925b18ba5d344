package destination

import (
	"context"
	"encoding/binary"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/resourcesync"
)

const (
	handFile  = "handover.db"
	handMost  = 10_000 // events that wait for Options.Hand before nothing more is copied
	handFirst = time.Second
	handLast  = time.Minute
)

var handBucket = []byte("events") // Event as JSON, by number

// handover gives Options.Hand the files that were copied or deleted. An event is on disk before
// the file is recorded, so that a crash loses none.
type handover struct {
	db   *boltfile.DB
	hand func(context.Context, Event) error
	log  *slog.Logger
	most int          // handMost
	more clock.Signal // an event was added
	room clock.Signal // an event was handed over

	mu      sync.Mutex
	waiting int
}

// openHandover opens the events that wait; nil: nobody wants any.
func openHandover(o *Options) (*handover, error) {
	if o.Hand == nil || o.DryRun {
		return nil, nil
	}
	h := &handover{hand: o.Hand, log: o.Log, most: handMost}
	var err error
	h.db, err = boltfile.Open(filepath.Join(o.StateDir, handFile), boltfile.Options{
		Buckets: [][]byte{handBucket}, Format: 1, Wait: time.Second,
		Advice: "Move it away and start again: the command is not run for the changes that waited in it",
		Reload: func(tx *boltfile.Tx) error {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.waiting = tx.Bucket(handBucket).Len()
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	return h, nil
}

// close releases the file.
func (h *handover) close() error {
	if h == nil {
		return nil
	}
	return h.db.Close()
}

// add stores events. While too many wait, it waits until ctx ends.
func (h *handover) add(ctx context.Context, events []Event) error {
	if h == nil || len(events) == 0 {
		return nil
	}
	for {
		room := h.room.Wait()
		if h.count() < h.most {
			break
		}
		select {
		case <-room:
			continue
		case <-ctx.Done(): // what is in place already is handed over all the same
		}
		break
	}
	err := h.db.Update(func(tx *boltfile.Tx) error {
		b := tx.Bucket(handBucket)
		for i := range events {
			n, err := b.NextSequence()
			if err == nil {
				err = b.PutJSON(binary.BigEndian.AppendUint64(nil, n), &events[i])
			}
			if err != nil {
				return err
			}
		}
		h.counted(len(events))
		return nil
	})
	if err != nil {
		return err
	}
	h.more.Broadcast()
	return nil
}

// counted counts events that came or went, within the transaction that stores it: Reload counts all if that fails.
func (h *handover) counted(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting += n
}

func (h *handover) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiting
}

// run hands events over, one after the other, until ctx ends.
func (h *handover) run(ctx context.Context) {
	if h == nil {
		return
	}
	wait := handFirst
	for ctx.Err() == nil {
		more := h.more.Wait()
		var key []byte
		var e Event
		err := h.db.View(func(tx *boltfile.Tx) error {
			for k := range tx.Bucket(handBucket).From(nil) {
				key = append(key, k...)
				tx.Bucket(handBucket).GetJSON(k, &e)
				break
			}
			return nil
		})
		if err == nil && key == nil {
			select {
			case <-more:
			case <-ctx.Done():
			}
			continue
		}
		if err == nil {
			err = h.hand(ctx, e)
		}
		if err == nil {
			err = h.db.Update(func(tx *boltfile.Tx) error {
				h.counted(-1)
				return tx.Bucket(handBucket).Delete(key)
			})
		}
		if err == nil {
			h.room.Broadcast()
			wait = handFirst
			continue
		}
		if ctx.Err() == nil {
			h.log.Warn("a change could not be handed over; it is tried again, and no other one before it", "event", "handover_failed", "url", e.URL, "wait", wait, "error", err)
		}
		if !clock.Sleep(ctx, wait) {
			return
		}
		wait = min(2*wait, handLast)
	}
}

// handed returns the events of results that Options.Hand gets. Each says what happened to the
// file of the copy.
func (r *reconciler) handed(batch []result) (out []Event) {
	if r.handover == nil {
		return nil
	}
	for i := range batch {
		e := batch[i].event()
		switch e.What {
		case Copied:
			e.Change = resourcesync.Updated
			if _, had := r.state.file(e.URL); !had {
				e.Change = resourcesync.Created
			}
		case Deleted:
			e.Change = resourcesync.Deleted
		default:
			continue
		}
		out = append(out, e)
	}
	return out
}
