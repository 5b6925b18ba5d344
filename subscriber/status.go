package subscriber

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"github.com/rshub/rshub/internal/base/atomicfile"
	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/internal/base/clock"
)

// Counts are what a Subscriber counted since its folder was new.
type Counts struct {
	Received     uint64            `json:"received"` // notifications that were stored
	Duplicates   uint64            `json:"duplicates"`
	Early        uint64            `json:"early"`     // the received ones that had to wait for others
	Postponed    uint64            `json:"postponed"` // the hub was asked to send them again later
	Refused      map[string]uint64 `json:"refused,omitempty"`
	LastReceived time.Time         `json:"last_received,omitzero"`
	// Backlog is the bytes, Batches the notifications that wait for the
	// application, and Held those that wait for others.
	Backlog int64 `json:"backlog_bytes"`
	Batches int   `json:"backlog"`
	Held    int   `json:"held"`
}

// Status is what a Subscriber is doing.
type Status struct {
	AsOf  time.Time `json:"as_of"`
	Topic string    `json:"topic"` // as in Options
	// Way is how notifications come now: ViaCallback, ViaStream or ViaPoll. With ViaAuto it is
	// ViaPoll while the hub has no stream.
	Way           Via                  `json:"way,omitempty"`
	Subscriptions []SubscriptionStatus `json:"subscriptions"`
	// Stream is the hub's stream that is read in place of a subscription; nil: none is.
	Stream *StreamStatus `json:"stream,omitempty"`
	// Until is the instant up to which everything was received, pushed or repaired.
	Until time.Time `json:"until,omitzero"`
	// Behind is since when something waits: a notification for the application or for others
	// before it, or a gap for its repair; zero: nothing does.
	Behind time.Time `json:"behind,omitzero"`
	Cursor Cursor    `json:"cursor"`
	Counts Counts    `json:"counts"`
	Gaps   []Gap     `json:"gaps"` // the latest, oldest first
	// Trouble is what keeps it from subscribing or repairing; empty: nothing.
	Trouble string `json:"trouble,omitempty"`
}

// SubscriptionStatus is a subscription without its secrets.
type SubscriptionStatus struct {
	Topic      string    `json:"topic"`
	Hub        string    `json:"hub"`
	State      string    `json:"state"` // pending, active, expired, denied or ended
	Signed     bool      `json:"signed"`
	VerifiedAt time.Time `json:"verified_at,omitzero"`
	ExpiresAt  time.Time `json:"expires_at,omitzero"`
	RenewAt    time.Time `json:"renew_at,omitzero"`
	Denied     string    `json:"denied,omitempty"`
}

// StreamStatus is a stream that is read.
type StreamStatus struct {
	Hub string `json:"hub,omitempty"` // empty: it is not found yet
	// State is StreamOpen, StreamBroken, StreamWaiting or StreamNone.
	State string `json:"state"`
	// Since is when the state began.
	Since time.Time `json:"since,omitzero"`
	// LastEvent is when the last notification or gap came by it, and Reconnects how often it
	// opened again, both since Run began.
	LastEvent  time.Time `json:"last_event,omitzero"`
	Reconnects int       `json:"reconnects"`
	// Why is why it is not open.
	Why string `json:"why,omitempty"`
}

// States of a stream.
const (
	StreamOpen    = "open"    // it is read
	StreamBroken  = "broken"  // it broke, or the hub does not answer; it is tried again
	StreamWaiting = "waiting" // the hub has nothing of the topic yet; it is asked every few seconds
	StreamNone    = "none"    // the hub has none for this reader; it is asked again later
)

// Status returns it as of now.
func (s *Subscriber) Status() (Status, error) {
	st := Status{AsOf: time.Now(), Topic: s.o.Topic}
	err := s.inbox.db.View(func(tx *boltfile.Tx) error {
		st.Until, st.Cursor, st.Gaps = s.inbox.tail(tx).Until, readCursor(tx), readGaps(tx)
		for _, sub := range readSubscriptions(tx) {
			st.Subscriptions = append(st.Subscriptions, sub.status(st.AsOf))
		}
		st.Behind = behind(tx, st.Gaps)
		return nil
	})
	st.Counts, st.Trouble, st.Stream = s.inbox.counted(), s.troubles.String(), s.streamer.status()
	st.Way = s.o.way(st.Stream)
	return st, err
}

// behind returns Status.Behind.
func behind(tx *boltfile.Tx, gaps []Gap) (since time.Time) {
	earliest := func(at time.Time) {
		if since.IsZero() || at.Before(since) {
			since = at
		}
	}
	for _, name := range [][]byte{inboxBucket, heldBucket} {
		bucket := tx.Bucket(name)
		for key, raw := range bucket.From(nil) {
			b, _, err := unpackBatch(raw)
			if err != nil {
				bucket.Refuse(key, err)
			}
			earliest(b.Received)
			break // in the inbox, the others came later
		}
	}
	for i := range gaps {
		if gaps[i].State == GapOpen {
			earliest(gaps[i].FoundAt)
		}
	}
	return since
}

// Ready returns nil if the state can be read and its last write succeeded, otherwise why not.
func (s *Subscriber) Ready() error { return cmp.Or(s.inbox.db.Ready(), s.inbox.db.Trouble()) }

func (b *subscription) status(now time.Time) SubscriptionStatus {
	out := SubscriptionStatus{
		Topic: b.Topic, Hub: b.Hub, Signed: b.Secret != "", VerifiedAt: b.VerifiedAt, ExpiresAt: b.ExpiresAt, RenewAt: b.RenewAt, Denied: b.Denied,
	}
	switch {
	case !b.EndedAt.IsZero():
		out.State = "ended"
	case b.inForce(now):
		out.State = "active"
	case b.Denied != "":
		out.State = "denied"
	case !b.ExpiresAt.IsZero():
		out.State = "expired"
	default:
		out.State = "pending"
	}
	return out
}

// statusFile is what ReadStatus reads. It is written at most each statusEvery.
const (
	statusFile  = "status.json"
	statusEvery = 2 * time.Second
	statusRest  = time.Minute // between looks, if nothing changed
)

// keepStatus writes the status for other processes until ctx ends.
func (s *Subscriber) keepStatus(ctx context.Context) {
	for {
		changed := s.inbox.changed.Wait()
		if err := s.writeStatus(); err != nil && ctx.Err() == nil {
			if _, ok := s.quiet.Line(time.Now(), "status_failed"); ok {
				s.log.Warn("the status could not be written", "event", "status_failed", "error", err)
			}
		}
		if !clock.Wait(ctx, statusRest, changed) || !clock.Sleep(ctx, statusEvery) {
			return
		}
	}
}

// writeStatus stores the counts, and writes the status file, if the status has changed.
func (s *Subscriber) writeStatus() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	st, err := s.Status()
	if err != nil {
		return err
	}
	was := s.written
	s.written = st
	s.written.AsOf = time.Time{}
	if reflect.DeepEqual(was, s.written) {
		return nil
	}
	err = s.inbox.db.Update(func(tx *boltfile.Tx) error {
		return tx.Bucket(metaBucket).PutJSON(countsKey, st.Counts)
	})
	if err != nil {
		return err
	}
	return st.write(s.o.Dir)
}

// write writes the status file.
func (st *Status) write(dir string) error {
	raw, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(dir, statusFile), atomicfile.Options{Durability: atomicfile.Volatile}, append(raw, '\n'))
}

// ReadStatus reads the status of the Subscriber with the folder dir, which may be
// running in another process. Status.AsOf is when it last changed. A running Subscriber
// writes a change within seconds.
func ReadStatus(dir string) (Status, error) {
	var st Status
	raw, err := os.ReadFile(filepath.Join(dir, statusFile)) //nolint:gosec // the folder is the caller's
	if errors.Is(err, fs.ErrNotExist) {
		return st, fmt.Errorf("no subscriber has worked in %s yet; one that waits for its Source begins once the Source answers: %w", dir, err)
	}
	if err != nil {
		return st, err
	}
	if err := json.Unmarshal(raw, &st); err != nil {
		return st, fmt.Errorf("%s is damaged: %w", filepath.Join(dir, statusFile), err)
	}
	return st, nil
}
