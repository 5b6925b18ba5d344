package subscriber

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"slices"
	"strings"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
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
	Packed    bool      `json:"packed,omitempty"`   // the payload is that of packEntries
	Baseline  bool      `json:"baseline,omitempty"` // nothing but that the interval can't be had
	Content   bool      `json:"content,omitempty"`  // the payload is no document about changes
	Empty     bool      `json:"empty,omitempty"`    // nothing changed in the interval
	// After and Skip tell which changes of an interval that overlaps were handed
	// on before: those earlier than After, and those at After that Skip names.
	After time.Time `json:"after,omitzero"`
	Skip  []string  `json:"skip,omitempty"`

	edge []string // the changes at Until, for the next one's Skip; of one that is held, they stand in Skip
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
	sum := sha256.Sum256([]byte(e.Loc + "\n" + string(e.Change) + "\n" + resourcesync.FormatDatetime(e.Datetime)))
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
	for b.Empty = true; ; b.Empty = false {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if changesOnly {
				return b, fmt.Errorf("%w: %w", errNotification, err)
			}
			b.Content, b.Empty, b.edge = true, false, nil
			return b, nil
		}
		n := r.Notification()
		atEnd := e.Datetime.Equal(n.Until) || e.Datetime.IsZero() && n.From.Equal(n.Until)
		if !n.Until.IsZero() && atEnd && len(b.edge) < maxEdge {
			b.edge = append(b.edge, name(&e))
		}
	}
	n := r.Notification()
	if !n.From.IsZero() && !n.Until.IsZero() {
		b.From, b.Until = n.From, n.Until
	}
	if b.Until.Sub(b.Received) > ahead { // nothing would follow on it
		return b, fmt.Errorf("%w: it lasts until %s, and that is yet to come", errNotification, resourcesync.FormatDatetime(b.Until))
	}
	return b, nil
}

// outcome is what became of a notification.
type outcome int

const (
	appended outcome = iota
	duplicate
	held
	first  // held, and nothing is known of the topic yet
	noRoom // nothing was stored
)

// take stores a notification where it belongs, in tx.
func (s *Subscriber) take(tx *boltfile.Tx, b batch, payload []byte) (outcome, error) {
	t, err := s.tail(tx)
	if err != nil {
		return noRoom, err
	}
	ids := tx.Bucket(idsBucket)
	continuous := !b.Until.IsZero()
	switch full := s.full(len(payload)); {
	case continuous && (t.Until.IsZero() || b.From.After(t.Until)):
		became, err := s.hold(tx, b, payload)
		if became == held && t.Until.IsZero() {
			became = first
		}
		return became, err
	case continuous && b.isIn(&t), !continuous && known(ids, b.ID):
		return duplicate, nil
	case full:
		return noRoom, nil
	case !continuous:
		return appended, errors.Join(remember(ids, b.ID), s.append(tx, b, payload))
	}
	return appended, errors.Join(s.follow(tx, t, b, payload), s.release(tx))
}

// full reports whether there is no room in the inbox. One that is empty takes
// anything.
func (s *Subscriber) full(more int) bool {
	return s.counts.Batches > 0 && s.counts.Backlog+int64(more) > s.o.MaxBacklog
}

// isIn reports whether all of a notification that does not begin behind the tail was
// there before. Two intervals that meet may each have changes of that instant
// which the other lacks.
func (b *batch) isIn(t *tail) bool {
	if !b.Until.Equal(t.Until) {
		return b.Until.Before(t.Until)
	}
	had := named(t.Edge)
	return !slices.ContainsFunc(b.edge, func(n string) bool { return !had[n] })
}

// follow appends a notification that begins at the tail or before it, without what
// was there before, and moves the tail to its end.
func (s *Subscriber) follow(tx *boltfile.Tx, t tail, b batch, payload []byte) error {
	to := tail{Until: b.Until, Edge: b.edge}
	if b.Until.Equal(t.Until) {
		to.Edge = append(to.Edge, t.Edge...)
	}
	to.Edge = to.Edge[:min(len(to.Edge), maxEdge)]
	if !b.Empty {
		b.After, b.Skip = t.Until, t.Edge
		if err := s.append(tx, b, payload); err != nil {
			return err
		}
	}
	return putJSON(tx.Bucket(metaBucket), tailKey, to)
}

// tail returns how far the inbox is complete.
func (s *Subscriber) tail(tx *boltfile.Tx) (tail, error) {
	var t tail
	found, err := getJSON(tx.Bucket(metaBucket), tailKey, &t)
	if !found {
		t.Until = s.o.Start
	}
	return t, err
}

// append puts a batch at the end of the inbox.
func (s *Subscriber) append(tx *boltfile.Tx, b batch, payload []byte) error {
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

// hold keeps a notification that came early, or, where nothing is known of the
// topic yet, the first. The half of the room is for those before it.
func (s *Subscriber) hold(tx *boltfile.Tx, b batch, payload []byte) (outcome, error) {
	bucket := tx.Bucket(heldBucket)
	key := append([]byte(sortable(b.From)), sortable(b.Until)...)
	if bucket.Get(key) != nil {
		return duplicate, nil
	}
	if s.counts.Held >= s.o.MaxHeld || s.counts.Held > 0 && s.counts.Backlog+int64(len(payload)) > s.o.MaxBacklog/2 {
		return noRoom, nil
	}
	b.Skip = b.edge
	raw, err := packBatch(b, payload)
	if err != nil {
		return noRoom, err
	}
	s.counts.Held++
	s.counts.Backlog += int64(len(raw))
	return held, bucket.Put(key, raw)
}

// release takes those that were held and now follow on.
func (s *Subscriber) release(tx *boltfile.Tx) error {
	bucket := tx.Bucket(heldBucket)
	for {
		t, err := s.tail(tx)
		if err != nil {
			return err
		}
		key, raw := bucket.Cursor().First()
		if key == nil {
			return nil
		}
		b, payload, err := unpackBatch(bytes.Clone(raw))
		if err != nil || t.Until.IsZero() || b.From.After(t.Until) {
			return err
		}
		s.counts.Held--
		s.counts.Backlog -= int64(len(raw))
		if err := bucket.Delete(bytes.Clone(key)); err != nil {
			return err
		}
		s.wake.tell() // a gap may be closed by this
		if b.edge, b.Skip = b.Skip, nil; b.isIn(&t) {
			continue // a repair has had it
		}
		if err := s.follow(tx, t, b, payload); err != nil {
			return err
		}
	}
}

// firstHeld returns where the earliest of those begins that wait; false: none does.
func firstHeld(tx *boltfile.Tx) (first batch, ok bool, err error) {
	key, raw := tx.Bucket(heldBucket).Cursor().First()
	if key == nil {
		return first, false, nil
	}
	first, _, err = unpackBatch(raw)
	return first, err == nil, err
}

// sortable writes an instant so that the order of texts is that of instants.
func sortable(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000000") }

func idKey(id string) []byte {
	if len(id) > 200 {
		sum := sha256.Sum256([]byte(id))
		id = string(sum[:])
	}
	return append([]byte{'i'}, id...)
}

// known reports whether a Webhook-Id was remembered.
func known(ids boltfile.Bucket, id string) bool { return id != "" && ids.Get(idKey(id)) != nil }

// remember notes a Webhook-Id. The latest keptIDs are kept, by number and by id.
func remember(ids boltfile.Bucket, id string) error {
	if id == "" {
		return nil
	}
	n, err := ids.NextSequence()
	if err != nil {
		return err
	}
	byNumber := func(n uint64) []byte { return append([]byte{'n'}, number(n)...) }
	if n > keptIDs {
		if stale := bytes.Clone(ids.Get(byNumber(n - keptIDs))); stale != nil {
			if err := errors.Join(ids.Delete(stale), ids.Delete(byNumber(n-keptIDs))); err != nil {
				return err
			}
		}
	}
	return errors.Join(ids.Put(idKey(id), []byte{1}), ids.Put(byNumber(n), idKey(id)))
}
