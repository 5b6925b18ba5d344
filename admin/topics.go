package admin

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"github.com/rshub/rshub/journal"
)

func (a *api) listTopics(w http.ResponseWriter, r *http.Request) error {
	p, _, err := parsePage(r.URL.RawQuery)
	if err != nil {
		return err
	}
	return writePage(w, p.limit, a.topics(r.Context(), p), func(t Topic) string { return t.ID })
}

// topics yields the topics of a page and those after it.
func (a *api) topics(ctx context.Context, p pageRequest) iter.Seq2[Topic, error] {
	heads := walk(ctx, p, a.Topics.Topics, func(h journal.Head) uuid.UUID { return journal.TopicID(h.Topic) })
	return func(yield func(Topic, error) bool) {
		for h, err := range heads {
			var t Topic
			if err == nil {
				t = a.topic(h)
			}
			if !yield(t, err) {
				return
			}
		}
	}
}

func (a *api) getTopic(w http.ResponseWriter, r *http.Request) error {
	raw := mux.Vars(r)["id"]
	id, err := uuid.Parse(raw)
	if err != nil {
		return notFound("%q is not the id of a topic: that is the UUIDv5 of its URL; GET /api/v1/topics lists them.", raw)
	}
	// The journal lists topics by id and finds them by URL.
	heads, err := a.Topics.Topics(r.Context(), journal.Partition(id), before(id), 1)
	if err != nil {
		return err
	}
	if len(heads) == 0 || journal.TopicID(heads[0].Topic) != id {
		return notFound("No topic has the id %s; GET /api/v1/topics lists them.", id)
	}
	return writeJSON(w, a.topic(heads[0]))
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

func (a *api) topic(h journal.Head) Topic {
	t := Topic{
		ID:        journal.TopicID(h.Topic).String(),
		URL:       h.Topic,
		Kind:      string(h.Kind),
		LastFrom:  utc(h.From),
		LastUntil: utc(h.Until),
		Reset:     h.Reset,
		Head: Head{
			ID:         h.ID.String(),
			Seq:        h.Last.Seq,
			Position:   position(h.Last.Position),
			ReceivedAt: utc(h.ReceivedAt),
		},
		Gaps:     make([]Gap, 0, len(h.Gaps)),
		Retained: Retained{Entries: h.Entries, Bytes: h.Bytes},
	}
	for _, g := range h.Gaps {
		t.Gaps = append(t.Gaps, Gap{From: utc(g.From), Until: utc(g.Until), Count: g.Count, Reason: g.Reason, At: utc(g.At)})
	}
	if a.Subscribers != nil {
		if n, ok := a.Subscribers(h.Topic); ok {
			t.Subscriptions = &n
		}
	}
	return t
}

// position is a position as the hub's answer to a publish writes it.
func position(p journal.Position) string { return fmt.Sprintf("%016x", uint64(p)) }

// utc keeps a zero time zero, which is left out of the JSON.
func utc(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC()
}
