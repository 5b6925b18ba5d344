package subscriber

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"github.com/rshub/rshub/resourcesync"
)

// batch describes changes, or a piece of content, that wait for the application.
type batch struct {
	ID        string    `json:"id,omitempty"` // Webhook-Id; empty: none, or it was repaired
	From      time.Time `json:"from,omitzero"`
	Until     time.Time `json:"until,omitzero"` // zero: no continuity
	MediaType string    `json:"type,omitempty"`
	Received  time.Time `json:"received"`
	Repaired  bool      `json:"repaired,omitempty"` // taken from a Change List
	Baseline  bool      `json:"baseline,omitempty"` // nothing but that the interval can't be had
	Content   bool      `json:"content,omitempty"`  // the payload is no document about changes
	// After and Skip tell which changes of an interval that overlaps were handed
	// on before: those earlier than After, and those at After that Skip names.
	After time.Time `json:"after,omitzero"`
	Skip  []string  `json:"skip,omitempty"`

	edge []string // the changes at Until, for the next one's Skip
}

// tail is how far the inbox is complete.
type tail struct {
	Until time.Time `json:"until"`
	// Edge names the changes at Until itself, since the two intervals that meet
	// there may both have them (DOC-13).
	Edge []string `json:"edge,omitempty"`
}

// name names a change, to tell it from others at the same instant.
func name(e *resourcesync.Entry) string {
	sum := sha256.Sum256([]byte(e.Loc + "\n" + e.Change + "\n" + resourcesync.FormatDatetime(e.Datetime)))
	return base64.RawStdEncoding.EncodeToString(sum[:12])
}

// had reports whether a change of the batch was handed on before.
func (b *batch) had(e *resourcesync.Entry, skip map[string]bool) bool {
	switch {
	case b.After.IsZero() || e.Datetime.IsZero():
		return false
	case e.Datetime.Before(b.After):
		return true
	default:
		return e.Datetime.Equal(b.After) && skip[name(e)]
	}
}

// errNotification wraps why a payload is no notification.
var errNotification = errors.New("it is no valid notification")

// examine reads a payload as far as continuity needs it. What is not XML, and
// XML of another kind where the topic is not known to carry notifications, is
// content.
func examine(mediaType string, body []byte, changesOnly bool) (batch, error) {
	b := batch{MediaType: mediaType, Received: time.Now()}
	media, _, _ := mime.ParseMediaType(mediaType)
	if !strings.HasSuffix(media, "xml") && !changesOnly {
		b.Content = true
		return b, nil
	}
	r := resourcesync.NewNotificationReader(bytes.NewReader(body), resourcesync.Limits{Bytes: int64(len(body)) + 1})
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if changesOnly {
				return b, fmt.Errorf("%w: %w", errNotification, err)
			}
			b.Content, b.edge = true, nil
			return b, nil
		}
		if u := r.Notification().Until; !u.IsZero() && e.Datetime.Equal(u) && len(b.edge) < maxEdge {
			b.edge = append(b.edge, name(&e))
		}
	}
	n := r.Notification()
	if !n.From.IsZero() && !n.Until.IsZero() {
		b.From, b.Until = n.From, n.Until
	}
	return b, nil
}

// outcome is what became of a notification.
type outcome int

const (
	appended outcome = iota
	duplicate
	held
	noRoom // nothing was stored
)

// take stores a notification where it belongs, in tx.
func (s *Subscriber) take(tx *bbolt.Tx, b batch, payload []byte) (outcome, error) {
	meta := tx.Bucket(metaBucket)
	t, err := s.tail(tx)
	if err != nil {
		return noRoom, err
	}
	if s.counts.Backlog+int64(len(payload)) > s.o.MaxBacklog && s.counts.Backlog > 0 {
		return noRoom, nil
	}
	if b.Until.IsZero() {
		if b.ID != "" {
			if again, err := remember(tx.Bucket(idsBucket), b.ID); again || err != nil {
				return duplicate, err
			}
		}
		return appended, s.append(tx, b, payload)
	}
	switch {
	case t.Until.IsZero():
	case b.From.After(t.Until):
		return s.hold(tx, b, payload)
	case b.Until.Before(t.Until), b.Until.Equal(t.Until) && b.From.Before(t.Until):
		return duplicate, nil
	case b.Until.Equal(t.Until): // of length zero: it may hold what its neighbours lack
		b.edge = append(b.edge, t.Edge...)
	}
	b.After, b.Skip = t.Until, t.Edge
	if err := s.append(tx, b, payload); err != nil {
		return noRoom, err
	}
	if err := putJSON(meta, tailKey, tail{Until: b.Until, Edge: bounded(b.edge)}); err != nil {
		return noRoom, err
	}
	return appended, s.release(tx)
}

func bounded(edge []string) []string { return edge[:min(len(edge), maxEdge)] }

// tail returns how far the inbox is complete.
func (s *Subscriber) tail(tx *bbolt.Tx) (tail, error) {
	var t tail
	found, err := getJSON(tx.Bucket(metaBucket), tailKey, &t)
	if !found {
		t.Until = s.o.Start
	}
	return t, err
}

// append puts a batch at the end of the inbox.
func (s *Subscriber) append(tx *bbolt.Tx, b batch, payload []byte) error {
	inbox := tx.Bucket(inboxBucket)
	n, err := inbox.NextSequence()
	if err != nil {
		return err
	}
	raw, err := packBatch(b, payload)
	if err != nil {
		return err
	}
	s.counts.Backlog += int64(len(raw))
	s.counts.Batches++
	return inbox.Put(number(n), raw)
}

// hold keeps a notification that came early.
func (s *Subscriber) hold(tx *bbolt.Tx, b batch, payload []byte) (outcome, error) {
	bucket := tx.Bucket(heldBucket)
	key := append([]byte(sortable(b.From)), sortable(b.Until)...)
	if bucket.Get(key) != nil {
		return duplicate, nil
	}
	if s.counts.Held >= s.o.MaxHeld {
		return noRoom, nil
	}
	b.Skip = b.edge // kept there for when it is released
	raw, err := packBatch(b, payload)
	if err != nil {
		return noRoom, err
	}
	s.counts.Held++
	s.counts.Backlog += int64(len(raw))
	return held, bucket.Put(key, raw)
}

// release takes those that were held and now follow on.
func (s *Subscriber) release(tx *bbolt.Tx) error {
	bucket := tx.Bucket(heldBucket)
	for {
		key, raw := bucket.Cursor().First()
		if key == nil {
			return nil
		}
		b, payload, err := unpackBatch(raw)
		if err != nil {
			return err
		}
		t, err := s.tail(tx)
		if err != nil {
			return err
		}
		if b.From.After(t.Until) {
			return nil
		}
		payload = bytes.Clone(payload)
		if err := bucket.Delete(bytes.Clone(key)); err != nil {
			return err
		}
		s.counts.Held--
		s.counts.Backlog -= int64(len(raw))
		b.edge, b.Skip = b.Skip, nil
		if !b.Until.After(t.Until) {
			continue // a repair has had it
		}
		b.After, b.Skip = t.Until, t.Edge
		if err := s.append(tx, b, payload); err != nil {
			return err
		}
		if err := putJSON(tx.Bucket(metaBucket), tailKey, tail{Until: b.Until, Edge: bounded(b.edge)}); err != nil {
			return err
		}
	}
}

// firstHeld returns where the earliest of those begins that wait; false: none does.
func firstHeld(tx *bbolt.Tx) (from, until, received time.Time, ok bool, err error) {
	key, raw := tx.Bucket(heldBucket).Cursor().First()
	if key == nil {
		return from, until, received, false, nil
	}
	b, _, err := unpackBatch(raw)
	return b.From, b.Until, b.Received, err == nil, err
}

// sortable writes an instant so that the order of texts is that of instants.
func sortable(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000000") }

// remember notes a Webhook-Id and reports whether it was noted before. The latest
// keptIDs are kept, by number and by id.
func remember(ids *bbolt.Bucket, id string) (again bool, err error) {
	key := append([]byte{'i'}, id[:min(len(id), 200)]...)
	if ids.Get(key) != nil {
		return true, nil
	}
	n, err := ids.NextSequence()
	if err != nil {
		return false, err
	}
	if n > keptIDs {
		old := append([]byte{'n'}, number(n-keptIDs)...)
		if stale := bytes.Clone(ids.Get(old)); stale != nil {
			if err := errors.Join(ids.Delete(stale), ids.Delete(old)); err != nil {
				return false, err
			}
		}
	}
	return false, errors.Join(ids.Put(key, nil), ids.Put(append([]byte{'n'}, number(n)...), key))
}
