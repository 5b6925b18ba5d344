package subscriber

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/base/sse"
	"github.com/rshub/rshub/internal/base/web"
)

const (
	heartbeat    = 15 * time.Second // the longest time in which a hub says nothing
	streamRetry  = 2 * time.Second  // before a stream is read again, where the hub does not say
	streamMax    = time.Minute      // between tries to read a stream
	noTopicRest  = 3 * time.Second  // between tries, while the hub does not know the topic
	noStreamRest = 10 * time.Minute // between tries, if the hub has no stream
	roomRest     = 10 * time.Second // between tries to store something, while there is no room
	findAgain    = 4                // failures after which the hub is looked for again

	// maxEvent is the longest event in bytes. A hub puts documents of up to 256 KiB into an
	// event, where a byte may take six.
	maxEvent = 2 << 20
)

// ErrNoStream says that a hub has no stream, or none for this reader.
var ErrNoStream = errors.New("the hub has no stream of the topic")

// ErrInsecure says that a stream would be read over plain http.
var ErrInsecure = errors.New("its stream would come over plain http, where anyone on the way can change it; use https, or allow this with Options.InsecureStream")

// problemUnknownTopic is how a hub names the problem that it has nothing of a topic yet.
const problemUnknownTopic = "unknown-topic"

// hubStream reads the stream of a hub about one topic, one connection after the other. It
// must not be shared between goroutines.
type hubStream struct {
	client   Doer
	find     func(context.Context) (topic, hub string, err error)
	after    string // where the next connection begins; empty: at what comes next
	token    string
	insecure bool
	maxBody  int64
	opened   func(topic, hub string) // may be nil

	topic, hub string // that were found; empty: they have to be looked for
	retry      time.Duration
	rest       time.Duration // between the last two tries that failed
	failures   int           // in a row: connections that brought no event, and broke within a heartbeat
	unknown    bool          // the hub had nothing of the topic when it was asked from now on
}

// read reads one connection to its end. Each is called for every event and for every position
// without an event; its error ends the connection and is returned. Nil: the hub ended it.
func (h *hubStream) read(ctx context.Context, each func(*Notification) error) (err error) {
	if h.hub == "" {
		if h.topic, h.hub, err = h.find(ctx); err != nil {
			return err
		}
	}
	answer, err := h.open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if h.opened != nil {
		h.opened(h.topic, h.hub)
	}
	var heard time.Time // when the first block came
	defer func() {
		if !heard.IsZero() && time.Since(heard) > heartbeat {
			h.failures, h.rest = 0, 0
		}
	}()
	for events := sse.NewReader(answer.Body, maxEvent); ; {
		b, err := events.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, web.ErrSlow):
			return fmt.Errorf("the stream of %s: the hub said nothing for %v", h.hub, 3*heartbeat)
		case err != nil:
			return fmt.Errorf("the stream of %s broke: %w", h.hub, egress.WithoutURL(err))
		}
		h.unknown = false
		if heard.IsZero() {
			heard = time.Now()
		}
		if b.Retry >= 0 {
			h.retry = max(b.Retry, 100*time.Millisecond)
		}
		if b.Data == nil && !b.HasID {
			continue
		}
		n, err := h.notification(ctx, &b)
		if err != nil {
			return fmt.Errorf("the stream of %s: %w", h.hub, err)
		}
		if err := each(n); err != nil {
			return err
		}
		if n.isEvent() {
			h.failures, h.rest = 0, 0
		}
	}
}

// pause returns how long to wait before the stream is read again. The error is that with which it
// ended.
func (h *hubStream) pause(err error) time.Duration {
	wait := cmp.Or(h.retry, streamRetry)
	var status *StatusError
	asked := errors.As(err, &status)
	switch {
	case err == nil:
		h.rest = 0
	default:
		most := streamMax
		if waitsForTopic(err) {
			most = noTopicRest
		}
		h.rest = min(max(2*h.rest, wait), most)
		if wait = h.rest; errors.Is(err, ErrNoStream) {
			wait = noStreamRest
		}
		if h.failures++; h.failures%findAgain == 0 {
			h.hub = "" // perhaps the topic names another one now
		}
	}
	wait += time.Duration(rand.Float64() * float64(wait) / 4) //nolint:gosec // spreads load, keeps no secret
	if asked {
		wait = max(wait, min(status.RetryAfter, time.Hour))
	}
	return wait
}

// waitsForTopic reports whether an error says that the hub has nothing of the topic yet.
func waitsForTopic(err error) bool {
	var status *StatusError
	return errors.As(err, &status) && status.Status == http.StatusNotFound && status.Problem == problemUnknownTopic
}

// ask asks the hub about the topic. The caller closes the answer, which is 2xx.
func (h *hubStream) ask(ctx context.Context, client Doer, accept, param, value, last string) (web.Answer, error) {
	allow := func(to string) error {
		if !web.Confidential(to) && !h.insecure {
			return ErrInsecure
		}
		return nil
	}
	address, err := hubQuery(h.hub, h.topic, param, value)
	if err == nil {
		err = allow(address)
	}
	if err != nil {
		return web.Answer{}, fmt.Errorf("the hub %s: %w", h.hub, err)
	}
	header := http.Header{"Accept": {accept}, "Cache-Control": {"no-cache"}}
	if last != "" {
		header.Set("Last-Event-ID", last)
	}
	if h.token != "" {
		header.Set("Authorization", "Bearer "+h.token)
	}
	answer, err := web.Ask(ctx, client, web.Request{Method: http.MethodGet, URL: address, Header: header, Allow: allow})
	if err != nil {
		return answer, fmt.Errorf("asking %w", err)
	}
	return answer, failure(answer)
}

// hubQuery returns the address at which a hub answers a question about a topic.
func hubQuery(hub, topic, param, value string) (string, error) {
	u, err := url.Parse(hub)
	if err != nil {
		return "", egress.WithoutURL(err)
	}
	q := u.Query()
	q.Set("hub.topic", topic)
	if value != "" {
		q.Set(param, value)
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// open begins a connection. Silence of three heartbeats ends it.
func (h *hubStream) open(ctx context.Context) (web.Answer, error) {
	after, last := h.after, ""
	switch {
	case after == "" && h.unknown:
		after = "earliest" // there was nothing when the reader came
	case isPosition(after):
		after, last = "", h.after
	}
	paced := web.DoerFunc(func(req *http.Request) (*http.Response, error) {
		return web.Pace{Stall: 3 * heartbeat}.Do(h.client, req)
	})
	answer, err := h.ask(ctx, paced, "text/event-stream, application/problem+json;q=0.5", "after", after, last)
	var status *StatusError
	if errors.As(err, &status) {
		switch status.Status {
		case http.StatusNotFound:
			if h.unknown = waitsForTopic(err); h.unknown {
				return answer, err
			}
			return answer, fmt.Errorf("%w: %w", ErrNoStream, err)
		case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusGone, http.StatusNotImplemented:
			return answer, fmt.Errorf("%w: %w", ErrNoStream, err)
		}
	}
	if err != nil {
		return answer, err
	}
	if media, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")); media != "text/event-stream" {
		_ = answer.Body.Close()
		return answer, fmt.Errorf("%w: %s answers with %.100q", ErrNoStream, answer.URL, media)
	}
	return answer, nil
}

// isPosition distinguishes a position from the other values of after.
func isPosition(after string) bool {
	return after != "" && after != "earliest" && !strings.Contains(after, ":") // an instant has a colon
}

// eventData is the data of an event of a hub: of a notification, or of a gap, which has a reason.
type eventData struct {
	ID             string    `json:"id"`
	Topic          string    `json:"topic"`
	From           time.Time `json:"from"`
	Until          time.Time `json:"until"`
	ReceivedAt     time.Time `json:"received_at"`
	ContentType    string    `json:"content_type"`
	Links          []string  `json:"links"`
	Size           int64     `json:"size"`
	SHA256         string    `json:"sha256"`
	URL            string    `json:"url"`
	Document       *string   `json:"document"`
	DocumentBase64 []byte    `json:"document_base64"`
	Reason         string    `json:"reason"`
}

// notification reads a block. Events of other names, and of other topics, are only positions.
func (h *hubStream) notification(ctx context.Context, b *sse.Block) (*Notification, error) {
	n := &Notification{Topic: h.topic, Position: b.ID}
	if b.Data == nil || b.Event != "notification" && b.Event != "gap" {
		return n, nil
	}
	d, err := parseEvent(b.Data)
	if err != nil || d.Topic != h.topic {
		return n, err
	}
	n.From, n.Until = d.From, d.Until
	if b.Event == "gap" {
		n.Gap = cmp.Or(d.Reason, "unknown")
		return n, nil
	}
	n.ID, n.ReceivedAt, n.MediaType, n.Links = d.ID, d.ReceivedAt, d.ContentType, d.Links
	switch {
	case n.ID == "":
		return nil, errors.New("a notification has no id")
	case d.Size < 0 || d.Size > h.maxBody:
		n.ID, n.Gap = "", gapTooLarge
		return n, nil
	case d.Document != nil:
		n.Document = []byte(*d.Document)
	case d.DocumentBase64 != nil || d.Size == 0:
		n.Document = d.DocumentBase64
	default:
		n.Document, err = h.document(ctx, n.ID)
		if status := (*StatusError)(nil); errors.As(err, &status) && (status.Status == http.StatusNotFound || status.Status == http.StatusGone) {
			n.ID, n.Gap = "", gapRetention // it was trimmed between the event and this question
			return n, nil
		}
		if err != nil {
			return nil, err
		}
	}
	if sum := sha256.Sum256(n.Document); int64(len(n.Document)) != d.Size || !strings.EqualFold(d.SHA256, hex.EncodeToString(sum[:])) {
		return nil, fmt.Errorf("the notification %.100s came with %d bytes that are not the %d of its hash", n.ID, len(n.Document), d.Size)
	}
	return n, nil
}

// The reasons of gaps that are known here.
const (
	gapRetention  = "retention"
	gapRolledBack = "rolled_back"
	gapReset      = "reset"
	gapTooLarge   = "too_large" // a notification over MaxBody
)

// parseEvent reads the data of an event.
func parseEvent(data []byte) (d eventData, err error) {
	if err := json.Unmarshal(data, &d); err != nil {
		return d, fmt.Errorf("an event cannot be read: %w", err)
	}
	if d.Until.Before(d.From) && d.Reason == "" {
		return d, errors.New("the interval of a notification ends before it begins")
	}
	return d, nil
}

// document asks the hub for a notification that is too long for an event. The address is that of
// the hub which is asked already, whatever an event says.
func (h *hubStream) document(ctx context.Context, id string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout+time.Duration(h.maxBody/slowest)*time.Second)
	defer cancel()
	paced := web.DoerFunc(func(req *http.Request) (*http.Response, error) {
		return web.Pace{Stall: fetchTimeout, Rate: slowest}.Do(h.client, req)
	})
	answer, err := h.ask(ctx, paced, "*/*", "id", id, "")
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	return egress.ReadBody(answer.Body, h.maxBody)
}
