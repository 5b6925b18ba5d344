package hub

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rshub/rshub/hub/history"
	"github.com/rshub/rshub/internal/base/ingress"
	"github.com/rshub/rshub/internal/base/negotiate"
)

// ReadAccess says who may read the history of topics (`--stream`).
type ReadAccess string

// The kinds of access.
const (
	ReadOpen  ReadAccess = "open"  // anyone, as anyone can subscribe
	ReadToken ReadAccess = "token" // readers with a bearer token that covers the topic
	ReadOff   ReadAccess = "off"
)

// The media types of answers.
const (
	mediaTextXML = "text/xml"
	mediaEvents  = "text/event-stream"
)

// serveRead answers a question about the history of topics, and writes its log line.
func (h *Handler) serveRead(w http.ResponseWriter, r *http.Request, values url.Values) {
	start := time.Now()
	e := Event{Name: EventRead, Outcome: OutcomeAccepted, Status: http.StatusOK, Topic: values.Get("hub.topic")}
	h.allowOrigin(w.Header(), r)
	if err := h.readHistory(w, r, values, &e); err != nil {
		h.refused(w, r, &e, err)
	}
	h.reportRequest(w, r, start, e)
}

// readHistory answers a question, or returns why not before anything is written.
func (h *Handler) readHistory(w http.ResponseWriter, r *http.Request, values url.Values, e *Event) error {
	if h.o.History == nil || h.o.Read == ReadOff {
		return refuse(historyOff, "This hub does not serve the history of topics. Subscribe, or read the lists of the Source.")
	}
	q, err := history.ParseQuery(values)
	if err != nil {
		return err
	}
	if err := h.mayRead(r, q.Topics, e); err != nil {
		return err
	}
	from := history.Reader{Name: ingress.Network(h.proxies.Requester(r)), Charge: func(n int64) error { return h.chargeRead(r, n) }}
	accept := negotiate.Media(r.Header)
	if accept.Quality(mediaEvents) > accept.Quality(mediaXML) {
		return h.stream(w, r, q, from)
	}
	switch {
	case q.Describe != "":
		if !accept.Accepts(mediaXML, mediaTextXML) {
			return refuse(notAcceptable, "This is an XML document, and Accept excludes XML.")
		}
		return h.o.History.Describe(w, r, q)
	case q.Latest, q.ID != [16]byte{}:
		return h.o.History.Document(w, r, q, from)
	case len(q.Topics) > 1:
		return refuse(badQuery, "A Change List is of one topic, and %d are named; ask for each by itself.", len(q.Topics))
	case q.Since.IsZero() && q.After == nil && !q.Earliest:
		return refuse(badQuery, "Say from where: with since=DATETIME for the changes since then, after=earliest for all that the hub has, or latest for the newest notification.")
	case !accept.Accepts(mediaXML, mediaTextXML):
		return refuse(notAcceptable, "A Change List is an XML document, and Accept excludes XML.")
	}
	return h.o.History.Changes(w, r, q, from)
}

// stream answers with events, until the reader goes away.
func (h *Handler) stream(w http.ResponseWriter, r *http.Request, q history.Query, from history.Reader) error {
	if q.Describe != "" || q.Latest || q.ID != [16]byte{} || q.To != nil {
		return refuse(badQuery, "A stream begins with after=, or with what comes next. Ask for documents without Accept: text/event-stream.")
	}
	from.Address = h.proxies.Requester(r).String()
	from.Streams = func() { ingress.Release(r) }
	from.Allowed = func() bool { return h.mayRead(r, q.Topics, &Event{}) == nil }
	return h.o.History.Stream(w, r, q, from)
}

// mayRead refuses a question about topics that its sender may not read. To those without a
// right, a topic that the hub has is like one that it has not.
func (h *Handler) mayRead(r *http.Request, topics []string, e *Event) error {
	token, given := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	for _, topic := range topics {
		if err := h.checkTopic(topic); err != nil {
			return history.ErrUnknown
		}
		if h.o.Read != ReadToken {
			continue
		}
		if !given {
			return refuse(noCredential, "This hub lets only known readers read. Send the token that its operator gave you, as Authorization: Bearer.")
		}
		reader, err := h.o.Publishers.Reader(token, topic)
		if reader.Name == "" {
			return refuse(wrongCredential, "The bearer token is not that of a reader here.")
		}
		e.Publisher = reader.Name
		if err != nil {
			return history.ErrUnknown
		}
	}
	return nil
}

// chargeRead counts n bytes that a requester is about to read.
func (h *Handler) chargeRead(r *http.Request, n int64) error {
	now, key := h.o.Now(), ingress.Network(h.proxies.Requester(r))
	if err := h.readByRequester.check(now, key, "to your address", n); err != nil {
		return err
	}
	if err := h.readByAll.check(now, "", "to all readers together", n); err != nil {
		return err
	}
	h.readByRequester.spend(now, key, n)
	h.readByAll.spend(now, "", n)
	return nil
}

// allowOrigin lets the web pages of some origins read the answer. Credentials of browsers are
// never asked for, so a page reads what its visitor's machine can reach, and no more.
func (h *Handler) allowOrigin(header http.Header, r *http.Request) bool {
	header.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" || !slices.Contains(h.o.ReadOrigins, "*") && !slices.Contains(h.o.ReadOrigins, origin) {
		return false
	}
	header.Set("Access-Control-Allow-Origin", origin)
	header.Set("Access-Control-Expose-Headers", strings.Join([]string{history.HeaderUntil, history.HeaderPosition, history.HeaderGap, "Link", "ETag", "Retry-After", "Webhook-Id", headerRequestID}, ", "))
	header.Set("Cross-Origin-Resource-Policy", "cross-origin")
	return true
}

// preflight answers the question of a browser whether a page may read, if it is one.
func (h *Handler) preflight(w http.ResponseWriter, r *http.Request) bool {
	wanted := r.Header.Get("Access-Control-Request-Method")
	if r.Method != http.MethodOptions || wanted != http.MethodGet && wanted != http.MethodHead || !history.Asks(r.URL.Query()) || !h.allowOrigin(w.Header(), r) {
		return false
	}
	w.Header().Set("Access-Control-Allow-Methods", "GET, HEAD")
	w.Header().Set("Access-Control-Allow-Headers", "Authorization, Last-Event-ID, If-None-Match, Range, Cache-Control")
	w.Header().Set("Access-Control-Max-Age", fmt.Sprint(int((10 * time.Minute).Seconds())))
	w.WriteHeader(http.StatusNoContent)
	return true
}
