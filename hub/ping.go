package hub

import (
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/websub"
)

// servePing answers a ping, which says that topics have something new (HUB-60), and
// writes its log line. The operator sees the result with the topics.
func (h *Handler) servePing(w http.ResponseWriter, r *http.Request, form websub.Form, start time.Time) {
	topics, err := h.ping(r, form)
	e := Event{Name: EventPing, Outcome: OutcomeAccepted, Status: http.StatusAccepted}
	if err != nil {
		h.refused(w, r, &e, err)
	} else {
		answer(w, "text/plain; charset=utf-8", e.Status, "Accepted. The hub fetches the topic next, and delivers what it serves to the subscribers.\n")
	}
	if len(topics) == 1 {
		e.Topic = topics[0]
	}
	h.reportRequest(w, r, start, e, zap.Int("topics", len(topics)))
}

// ping accepts a ping. Nil: the ping is durable, and all its topics will be fetched.
func (h *Handler) ping(r *http.Request, form websub.Form) (topics []string, err error) {
	if h.draining.Load() {
		return nil, refuse(drainingHub, "This hub is shutting down and accepts no more pings. Try again in a moment.")
	}
	if topics, err = websub.ParsePing(form); err != nil {
		return nil, err
	}
	if !h.o.Auth.Content && !h.o.Auth.Open {
		return topics, refuse(noCredential, "Publishing here needs a credential, and a ping has none. POST the notification itself, with a bearer token or X-Hub-Signature; ask this hub's operator for one.")
	}
	for _, topic := range topics {
		if err := h.checkTopic(topic); err != nil {
			return topics, err
		}
		if h.o.Callbacks == nil {
			continue
		}
		if err := h.o.Callbacks.CheckLiteral(topic); err != nil {
			return topics, refuse(topicNotAllowed, "The topic's address %s", sentence(err.Error()))
		}
	}
	now := h.o.Now()
	if err := h.pingRate(now, r, topics); err != nil {
		return topics, err
	}
	if err := h.o.Pings.Ping(r.Context(), h.o.Clock.Now(), topics); err != nil {
		return topics, err
	}
	for _, topic := range topics {
		if h.owns(topic) {
			known := h.fetches.lacks(topic) && isKnown(r.Context(), &h.o, topic)
			h.fetches.ping(topic, known, time.Now())
		}
	}
	return topics, nil
}

// pingRate counts each topic of a ping as one notification, for the requester's address
// and for the topic's host. Over a limit it counts none.
func (h *Handler) pingRate(now time.Time, r *http.Request, topics []string) error {
	hosts := make(map[string]int)
	for _, topic := range topics {
		hosts[egress.HostPortOf(topic)]++
	}
	for host := range hosts {
		// How many bytes there are to fetch is not known yet.
		if err := h.bytesByTopicHost.check(now, topicHostKey(host, false), "of the topic's host", 1); err != nil {
			return err
		}
	}
	reserved := []reservation{h.byPublisher.reserve(now, addressKey(h.proxies.Requester(r)), "from you", len(topics))}
	for host, n := range hosts {
		reserved = append(reserved, h.byTopicHost.reserve(now, topicHostKey(host, false), "to the topic's host", n))
	}
	var worst error
	var longest time.Duration
	for _, r := range reserved {
		if wait, err := r.refusal(now); err != nil && (worst == nil || wait > longest) {
			worst, longest = err, wait
		}
	}
	if worst != nil {
		for _, r := range reserved {
			r.cancel(now)
		}
	}
	return worst
}
