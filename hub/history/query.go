package history

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/resourcesync"
)

// The parameters of a question, beside hub.topic.
const (
	paramTopic    = "hub.topic"
	paramSince    = "since"    // an instant: what ends after it
	paramAfter    = "after"    // a Position, "earliest" or an instant
	paramTo       = "to"       // a Position; with after, in the addresses of closed parts
	paramIndex    = "index"    // the question whose answer is the index of a part; in the addresses of parts
	paramID       = "id"       // one notification
	paramLatest   = "latest"   // the newest one
	paramDescribe = "describe" // "capabilitylist" or "description"
	paramForm     = "form"     // of the events of a stream: "full" or "meta"
)

// earliest is the value of after for everything that is retained.
const earliest = "earliest"

// Asks reports whether a URL asks for history. If not, it asks for the page about the hub.
// A query that cannot be read asks for history if it mentions the topic.
func Asks(u *url.URL) bool {
	q, err := url.ParseQuery(u.RawQuery)
	return q.Has(paramTopic) || err != nil && strings.Contains(u.RawQuery, paramTopic+"=")
}

// QueryError says what is wrong with a question.
type QueryError struct{ Param, Why string }

func (e *QueryError) Error() string { return e.Param + " " + e.Why }

// Query is a question about the history of topics.
type Query struct {
	Topics []string // at least one
	// Since is the instant of since or after; zero: there is none.
	Since time.Time
	// After is the position of after; To is that of to. Nil: there is none.
	After, To Position
	Earliest  bool // after=earliest
	// Index is that of index: the query with which the index of a part was asked for. Empty: there is none.
	Index    string
	ID       uuid.UUID
	Latest   bool
	Describe string
	Meta     bool // form=meta
}

// ParseQuery reads a question. The error is a *QueryError.
func ParseQuery(values url.Values) (q Query, err error) {
	for _, topic := range values[paramTopic] {
		if !slices.Contains(q.Topics, topic) {
			q.Topics = append(q.Topics, topic)
		}
	}
	if len(q.Topics) == 0 || slices.Contains(q.Topics, "") {
		return q, &QueryError{paramTopic, "has to be the URL of a topic"}
	}
	if len(q.Topics) > MaxTopics {
		return q, &QueryError{paramTopic, fmt.Sprintf("is given %d times; a stream has up to %d topics", len(q.Topics), MaxTopics)}
	}
	for _, param := range []struct {
		name string
		read func(string) error
	}{
		{paramSince, q.since},
		{paramAfter, q.after},
		{paramTo, q.to},
		{paramIndex, q.index},
		{paramID, q.id},
		{paramLatest, q.latest},
		{paramDescribe, q.describe},
		{paramForm, q.form},
	} {
		all := values[param.name]
		if len(all) > 1 {
			return q, &QueryError{param.name, "is given more than once; give it once"}
		}
		if len(all) == 1 {
			if err := param.read(all[0]); err != nil {
				return q, err
			}
		}
	}
	if err := q.together(values); err != nil {
		return q, err
	}
	return q, nil
}

// together refuses parameters that contradict each other.
func (q *Query) together(values url.Values) error {
	which := ""
	for _, name := range []string{paramSince, paramAfter, paramID, paramLatest, paramDescribe} {
		if !values.Has(name) {
			continue
		}
		if which != "" {
			return &QueryError{name, "and " + which + " do not go together; give one of them"}
		}
		which = name
	}
	for _, name := range []string{paramTo, paramIndex} {
		if values.Has(name) && q.After == nil {
			return &QueryError{name, "needs after with a position"}
		}
	}
	return nil
}

func (q *Query) latest(v string) error {
	if q.Latest = v == "" || v == "1" || v == "true"; !q.Latest {
		return &QueryError{paramLatest, fmt.Sprintf("is %.60q; write it without a value for the newest notification, or leave it out", v)}
	}
	return nil
}

func (q *Query) since(v string) (err error) {
	if q.Since, err = resourcesync.ParseDatetime(v); err != nil {
		return &QueryError{paramSince, fmt.Sprintf("is %.60q; it has to be a time such as 2026-01-31T12:00:00Z, with + written as %%2B", v)}
	}
	return q.noTime(paramSince)
}

// noTime refuses the instant that stands for none (DOC-13): programs send it for a time that they
// did not set.
func (q *Query) noTime(param string) error {
	if !q.Since.IsZero() {
		return nil
	}
	return &QueryError{param, "is " + resourcesync.FormatDatetime(q.Since) + ", which stands for no time; after=earliest asks for all that the hub has"}
}

func (q *Query) after(v string) (err error) {
	if v == earliest {
		q.Earliest = true
		return nil
	}
	if q.After, err = ParsePosition(v); err == nil {
		return nil
	}
	if q.Since, err = resourcesync.ParseDatetime(v); err != nil {
		return &QueryError{paramAfter, fmt.Sprintf("is %.60q; it has to be a position from RSHub-Position or from the id of an event, earliest, or a time such as 2026-01-31T12:00:00Z", v)}
	}
	return q.noTime(paramAfter)
}

func (q *Query) to(v string) (err error) {
	if q.To, err = ParsePosition(v); err != nil {
		return &QueryError{paramTo, "has to be a position that the hub gave out"}
	}
	return nil
}

func (q *Query) index(v string) (err error) {
	values, err := url.ParseQuery(v)
	var of Query
	if err == nil && isPlain(v) && !values.Has(paramTo) && !values.Has(paramIndex) {
		of, err = ParseQuery(values)
	}
	if err != nil || !slices.Equal(of.Topics, q.Topics) || of.Since.IsZero() && of.After == nil && !of.Earliest {
		return &QueryError{paramIndex, "has to be the question for an index of the topic, as the hub gave it out"}
	}
	q.Index = v
	return nil
}

// isPlain reports whether a query has only characters that an address may have as they are.
func isPlain(query string) bool {
	return !strings.ContainsFunc(query, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"<>\\^`{|}", r) })
}

// asked returns the question of a request, as Query.Index has it.
func (s *Service) asked(r *http.Request, topic string) string {
	if isPlain(r.URL.RawQuery) {
		return r.URL.RawQuery
	}
	values := r.URL.Query()
	name := paramAfter
	if values.Has(paramSince) {
		name = paramSince
	}
	return strings.TrimPrefix(s.url(topic, name, values.Get(name)), s.o.HubURL+"?")
}

func (q *Query) id(v string) (err error) {
	if q.ID, err = uuid.Parse(v); err != nil || q.ID == uuid.Nil {
		return &QueryError{paramID, fmt.Sprintf("is %.60q; it has to be the id of a notification, as Webhook-Id has it", v)}
	}
	return nil
}

func (q *Query) describe(v string) error {
	if v != resourcesync.CapabilityList && v != resourcesync.Description {
		return &QueryError{paramDescribe, "has to be " + resourcesync.CapabilityList + " or " + resourcesync.Description}
	}
	q.Describe = v
	return nil
}

func (q *Query) form(v string) error {
	if v != "full" && v != "meta" {
		return &QueryError{paramForm, "has to be full or meta"}
	}
	q.Meta = v == "meta"
	return nil
}

// url returns the address at which the hub answers a question about one topic.
func (s *Service) url(topic string, params ...string) string {
	b := s.o.HubURL + "?" + paramTopic + "=" + url.QueryEscape(topic)
	for i := 0; i+1 < len(params); i += 2 {
		b += "&" + params[i] + "=" + url.QueryEscape(params[i+1])
	}
	return b
}

// partURL returns the address of what follows an anchor, up to another one if the part is closed. Index is
// the question with which the reader found it.
func (s *Service) partURL(topic string, p *part, closed bool, index string) string {
	params := []string{paramAfter, PositionOf(topic, p.after).String()}
	if closed {
		params = append(params, paramTo, PositionOf(topic, p.last).String())
	}
	return s.url(topic, append(params, paramIndex, index)...)
}

// place returns the anchor of a position in a topic. A position of other topics is before the
// first entry.
func (p Position) place(topic string) journal.Anchor {
	a, _ := p.After(topic)
	return a
}
