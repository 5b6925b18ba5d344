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
	"sync"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/resourcesync"
)

// inbox holds what was received until the application has committed it. It knows what
// follows on what. It may be shared between goroutines.
type inbox struct {
	state      *state
	dir        string
	maxBacklog int64 // Options.MaxBacklog
	maxHeld    int
	start      time.Time

	more    signal // it has something new
	wake    signal // the subscription or the gaps are to be looked at
	changed signal // the status may be another

	mu     sync.Mutex
	counts Counts
	loaded bool // counts has what was stored of it
}

// update changes the state, with the counts that go with it.
func (in *inbox) update(change func(*boltfile.Tx) error) error {
	defer in.changed.tell()
	return in.state.update(func(tx *boltfile.Tx) error {
		in.mu.Lock()
		defer in.mu.Unlock()
		return change(tx)
	})
}

// count changes the counts that are kept in memory.
func (in *inbox) count(change func(*Counts)) {
	defer in.changed.tell()
	in.mu.Lock()
	defer in.mu.Unlock()
	change(&in.counts)
}

// counted returns what was counted.
func (in *inbox) counted() Counts {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.counts.clone()
}

// recount counts what is on disk.
func (in *inbox) recount(tx *boltfile.Tx) error {
	var c Counts
	if _, err := getJSON(tx.Bucket(metaBucket), countsKey, &c); err != nil {
		return err
	}
	c.Backlog, c.Batches, c.Held = 0, 0, 0
	for bucket, n := range map[string]*int{string(inboxBucket): &c.Batches, string(heldBucket): &c.Held} {
		err := tx.Bucket([]byte(bucket)).ForEach(func(_, raw []byte) error {
			*n++
			c.Backlog += int64(len(raw))
			return nil
		})
		if err != nil {
			return err
		}
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.loaded {
		in.counts, in.loaded = c, true
	}
	in.counts.Backlog, in.counts.Batches, in.counts.Held = c.Backlog, c.Batches, c.Held
	return nil
}

// wakeUp has the subscription and the gaps looked at now.
func (in *inbox) wakeUp() { in.wake.tell() }

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

// accept stores a notification where it belongs, in tx.
func (in *inbox) accept(tx *boltfile.Tx, b batch, payload []byte) (outcome, error) {
	t, err := in.tail(tx)
	if err != nil {
		return noRoom, err
	}
	ids := tx.Bucket(idsBucket)
	continuous := !b.Until.IsZero()
	switch full := in.isFull(len(payload)); {
	case continuous && (t.Until.IsZero() || b.From.After(t.Until)):
		became, err := in.retain(tx, b, payload)
		if became == held && t.Until.IsZero() {
			became = first
		}
		return became, err
	case continuous && b.isIn(&t), !continuous && known(ids, b.ID):
		return duplicate, nil
	case full:
		return noRoom, nil
	case !continuous:
		return appended, errors.Join(remember(ids, b.ID), in.append(tx, b, payload))
	}
	return appended, errors.Join(in.extend(tx, t, b, payload), in.releaseRetained(tx))
}

// isFull reports whether there is no room in the inbox. One that is empty takes
// anything.
func (in *inbox) isFull(more int) bool {
	return in.counts.Batches > 0 && in.counts.Backlog+int64(more) > in.maxBacklog
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

// extend appends a notification that begins at the tail or before it, without what
// was there before, and moves the tail to its end.
func (in *inbox) extend(tx *boltfile.Tx, t tail, b batch, payload []byte) error {
	to := tail{Until: b.Until, Edge: b.edge}
	if b.Until.Equal(t.Until) {
		to.Edge = append(to.Edge, t.Edge...)
	}
	to.Edge = to.Edge[:min(len(to.Edge), maxEdge)]
	if !b.Empty {
		b.After, b.Skip = t.Until, t.Edge
		if err := in.append(tx, b, payload); err != nil {
			return err
		}
	}
	return putJSON(tx.Bucket(metaBucket), tailKey, to)
}

// tail returns how far the inbox is complete.
func (in *inbox) tail(tx *boltfile.Tx) (tail, error) {
	var t tail
	found, err := getJSON(tx.Bucket(metaBucket), tailKey, &t)
	if !found {
		t.Until = in.start
	}
	return t, err
}

// append puts a batch at the end of the inbox.
func (in *inbox) append(tx *boltfile.Tx, b batch, payload []byte) error {
	inbox := tx.Bucket(inboxBucket)
	n, err := inbox.NextSequence()
	if err != nil {
		return err
	}
	raw, err := packBatch(b, payload)
	if err != nil {
		return err
	}
	in.counts.Backlog += int64(len(raw))
	in.counts.Batches++
	return inbox.Put(number(n), raw)
}

// retain keeps a notification that came early, or, where nothing is known of the
// topic yet, the first. The half of the room is for those before it.
func (in *inbox) retain(tx *boltfile.Tx, b batch, payload []byte) (outcome, error) {
	bucket := tx.Bucket(heldBucket)
	key := append([]byte(sortable(b.From)), sortable(b.Until)...)
	if bucket.Get(key) != nil {
		return duplicate, nil
	}
	if in.counts.Held >= in.maxHeld || in.counts.Held > 0 && in.counts.Backlog+int64(len(payload)) > in.maxBacklog/2 {
		return noRoom, nil
	}
	b.Skip = b.edge
	raw, err := packBatch(b, payload)
	if err != nil {
		return noRoom, err
	}
	in.counts.Held++
	in.counts.Backlog += int64(len(raw))
	return held, bucket.Put(key, raw)
}

// releaseRetained takes those that were held and now follow on.
func (in *inbox) releaseRetained(tx *boltfile.Tx) error {
	bucket := tx.Bucket(heldBucket)
	for {
		t, err := in.tail(tx)
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
		in.counts.Held--
		in.counts.Backlog -= int64(len(raw))
		if err := bucket.Delete(bytes.Clone(key)); err != nil {
			return err
		}
		in.wake.tell() // a gap may be closed by this
		if b.edge, b.Skip = b.Skip, nil; b.isIn(&t) {
			continue // a repair has had it
		}
		if err := in.extend(tx, t, b, payload); err != nil {
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
