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
	"github.com/rshub/rshub/websub"
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

// reads answers the readers of a Handler, who ask what the journal has.
type reads struct {
	h                  *Handler
	byRequester, byAll *limiters // bytes of notifications
}

// serve answers a question about the history of topics, and writes its log line.
func (rd *reads) serve(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	e := Event{Name: EventRead, Outcome: OutcomeAccepted, Status: http.StatusOK}
	if topic := r.URL.Query().Get("hub.topic"); websub.CheckURL("the topic", topic) == nil { // else it must not be repeated in the log
		e.Topic = topic
	}
	rd.allowOrigin(w.Header(), r)
	defer func() { rd.h.reportRequest(w, r, start, e) }() // also of an answer that was broken off
	if err := rd.answer(w, r, &e); err != nil {
		rd.h.refused(w, r, &e, err)
	}
}

// answer answers a question, or returns why not before anything is written.
func (rd *reads) answer(w http.ResponseWriter, r *http.Request, e *Event) error {
	if rd.h.o.History == nil || rd.h.o.Read == ReadOff {
		return refuse(historyOff, "This hub does not serve the history of topics. Subscribe, or read the lists of the Source.")
	}
	if err := rd.h.browsers.CheckHost(r); err != nil {
		return err
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil { // what cannot be read is missing in values
		return refuse(badQuery, "The query cannot be read: %s. Write & between parameters, and %% as %%25.", err)
	}
	q, err := history.ParseQuery(values)
	if err != nil {
		return err
	}
	if err := rd.mayRead(r, q.Topics, e); err != nil {
		return err
	}
	from := history.Reader{
		Name:    ingress.Network(rd.h.proxies.Requester(r)),
		Charge:  func(n int64) error { return rd.charge(r, n) },
		Planned: func(n int64, sent bool) error { return rd.planned(r, n, sent) },
	}
	accept := negotiate.Media(r.Header)
	if accept.Quality(mediaEvents) > accept.Quality(mediaXML, mediaTextXML) {
		from.Publisher = e.Publisher
		return rd.stream(w, r, q, from)
	}
	switch {
	case len(q.Topics) > 1:
		return refuse(badQuery, "The answer is about one topic, and %d are named; ask for each by itself.", len(q.Topics))
	case q.Describe != "":
		if !accept.Accepts(mediaXML, mediaTextXML) {
			return refuse(notAcceptable, "This is an XML document, and Accept excludes XML.")
		}
		return rd.h.o.History.Describe(w, r, q)
	case q.Latest, q.ID != [16]byte{}:
		return rd.h.o.History.Document(w, r, q, from)
	case q.Since.IsZero() && q.After == nil && !q.Earliest:
		return refuse(badQuery, "Say from where: with since=DATETIME for the changes since then, after=earliest for all that the hub has, or latest for the newest notification.")
	case !accept.Accepts(mediaXML, mediaTextXML):
		return refuse(notAcceptable, "A Change List is an XML document, and Accept excludes XML.")
	}
	return rd.h.o.History.Changes(w, r, q, from)
}

// stream answers with events, until the reader goes away.
func (rd *reads) stream(w http.ResponseWriter, r *http.Request, q history.Query, from history.Reader) error {
	if q.Describe != "" || q.Latest || q.ID != [16]byte{} || q.To != nil {
		return refuse(badQuery, "A stream begins with after=, or with what comes next. Ask for documents without Accept: text/event-stream.")
	}
	from.Address = from.Name
	from.Allowed = func() bool { return rd.mayRead(r, q.Topics, &Event{}) == nil }
	return rd.h.o.History.Stream(w, r, q, from)
}

// mayRead refuses a question about topics that its sender may not read. To those without a
// right, a topic that the hub has is like one that it has not.
func (rd *reads) mayRead(r *http.Request, topics []string, e *Event) error {
	token, given := ingress.Bearer(r.Header.Get("Authorization"))
	for _, topic := range topics {
		if err := rd.h.checkTopic(topic); err != nil {
			return &history.UnknownError{Topic: topic}
		}
		if rd.h.o.Read != ReadToken {
			continue
		}
		if !given {
			return refuse(noCredential, "This hub lets only known readers read. Send the token that its operator gave you, as Authorization: Bearer.")
		}
		reader, err := rd.h.o.Publishers.Reader(token, topic)
		if reader.Name == "" {
			return refuse(wrongCredential, "The bearer token is not that of a reader here.")
		}
		e.Publisher = reader.Name
		if err != nil {
			return &history.UnknownError{Topic: topic}
		}
	}
	return nil
}

// planShare is the share of the bytes of an answer, one in so many, that planning it counts as if none
// of them are sent.
const planShare = 8

// planned counts n bytes of an answer that was planned. If it is refused or not sent, some of them
// count: those who ask again and again without waiting are soon refused before anything is planned.
func (rd *reads) planned(r *http.Request, n int64, sent bool) error {
	now, key := rd.h.o.Now(), ingress.Network(rd.h.proxies.Requester(r))
	if sent && rd.mayHave(now, key, n) == nil {
		return rd.charge(r, n)
	}
	rd.spend(now, key, n/planShare)
	if !sent {
		return nil
	}
	return rd.mayHave(now, key, n) // when, after what planning cost
}

// mayHave returns nil if a requester may read n bytes now, or else says when.
func (rd *reads) mayHave(now time.Time, key string, n int64) error {
	if err := rd.byRequester.check(now, key, "to your address", max(n, 1)); err != nil {
		return err
	}
	return rd.byAll.check(now, "", "to all readers together", max(n, 1))
}

// charge counts n bytes that a requester is about to read.
func (rd *reads) charge(r *http.Request, n int64) error {
	now, key := rd.h.o.Now(), ingress.Network(rd.h.proxies.Requester(r))
	if err := rd.mayHave(now, key, n); err != nil {
		return err
	}
	rd.spend(now, key, n)
	return nil
}

func (rd *reads) spend(now time.Time, key string, n int64) {
	rd.byRequester.spend(now, key, n)
	rd.byAll.spend(now, "", n)
}

// allowOrigin lets the web pages of some origins read the answer. Credentials of browsers are
// never asked for, so a page reads what its visitor's machine can reach, and no more.
func (rd *reads) allowOrigin(header http.Header, r *http.Request) bool {
	header.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" || !slices.Contains(rd.h.o.ReadOrigins, "*") && !slices.Contains(rd.h.o.ReadOrigins, origin) {
		return false
	}
	header.Set("Access-Control-Allow-Origin", origin)
	header.Set("Access-Control-Expose-Headers", strings.Join([]string{history.HeaderUntil, history.HeaderPosition, history.HeaderGap, "Link", "ETag", "Retry-After", "Webhook-Id", headerRequestID}, ", "))
	header.Set("Cross-Origin-Resource-Policy", "cross-origin")
	return true
}

// preflight answers the question of a browser whether a page may read, if it is one.
func (rd *reads) preflight(w http.ResponseWriter, r *http.Request) bool {
	wanted := r.Header.Get("Access-Control-Request-Method")
	if r.Method != http.MethodOptions || wanted != http.MethodGet && wanted != http.MethodHead || !history.Asks(r.URL) || !rd.allowOrigin(w.Header(), r) {
		return false
	}
	w.Header().Set("Access-Control-Allow-Methods", "GET, HEAD")
	w.Header().Set("Access-Control-Allow-Headers", "Authorization, Last-Event-ID, If-None-Match, Range, Cache-Control")
	w.Header().Set("Access-Control-Max-Age", fmt.Sprint(int((10 * time.Minute).Seconds())))
	w.WriteHeader(http.StatusNoContent)
	return true
}
