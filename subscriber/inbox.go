package subscriber

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/resourcesync"
)

// inbox stores what was received until the application has committed it, and knows which
// notification follows which. It may be shared between goroutines.
type inbox struct {
	db         *boltfile.DB
	dir        string
	maxBacklog int64 // Options.MaxBacklog
	maxHeld    int
	start      time.Time

	more    clock.Signal // there is something new in it
	wake    clock.Signal // look at the subscription and the gaps
	changed clock.Signal // the status may be another
	freed   clock.Signal // the application has committed something

	mu     sync.Mutex
	counts Counts
}

// update changes the state together with the counts. It is on disk when nil is returned.
// After an error nothing is changed. The last call of change counts, if there are several.
func (in *inbox) update(change func(*boltfile.Tx) error) error {
	defer in.changed.Broadcast()
	return in.db.Update(func(tx *boltfile.Tx) error {
		in.mu.Lock()
		defer in.mu.Unlock()
		return change(tx)
	})
}

// count changes the counts that are only in memory.
func (in *inbox) count(change func(*Counts)) {
	defer in.changed.Broadcast()
	in.mu.Lock()
	defer in.mu.Unlock()
	change(&in.counts)
}

// counted returns a copy of the counts.
func (in *inbox) counted() Counts {
	in.mu.Lock()
	defer in.mu.Unlock()
	c := in.counts
	c.Refused = maps.Clone(c.Refused)
	return c
}

// recount counts what is on disk. It reads the other counts when it is first called.
func (in *inbox) recount(tx *boltfile.Tx) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	c := &in.counts
	if c.Refused == nil {
		c.Refused = map[string]uint64{}
		tx.Bucket(metaBucket).GetJSON(countsKey, c)
	}
	c.Backlog, c.Batches, c.Held = 0, 0, 0
	for _, raw := range tx.Bucket(inboxBucket).From(nil) {
		c.Batches++
		c.Backlog += int64(len(raw))
	}
	for _, raw := range tx.Bucket(heldBucket).From(nil) {
		c.Held++
		c.Backlog += int64(len(raw))
	}
	return nil
}

// batch describes changes, or a piece of content, that wait for the application.
type batch struct {
	ID        string    `json:"id,omitempty"` // Webhook-Id; empty: none, or it was repaired
	From      time.Time `json:"from,omitzero"`
	Until     time.Time `json:"until,omitzero"` // zero: no continuity
	MediaType string    `json:"type,omitempty"`
	Received  time.Time `json:"received"`
	Repaired  bool      `json:"repaired,omitempty"` // read from a Change List
	Packed    bool      `json:"packed,omitempty"`   // the payload is that of packEntries
	Baseline  bool      `json:"baseline,omitempty"` // the interval is lost; there is no payload
	Content   bool      `json:"content,omitempty"`  // the payload is no document about changes
	Empty     bool      `json:"empty,omitempty"`    // nothing changed in the interval
	// After and Skip say which changes of an interval that overlaps were handed on
	// before: those earlier than After, and those at After that Skip names.
	After time.Time `json:"after,omitzero"`
	Skip  []string  `json:"skip,omitempty"`

	edge []string // the changes at Until, for the Skip of the next one; of an early one, Skip stores them
}

// tail is how far the inbox is complete.
type tail struct {
	Until time.Time `json:"until"`
	// Edge names the changes at Until itself, since the two intervals that meet
	// there may both have them (DOC-13).
	Edge []string `json:"edge,omitempty"`
}

// name identifies a change among those at the same instant. A Source whose times have whole seconds may change a resource twice
// within one.
func name(e *resourcesync.Entry) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s\n%s\n%d", e.Loc, e.Change, resourcesync.FormatDatetime(e.Datetime), e.Hash, e.Length))
	return base64.RawStdEncoding.EncodeToString(sum[:12])
}

// isOld reports whether a change of the batch was handed on before. It takes the change from skip, so it has to be asked
// of each change once.
func (b *batch) isOld(e *resourcesync.Entry, skip names) bool {
	switch {
	case b.After.IsZero() || e.Datetime.IsZero():
		return false
	case e.Datetime.Before(b.After):
		return true
	default:
		return e.Datetime.Equal(b.After) && skip.remove(name(e))
	}
}

// hasNews reports whether any change of the batch was not handed on before. Without one it would wait for ever: the
// application commits what it is handed. Of what cannot be read, the range over it reports the error.
func (b *batch) hasNews(payload []byte) bool {
	if b.Empty {
		return false
	}
	next, skip := entriesOf(b, payload), named(b.Skip)
	for {
		e, err := next()
		if errors.Is(err, io.EOF) {
			return false
		}
		if err != nil || !b.isOld(&e, skip) {
			return true
		}
	}
}

// errNotification wraps why a payload is no notification.
var errNotification = errors.New("it is no valid notification")

// examine reads a payload as far as continuity needs it. A payload that is not XML is
// content. So is XML that is no notification, unless the topic is known to carry only
// changes.
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
	if b.Until.Sub(b.Received) > ahead { // no notification could follow it
		return b, fmt.Errorf("%w: its interval ends at %s, which is in the future", errNotification, resourcesync.FormatDatetime(b.Until))
	}
	return b, nil
}

// outcome is the result of accepting a notification.
type outcome int

const (
	appended outcome = iota
	duplicate
	early
	first  // early, and nothing was received before
	noRoom // nothing was stored
)

// accept stores a notification where it belongs, in tx.
func (in *inbox) accept(tx *boltfile.Tx, b batch, payload []byte) (outcome, error) {
	t := in.tail(tx)
	ids := tx.Bucket(idsBucket)
	continuous := !b.Until.IsZero()
	switch full := in.isFull(len(payload)); {
	case continuous && (t.Until.IsZero() || b.From.After(t.Until)):
		became, err := in.retain(tx, b, payload)
		if became == early && t.Until.IsZero() {
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

// isFull reports whether there is no room in the inbox. An empty one has room for
// anything.
func (in *inbox) isFull(more int) bool {
	return in.counts.Batches > 0 && in.counts.Backlog+int64(more) > in.maxBacklog
}

// isIn reports whether the inbox already has all of a notification that does not begin after the
// tail. Of two intervals that meet, each may have changes of that instant that the other
// lacks.
func (b *batch) isIn(t *tail) bool {
	if !b.Until.Equal(t.Until) {
		return b.Until.Before(t.Until)
	}
	old := named(t.Edge)
	return !slices.ContainsFunc(b.edge, func(n string) bool { return !old.remove(n) })
}

// extend appends what is new in a notification that begins at the tail or before it, and
// moves the tail to its end.
func (in *inbox) extend(tx *boltfile.Tx, t tail, b batch, payload []byte) error {
	to := tail{Until: b.Until, Edge: b.edge}
	if b.Until.Equal(t.Until) {
		to.Edge = merge(to.Edge, t.Edge)
	}
	b.After, b.Skip = t.Until, t.Edge
	if b.hasNews(payload) {
		if err := in.append(tx, b, payload); err != nil {
			return err
		}
	}
	return tx.Bucket(metaBucket).PutJSON(tailKey, to)
}

// tail returns how far the inbox is complete.
func (in *inbox) tail(tx *boltfile.Tx) (t tail) {
	if !tx.Bucket(metaBucket).GetJSON(tailKey, &t) {
		t.Until = in.start
	}
	return t
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

// retain stores a notification that came early, or the first one of the topic. Half of
// the room stays for the notifications before it.
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
	return early, bucket.Put(key, raw)
}

// releaseRetained appends the retained notifications that follow the tail now.
func (in *inbox) releaseRetained(tx *boltfile.Tx) error {
	bucket := tx.Bucket(heldBucket)
	for {
		key, raw := bucket.Cursor().First()
		if key == nil {
			return nil
		}
		t := in.tail(tx)
		b, payload := readBatch(bucket, key, raw)
		if t.Until.IsZero() || b.From.After(t.Until) {
			return nil
		}
		in.counts.Held--
		in.counts.Backlog -= int64(len(raw))
		if err := bucket.Delete(bytes.Clone(key)); err != nil {
			return err
		}
		in.wake.Broadcast() // this may close a gap
		if b.edge, b.Skip = b.Skip, nil; b.isIn(&t) {
			continue // a repair has appended it
		}
		if err := in.extend(tx, t, b, payload); err != nil {
			return err
		}
	}
}

// firstRetained returns the earliest of the notifications that wait for others; false:
// none does.
func firstRetained(tx *boltfile.Tx) (batch, bool) {
	bucket := tx.Bucket(heldBucket)
	for key, raw := range bucket.From(nil) {
		b, _ := readBatch(bucket, key, raw)
		return b, true
	}
	return batch{}, false
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

// remember stores a Webhook-Id. The latest keptIDs stay, by number and by id.
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
