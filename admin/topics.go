package admin

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"github.com/rshub/rshub/journal"
)

// topicState is what is stored of a topic. If it was pinged and never published to, its head
// has no version.
type topicState struct {
	head journal.Head
	ping *journal.PingRecord // nil: it was never pinged
}

func (t topicState) id() uuid.UUID { return journal.TopicID(t.head.Topic) }

func (a *topicCalls) listTopics(w http.ResponseWriter, r *http.Request) error {
	p, err := parsePage(r.URL.Query())
	if err != nil {
		return err
	}
	after, err := p.afterID()
	if err != nil {
		return err
	}
	states := shown(bounded(r.Context(), walk(r.Context(), after, a.topicStates, topicState.id), maxRead, topicState.id))
	return writePage(w, p.limit, mapped(states, a.topic), func(t Topic) string { return t.ID })
}

// gone reports whether only a tombstone is left of the topic, and no ping came since.
func (t topicState) gone() bool { return t.head.IsTombstone() && t.ping == nil }

// shown yields the states without those of topics that are gone.
func shown(states iter.Seq2[topicState, error]) iter.Seq2[topicState, error] {
	return func(yield func(topicState, error) bool) {
		for t, err := range states {
			if (err != nil || !t.gone()) && !yield(t, err) {
				return
			}
		}
	}
}

// mapped yields f of each item.
func mapped[T, U any](items iter.Seq2[T, error], f func(T) U) iter.Seq2[U, error] {
	return func(yield func(U, error) bool) {
		for item, err := range items {
			var u U
			if err == nil {
				u = f(item)
			}
			if !yield(u, err) {
				return
			}
		}
	}
}

// topicStates lists the topics of a partition that have a head or a ping record, after an id
// and ordered by it. It returns at least one if there are any.
func (a *topicCalls) topicStates(ctx context.Context, partition int, after uuid.UUID, limit int) ([]topicState, error) {
	heads, err := a.Topics.Topics(ctx, partition, after, limit)
	if err != nil || a.Pings == nil {
		return joined(heads, nil), err
	}
	pings, err := a.Pings.PingRecords(ctx, partition, after, limit)
	return joined(heads, pings), err
}

// joined merges heads and ping records, both ordered by topic id. There may be more after the
// end of a list, unless it is empty. So the result ends where the shorter list ends.
func joined(heads []journal.Head, pings []journal.PingRecord) []topicState {
	var out []topicState
	for all := len(heads) > 0 && len(pings) > 0; len(heads)+len(pings) > 0; {
		if all && (len(heads) == 0 || len(pings) == 0) {
			break
		}
		order := 0
		switch {
		case len(pings) == 0:
			order = -1
		case len(heads) == 0:
			order = 1
		default:
			h, m := journal.TopicID(heads[0].Topic), journal.TopicID(pings[0].Topic)
			order = bytes.Compare(h[:], m[:])
		}
		var t topicState
		if order <= 0 {
			t.head, heads = heads[0], heads[1:]
		}
		if order >= 0 {
			t.ping, pings = &pings[0], pings[1:]
			t.head.Topic = t.ping.Topic
		}
		out = append(out, t)
	}
	return out
}

// topicState finds a topic by the id in a path.
func (a *topicCalls) topicState(ctx context.Context, raw string) (topicState, error) {
	id, err := parseID(raw)
	if err != nil {
		return topicState{}, notFound("%q is not the id of a topic: that is the UUIDv5 of its URL; GET /api/v1/topics lists them.", raw)
	}
	// The journal lists topics by id and finds them by URL.
	found, err := a.topicStates(ctx, journal.Partition(id), before(id), 1)
	if err != nil {
		return topicState{}, err
	}
	if len(found) == 0 || found[0].id() != id || found[0].gone() {
		return topicState{}, notFound("No topic has the id %s; GET /api/v1/topics lists them.", id)
	}
	return found[0], nil
}

func (a *topicCalls) getTopic(w http.ResponseWriter, r *http.Request) error {
	t, err := a.topicState(r.Context(), mux.Vars(r)["id"])
	if err != nil {
		return err
	}
	return writeJSON(w, a.topic(t))
}

// before returns the id that precedes id.
func before(id uuid.UUID) uuid.UUID {
	for i := len(id) - 1; i >= 0; i-- {
		id[i]--
		if id[i] != 0xff {
			break
		}
	}
	return id
}

func (a *topicCalls) topic(of topicState) Topic {
	h := of.head
	if h.IsTombstone() { // it was pinged since
		h = journal.Head{Topic: h.Topic}
	}
	t := Topic{
		ID:        of.id().String(),
		URL:       h.Topic,
		Kind:      string(h.Kind),
		LastFrom:  utc(h.From),
		LastUntil: utc(h.Until),
		Reset:     h.Reset,
		Gaps:      gaps(h.Gaps),
		Retained:  Retained{Entries: h.Entries, Bytes: h.Bytes},
	}
	if h.Last.Seq > 0 {
		t.Head = Head{ID: h.ID.String(), Seq: h.Last.Seq, Position: position(h.Last.Position), ReceivedAt: utc(h.ReceivedAt)}
	}
	if of.ping != nil {
		t.Fetch = fetch(of.ping)
	}
	if a.Pauses != nil {
		t.Pauses = a.Pauses(h.Topic)
	}
	if a.Subscribers != nil {
		if n, ok := a.Subscribers(h.Topic); ok {
			t.Subscriptions = &n
		}
	}
	return t
}

func fetch(m *journal.PingRecord) *Fetch {
	f := &Fetch{
		PingedAt: utc(m.PingedAt), Waiting: m.Waiting(), Tries: m.Tries, NextAttemptAt: utc(m.NextAt),
		At: utc(m.Last.At), Outcome: m.Last.Outcome, Detail: m.Last.Detail, Status: m.Last.Status,
	}
	if m.Last.ID != uuid.Nil {
		f.NotificationID = m.Last.ID.String()
	}
	return f
}

// position formats a position as the hub's answer to a publish does.
func position(p journal.Position) string { return fmt.Sprintf("%016x", uint64(p)) }

// utc keeps a zero time zero, which is left out of the JSON.
func utc(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC()
}
