package admin

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

func (a *subscriptionCalls) listSubscriptions(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	p, err := parsePage(q)
	if err != nil {
		return err
	}
	after, err := p.afterID()
	if err != nil {
		return err
	}
	f, err := parseFilter(q)
	if err != nil {
		return err
	}
	records := bounded(r.Context(), walk(r.Context(), after, a.Subscriptions.List, recordID), maxRead, recordID)
	return writePage(w, p.limit, a.subscriptions(r.Context(), records, f), func(s Subscription) string { return s.ID })
}

// subscriptions yields the records that f selects.
func (a *subscriptionCalls) subscriptions(ctx context.Context, records iter.Seq2[subscriptions.Record, error], f filter) iter.Seq2[Subscription, error] {
	return func(yield func(Subscription, error) bool) {
		now, heads := a.Now(), a.heads()
		for rec, err := range records {
			var s Subscription
			if err == nil {
				if !f.match(rec, now) {
					continue
				}
				s, err = subscription(ctx, rec, now, heads)
			}
			if !yield(s, err) || err != nil {
				return
			}
		}
	}
}

func (a *subscriptionCalls) getSubscription(w http.ResponseWriter, r *http.Request) error {
	id, rec, err := a.record(r.Context(), mux.Vars(r)["id"])
	if err != nil {
		return err
	}
	s, err := subscription(r.Context(), rec, a.Now(), a.heads())
	if err != nil {
		return err
	}
	if s.Request != nil && a.Tried != nil {
		var next time.Time
		if s.Request.LastError, next = a.Tried(id); s.Request.NextAt.IsZero() { // topic checks are not stored
			s.Request.NextAt = utc(next)
		}
	}
	return writeJSON(w, s)
}

// record finds a subscription, or the request for one, by the id in a path.
func (a *subscriptionCalls) record(ctx context.Context, raw string) (uuid.UUID, subscriptions.Record, error) {
	id, err := subscriptionID(raw)
	if err != nil {
		return id, subscriptions.Record{}, err
	}
	rec, err := a.Subscriptions.Get(ctx, id)
	if err == nil && rec.State(a.Now()) == "" {
		err = noSubscription(id)
	}
	return id, rec, err
}

func subscriptionID(raw string) (uuid.UUID, error) {
	id, err := parseID(raw)
	if err != nil {
		return id, notFound("%q is not the id of a subscription: that is the UUIDv5 of topic, newline, callback; GET /api/v1/subscriptions lists them.", raw)
	}
	return id, nil
}

func noSubscription(id uuid.UUID) *problem {
	return notFound("No subscription has the id %s, or it ended more than 7 days ago; GET /api/v1/subscriptions lists them.", id)
}

// filter selects subscriptions. An empty field selects all.
type filter struct {
	topic   string
	topicID uuid.UUID
	state   subscriptions.State
	host    string
	at      subscriptions.Host // what host means
}

var states = []subscriptions.State{
	subscriptions.StatePending, subscriptions.StateActive, subscriptions.StateFailing, subscriptions.StatePaused, subscriptions.StateEnded,
}

// parseFilter reads ?topic= (a URL or an id), ?state= and ?host= (a callback's host,
// with or without its port, also where the callback leaves that out).
func parseFilter(q url.Values) (filter, error) {
	f := filter{topic: q.Get("topic"), state: subscriptions.State(q.Get("state")), host: q.Get("host"), at: subscriptions.ParseHost(q.Get("host"))}
	if f.state != "" && !slices.Contains(states, f.state) {
		return f, badRequest("state=%s is not a state of a subscription: these are pending, active, failing, paused and ended.", f.state)
	}
	if f.topic != "" {
		f.topicID = journal.TopicID(f.topic)
		if id, err := uuid.Parse(f.topic); err == nil {
			f.topicID = id
		}
	}
	return f, nil
}

func (f filter) match(rec subscriptions.Record, now time.Time) bool {
	topic, _ := rec.Pair()
	if f.topic != "" && f.topic != topic && f.topicID != journal.TopicID(topic) {
		return false
	}
	if state := rec.State(now); state == "" || f.state != "" && f.state != state {
		return false
	}
	return f.host == "" || f.at.Has(rec)
}

func recordID(rec subscriptions.Record) uuid.UUID { return subscriptions.ID(rec.Pair()) }

// heads reads the head of each topic once for a page. It has at most as many as the page has
// items.
type heads struct {
	topics Topics
	known  map[string]journal.Head
}

func (a *Options) heads() *heads { return &heads{topics: a.Topics, known: map[string]journal.Head{}} }

func (h *heads) get(ctx context.Context, topic string) (journal.Head, error) {
	if head, ok := h.known[topic]; ok {
		return head, nil
	}
	head, err := h.topics.Head(ctx, topic)
	if err == nil {
		h.known[topic] = head
	}
	return head, err
}

func subscription(ctx context.Context, rec subscriptions.Record, now time.Time, heads *heads) (Subscription, error) {
	topic, callback := rec.Pair()
	out := Subscription{ID: recordID(rec).String(), Topic: topic, Callback: callback, State: string(rec.State(now))}
	if q := rec.Request; q != nil {
		out.Signed = q.Secret != ""
		out.Request = &Request{
			Mode:         string(q.Mode),
			LeaseSeconds: int64(q.Lease / time.Second),
			AcceptedAt:   utc(q.AcceptedAt),
			Denied:       q.Denied,
			Tries:        q.Tries,
			NextAt:       utc(q.NextAt),
		}
	}
	s := rec.Subscription
	if s == nil {
		return out, nil
	}
	c := s.Cursor
	out.Signed = s.Secret != ""
	out.CreatedAt, out.VerifiedAt, out.ExpiresAt = utc(s.CreatedAt), utc(s.VerifiedAt), utc(s.ExpiresAt)
	out.PausedAt, out.EndedAt, out.EndReason = utc(s.PausedAt), utc(s.EndedAt), s.EndReason
	out.Cursor = &Cursor{Position: position(c.Position), Seq: c.Seq, Until: utc(c.Until)}
	out.Attempt = c.Attempt
	if c.Attempt > 0 { // otherwise it is when the notification was found damaged
		out.FirstAttemptAt = utc(c.FirstAttemptAt)
	}
	out.LastStatus, out.LastError = Outcome(c.LastStatus)
	head := journal.Head{}
	if s.EndedAt.IsZero() {
		var err error
		if head, err = heads.get(ctx, topic); err != nil {
			return out, err
		}
	}
	out.Gaps = len(s.OwnGaps(head, now))
	if s.Live(now) {
		lag := subscriptions.LagOf(head.Last, head.Trimmed, c, now)
		out.Lag = &Lag{Notifications: lag.Notifications, Seconds: lag.Span.Seconds(), Lost: lag.Lost}
		if s.PausedAt.IsZero() {
			out.NextAttemptAt = utc(c.NextAttemptAt)
		}
	}
	return out, nil
}

// failures are the words for the last attempts that got no HTTP answer.
var failures = map[int]string{
	journal.StatusTimeout: "timeout",
	journal.StatusConnect: "connect",
	journal.StatusRefused: "refused",
	journal.StatusError:   "error",
}

// Outcome splits the status of a cursor's last attempt into an HTTP status, which is 0 if
// there was no answer, and the word for that.
func Outcome(status int) (int, string) {
	if word := failures[status]; word != "" {
		return 0, word
	}
	return status, ""
}
