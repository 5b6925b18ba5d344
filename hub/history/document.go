package history

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/resourcesync"
)

// Document answers with one notification of a topic, byte for byte as it was published: that of
// q.ID, or the newest. It answers ranges, and HEAD. The errors are those of Changes.
func (s *Service) Document(w http.ResponseWriter, r *http.Request, q Query, from Reader) error {
	turn, err := s.begin(from.Name)
	if err != nil {
		return err
	}
	defer turn.end()
	ctx, topic := r.Context(), q.Topics[0]
	e, err := s.entry(ctx, topic, q)
	if err != nil {
		return err
	}
	h := w.Header()
	before := maps.Clone(h)
	h.Set("Content-Type", e.MediaType)
	h.Set("ETag", `"`+hex.EncodeToString(e.SHA256[:])+`"`)
	h.Set("Webhook-Id", e.ID.String())
	h.Set("Vary", "Origin")
	h.Set("Cache-Control", s.forever())
	if q.Latest {
		h.Set("Cache-Control", recheck)
	}
	// A browser shows what a stranger wrote, and lets it do nothing.
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set(HeaderPosition, PositionOf(topic, e.Anchor()).String())
	if e.Timed() {
		h.Set(HeaderUntil, resourcesync.FormatDatetime(e.Until))
	}
	d := &documentWriter{ResponseWriter: w, steady: s.answerTo(ctx, w, turn, leastDocument)}
	d.body = body{size: e.Size, get: func() ([]byte, error) {
		b, free, err := s.large.get(ctx, turn, &e, func() ([]byte, error) { return s.o.Journal.Body(ctx, topic, e) })
		d.free = free
		return b, err
	}}
	d.begin = func() error {
		if r.Method == http.MethodHead {
			return nil
		}
		n, _ := strconv.ParseInt(h.Get("Content-Length"), 10, 64)
		if err := from.charge(n); err != nil {
			return err
		}
		return d.body.load()
	}
	http.ServeContent(d, r, "", time.Time{}, &d.body)
	if d.free != nil {
		d.free()
	}
	switch {
	case errors.Is(d.err, journal.ErrNotFound), errors.Is(d.err, journal.ErrDamaged):
		d.err = ErrGone
	}
	if d.err != nil {
		clear(h)
		maps.Copy(h, before)
	}
	return d.err
}

// documentWriter writes a document, or a range of it, as steady does. It writes the status when the
// reader was charged and the body is there. Else err says why not, and nothing is written.
type documentWriter struct {
	http.ResponseWriter
	steady *steady
	body   body
	begin  func() error
	free   func() // nil: there is no body
	err    error
}

func (w *documentWriter) WriteHeader(status int) {
	if status == http.StatusOK || status == http.StatusPartialContent {
		if w.err = w.begin(); w.err != nil {
			return
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *documentWriter) Write(b []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	return w.steady.Write(b)
}

// body is a document whose length is known before it is read.
type body struct {
	size int64
	at   int64
	get  func() ([]byte, error)
	all  []byte
}

// load reads the document.
func (b *body) load() (err error) {
	b.all, err = b.get()
	return err
}

func (b *body) Read(to []byte) (int, error) {
	if b.at >= int64(len(b.all)) {
		return 0, io.EOF
	}
	n := copy(to, b.all[b.at:])
	b.at += int64(n)
	return n, nil
}

func (b *body) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += b.at
	case io.SeekEnd:
		offset += b.size
	}
	b.at = offset
	return offset, nil
}

// entry returns the notification that q asks for, without its body.
func (s *Service) entry(ctx context.Context, topic string, q Query) (journal.Entry, error) {
	head, err := s.head(ctx, topic)
	if err != nil {
		return journal.Entry{}, err
	}
	id := q.ID
	if q.Latest {
		id = head.ID
	}
	of, e, err := s.o.Journal.Find(ctx, id)
	switch {
	case errors.Is(err, journal.ErrNotFound) && (q.Latest || trimmed(id, &head)), errors.Is(err, journal.ErrDamaged):
		return e, ErrGone
	case errors.Is(err, journal.ErrNotFound), err == nil && of != topic:
		return e, &UnknownError{topic, id}
	case err != nil:
		return e, fmt.Errorf("reading the journal: %w", err)
	}
	return e, nil
}

// trimmed reports whether a notification with this id can have been trimmed: it is as old, and
// of the same partition.
func trimmed(id uuid.UUID, head *journal.Head) bool {
	made := time.Unix(id.Time().UnixTime())
	return id.Version() == 7 && journal.IDPartition(id) == journal.Partition(journal.TopicID(head.Topic)) &&
		!made.After(head.Trimmed.Position.Time().Add(time.Second))
}

// Describe answers with the hub's own Capability List of a topic, for topics whose notifications
// name none, or with the Source Description above it.
func (s *Service) Describe(w http.ResponseWriter, r *http.Request, q Query) error {
	topic := q.Topics[0]
	head, err := s.head(r.Context(), topic)
	switch {
	case err != nil:
		return err
	case !changes(&head):
		return ErrNoChanges
	}
	var b bytes.Buffer
	if err := s.describe(&b, topic, q.Describe); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/xml; charset=utf-8")
	w.Header().Set("Cache-Control", "max-age=300")
	w.Header().Set("Vary", "Accept, Origin")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b.Bytes()))
	return nil
}

func (s *Service) describe(b *bytes.Buffer, topic, what string) error {
	h := resourcesync.Head{Capability: what}
	list := s.url(topic, paramDescribe, resourcesync.CapabilityList)
	entries := []resourcesync.Entry{{Loc: list, Capability: resourcesync.CapabilityList}}
	if what == resourcesync.CapabilityList {
		h.Links = []resourcesync.Link{{Rel: "up", Href: s.url(topic, paramDescribe, resourcesync.Description)}}
		entries = []resourcesync.Entry{
			{Loc: s.url(topic, paramAfter, earliest), Capability: resourcesync.ChangeList},
			{Loc: topic, Capability: resourcesync.ChangeNotification, Links: []resourcesync.Link{{Rel: "hub", Href: s.o.HubURL}}},
		}
	}
	d, err := resourcesync.NewWriter(b, h, resourcesync.WriteOptions{AsRead: true})
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := d.Write(e); err != nil {
			return err
		}
	}
	return d.Close()
}
