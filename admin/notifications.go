package admin

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// The orders of a list of notifications.
const (
	oldestFirst = "oldest"
	newestFirst = "newest"
)

func (a *notificationCalls) listNotifications(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	p, err := parsePage(q)
	if err != nil {
		return err
	}
	instants := map[string]time.Time{}
	for _, name := range []string{"since", "at"} {
		if !q.Has(name) {
			continue
		}
		if instants[name], err = parseDatetime(q.Get(name)); err != nil {
			return badRequest("%s=%s: %s. In a query, + is written %%2B.", name, q.Get(name), err)
		}
	}
	order := q.Get("order")
	switch {
	case order != "" && order != oldestFirst && order != newestFirst:
		return badRequest("order=%s is neither %s nor %s.", order, oldestFirst, newestFirst)
	case order == newestFirst && len(instants) > 0:
		return badRequest("since and at go with order=%s only.", oldestFirst)
	case len(instants) > 1:
		return badRequest("Send since or at, not both.")
	}
	t, err := a.topics.topicState(r.Context(), mux.Vars(r)["id"])
	if err != nil {
		return err
	}
	var items iter.Seq2[Notification, error]
	if order == newestFirst {
		before, err := a.beforeNotification(r.Context(), p, t.head)
		if err != nil {
			return err
		}
		items = a.backwards(r.Context(), t.head, before)
	} else {
		after, err := a.afterNotification(r.Context(), p, t.head)
		if err != nil {
			return err
		}
		if items = a.entries(r.Context(), t.head, after, instants["since"]); q.Has("at") {
			items = a.covering(r.Context(), t.head, after, instants["at"])
		}
	}
	return writePage(w, p.limit, items, func(n Notification) string { return n.ID })
}

// afterNotification returns the anchor after which a page begins. If the last notification of
// the previous page was trimmed, that is the anchor before all retained ones.
func (a *notificationCalls) afterNotification(ctx context.Context, p pageRequest, head journal.Head) (journal.Anchor, error) {
	id, err := p.afterID()
	if err != nil || id == uuid.Nil {
		return head.Trimmed, err
	}
	topic, e, err := a.Topics.Find(ctx, id)
	switch {
	case errors.Is(err, journal.ErrNotFound) && journal.IDPartition(id) == journal.Partition(journal.TopicID(head.Topic)):
		return head.Trimmed, nil
	case errors.Is(err, journal.ErrNotFound), err == nil && topic != head.Topic:
		return journal.Anchor{}, p.badAfter()
	}
	return e.Anchor(), err
}

// covering yields the notification of a topic after an anchor whose interval an instant is in, the
// first of two that meet there. Of those without an interval it is the first that was received
// then or later.
func (a *notificationCalls) covering(ctx context.Context, head journal.Head, after journal.Anchor, at time.Time) iter.Seq2[Notification, error] {
	return func(yield func(Notification, error) bool) {
		for n, err := range a.entries(ctx, head, after, at.Add(-1)) {
			if err != nil || !n.From.After(at) {
				yield(n, err)
			}
			return
		}
	}
}

// entries yields the retained notifications of a topic after an anchor that end after since.
// It skips those that cannot be read. It has at most batch of them in memory, without bodies.
func (a *notificationCalls) entries(ctx context.Context, head journal.Head, after journal.Anchor, since time.Time) iter.Seq2[Notification, error] {
	return func(yield func(Notification, error) bool) {
		if begin := head.Before(since); begin.Position > after.Position {
			after = begin
		}
		for {
			entries, err := a.Topics.Read(ctx, head.Topic, after, batch, 0)
			if next, ok := journal.ReadOn(err); ok {
				after = next // trimmed meanwhile, or damaged
				continue
			}
			if err != nil {
				yield(Notification{}, err)
				return
			}
			for i := range entries {
				e := &entries[i]
				after = e.Anchor()
				if e.End().After(since) && !yield(notification(e), nil) {
					return
				}
			}
			if len(entries) == 0 {
				return
			}
		}
	}
}

func notification(e *journal.Entry) Notification {
	return Notification{
		ID: e.ID.String(), From: utc(e.From), Until: utc(e.Until), Kind: string(e.Kind), MediaType: e.MediaType,
		Counts: e.Counts,
		Bytes:  e.Size, SHA256: hex.EncodeToString(e.SHA256[:]),
		Seq: e.Seq, Position: position(e.Position), ReceivedAt: utc(e.ReceivedAt),
	}
}

func (a *notificationCalls) getNotification(w http.ResponseWriter, r *http.Request) error {
	id, err := notificationID(r)
	if err != nil {
		return err
	}
	switch count := r.URL.Query().Get("count"); count {
	case "", "true":
	case "false":
		topic, e, err := a.Topics.Find(r.Context(), id)
		if err != nil {
			return missing(id, err)
		}
		return writeJSON(w, NotificationStatus{Notification: notification(&e), Topic: topic})
	default:
		return badRequest("count=%s is neither true nor false.", count)
	}
	status, err := a.counts.get(r.Context(), id)
	if err != nil {
		return missing(id, err)
	}
	return writeJSON(w, status)
}

// notificationID returns the id in a path.
func notificationID(r *http.Request) (uuid.UUID, error) {
	raw := mux.Vars(r)["id"]
	id, err := parseID(raw)
	if err != nil {
		return id, notFound("%q is not the id of a notification: that is the UUID of the hub's answer to its publish, and of Webhook-Id.", raw)
	}
	return id, nil
}

// missing returns the problem for an error of reading a notification.
func missing(id uuid.UUID, err error) error {
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return notFound("No notification has the id %s, or retention has deleted it; GET /api/v1/topics/{id}/notifications lists those of a topic.", id)
	case errors.Is(err, journal.ErrDamaged):
		return refuse(http.StatusInternalServerError, "What is stored of the notification %s is damaged: %s.", id, err)
	}
	return err
}

const (
	// documentsBytes bounds the documents that are in memory at once for readers of them.
	documentsBytes = 64 << 20
	// A reader has documentTime, and the time that its document takes at documentRate bytes a
	// second. Then its connection ends, so that slow readers do not keep the others out.
	documentTime = 30 * time.Second
	documentRate = 256 << 10
)

// getDocument answers with a document. Browsers store it and show nothing of it, because it
// comes from strangers.
func (a *notificationCalls) getDocument(w http.ResponseWriter, r *http.Request) error {
	id, err := notificationID(r)
	if err != nil {
		return err
	}
	topic, e, err := a.Topics.Find(r.Context(), id)
	if err != nil {
		return missing(id, err)
	}
	h := w.Header()
	h.Set("Content-Type", cmp.Or(e.MediaType, "application/octet-stream"))
	h.Set("Content-Disposition", `attachment; filename="`+id.String()+`"`)
	h.Set("Content-Length", strconv.FormatInt(e.Size, 10))
	if r.Method == http.MethodHead {
		return nil
	}
	weight := min(e.Size, documentsBytes)
	if !a.documents.TryAcquire(weight) {
		h.Del("Content-Length")
		p := refuse(http.StatusServiceUnavailable, "Too many documents are being read; try again in a moment.")
		p.retryAfter = 2
		return p
	}
	defer a.documents.Release(weight)
	body, err := a.Topics.Body(r.Context(), topic, e)
	if err != nil {
		h.Del("Content-Length")
		return missing(id, err)
	}
	limit := documentTime + time.Duration(e.Size/documentRate)*time.Second
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(limit)) // not every ResponseWriter of a test supports that
	_, _ = w.Write(body)                                                      // the reader may have gone
	return nil
}

// outcomes are the words for the results of a notification. One that was not meant for a
// subscription has none.
var outcomes = map[subscriptions.Outcome]string{
	subscriptions.Delivered: "delivered", subscriptions.Pending: "pending", subscriptions.Skipped: "skipped",
}

// listReceivers lists the subscriptions of the topic of a notification with its results.
func (a *notificationCalls) listReceivers(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	p, err := parsePage(q)
	if err != nil {
		return err
	}
	after, err := p.afterID()
	if err != nil {
		return err
	}
	want := q.Get("outcome")
	if words := slices.Sorted(maps.Values(outcomes)); want != "" && !slices.Contains(words, want) {
		return badRequest("outcome=%s is unknown; use one of these: %s.", want, strings.Join(words, ", "))
	}
	id, err := notificationID(r)
	if err != nil {
		return err
	}
	topic, e, err := a.Topics.Find(r.Context(), id)
	if err != nil {
		return missing(id, err)
	}
	all := a.receivers(r.Context(), after, topic, &e)
	return writePage(w, p.limit, func(yield func(Receiver, error) bool) {
		for to, err := range all {
			if err == nil && (to.Outcome == "" || want != "" && want != to.Outcome) {
				continue
			}
			if !yield(to, err) {
				return
			}
		}
	}, func(to Receiver) string { return to.ID })
}

// receivers yields the subscriptions of a topic after an id, with the result of an entry of
// the topic. It reads maxRead subscriptions at most.
func (a *notificationCalls) receivers(ctx context.Context, after uuid.UUID, topic string, e *journal.Entry) iter.Seq2[Receiver, error] {
	return func(yield func(Receiver, error) bool) {
		now, heads := a.Now(), a.heads()
		for rec, err := range bounded(ctx, walk(ctx, after, a.Subscriptions.List, recordID), maxRead, recordID) {
			var to Receiver
			if err == nil {
				if rec.Subscription == nil || rec.Subscription.Topic != topic {
					continue
				}
				to.Outcome = outcomes[rec.Subscription.Outcome(e)]
				to.Subscription, err = subscription(ctx, rec, now, heads)
			}
			if !yield(to, err) || err != nil {
				return
			}
		}
	}
}

// count finds a notification and its outcome for every subscription. It has at most batch
// subscriptions in memory.
func (a *notificationCalls) count(ctx context.Context, id uuid.UUID) (NotificationStatus, error) {
	asOf := a.Now()
	topic, e, err := a.Topics.Find(ctx, id)
	if err != nil {
		return NotificationStatus{}, err
	}
	out := NotificationStatus{Notification: notification(&e), Topic: topic, AsOf: utc(asOf)}
	for rec, err := range walk(ctx, uuid.Nil, a.Subscriptions.List, recordID) {
		if err != nil {
			return NotificationStatus{}, err
		}
		s := rec.Subscription
		if s == nil || s.Topic != topic {
			continue
		}
		switch s.Outcome(&e) {
		case subscriptions.Delivered:
			out.Delivered++
		case subscriptions.Pending:
			out.Pending++
		case subscriptions.Skipped:
			out.Skipped++
		case subscriptions.NotMeant:
		}
	}
	return out, nil
}
