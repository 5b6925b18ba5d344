package history

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/rshub/rshub/journal"
)

// The names of the events of a stream.
const (
	NameNotification = "notification"
	NameGap          = "gap"
)

// mostInline is the longest document that an event has in it, in bytes. Of a longer one it has the
// address.
const mostInline = 256 << 10

// Notification is the data of an event about a notification. Document is its text if that is
// UTF-8, else DocumentBase64 has its bytes. If it is long, or the reader wants no documents, there
// is a URL instead, at which the hub serves it.
type Notification struct {
	ID             string     `json:"id"`
	Topic          string     `json:"topic"`
	From           *time.Time `json:"from,omitempty"`
	Until          *time.Time `json:"until,omitempty"`
	ReceivedAt     time.Time  `json:"received_at"`
	ContentType    string     `json:"content_type"`
	Links          []string   `json:"links,omitempty"` // as in the Link header of a delivery, without self and hub
	Size           int64      `json:"size"`
	SHA256         string     `json:"sha256"`
	URL            string     `json:"url,omitempty"`
	Document       *string    `json:"document,omitempty"`
	DocumentBase64 []byte     `json:"document_base64,omitempty"`
}

// GapEvent is the data of an event about a gap. From and Until are left out where they are not
// known.
type GapEvent struct {
	Topic  string     `json:"topic"`
	From   *time.Time `json:"from,omitempty"`
	Until  *time.Time `json:"until,omitempty"`
	Reason string     `json:"reason"`
}

// event returns the lines of an event without its id.
func event(name string, data any) []byte {
	var b bytes.Buffer
	b.WriteString("event: " + name + "\ndata: ")
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(data) // strings, times and numbers always encode; one line
	return b.Bytes()
}

func orNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func gapEvent(topic string, g *Gap) []byte {
	return event(NameGap, GapEvent{Topic: topic, From: orNil(g.From), Until: orNil(g.Until), Reason: g.Reason})
}

// eventKey names an event.
type eventKey struct {
	place
	meta bool
}

// sharedEvent is an event with the position behind it, as all streams of its topic alone send it.
type sharedEvent struct {
	text []byte
	id   int // where the position begins
}

// event returns the event of an entry. The bytes are shared.
func (s *Service) event(ctx context.Context, topic string, e *journal.Entry, meta bool) (sharedEvent, error) {
	meta = meta || e.Size > mostInline
	if known, ok := s.events.have(eventKey{place{e.Position, e.Nonce}, meta}); ok {
		return known, nil
	}
	return s.create(ctx, topic, *e, meta)
}

// create makes the event of an entry for everybody.
func (s *Service) create(ctx context.Context, topic string, e journal.Entry, meta bool) (sharedEvent, error) {
	s.writers.rest()
	defer s.writers.resume()
	return s.events.get(ctx, eventKey{place{e.Position, e.Nonce}, meta}, func() (sharedEvent, error) {
		return s.encode(ctx, topic, &e, meta)
	})
}

// encoded is what encode needs for a byte of a document, in bytes: the document, its text, and twice up to
// six for a byte that JSON escapes.
const encoded = 14

// encode makes the event of an entry.
func (s *Service) encode(ctx context.Context, topic string, e *journal.Entry, meta bool) (sharedEvent, error) {
	n := Notification{
		ID: e.ID.String(), Topic: topic, From: orNil(e.From), Until: orNil(e.Until), ReceivedAt: e.ReceivedAt.UTC(),
		ContentType: e.MediaType, Links: e.Links, Size: e.Size, SHA256: hex.EncodeToString(e.SHA256[:]),
	}
	if meta {
		n.URL = s.url(topic, paramID, n.ID)
		return finished(topic, e, n), nil
	}
	size := min(encoded*e.Size, s.o.MaxBytes)
	if err := s.coding.Acquire(ctx, size); err != nil {
		return sharedEvent{}, err
	}
	defer s.coding.Release(size)
	body, err := s.o.Journal.Body(ctx, topic, *e)
	if err != nil {
		return sharedEvent{}, err
	}
	if utf8.Valid(body) {
		text := string(body)
		n.Document = &text
	} else {
		n.DocumentBase64 = body
	}
	return finished(topic, e, n), nil
}

// finished is the event of an entry, without room behind its text.
func finished(topic string, e *journal.Entry, n Notification) sharedEvent {
	text := event(NameNotification, n)
	return sharedEvent{slices.Concat(text, PositionOf(topic, e.Anchor()).appendLine(nil)), len(text)}
}
