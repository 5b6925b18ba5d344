package hub

import (
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/websub"
)

// servePing answers a ping, which says that topics have something new (HUB-60),
// and writes its log line. What comes of it shows in the topics.
func (h *Handler) servePing(w http.ResponseWriter, r *http.Request, form websub.Form, start time.Time) {
	topics, err := h.ping(r, form)
	status, outcome, topic := http.StatusAccepted, OutcomeAccepted, ""
	if err != nil {
		e := h.refuse(w, r, err)
		status, outcome, err = e.kind.status, e.kind.slug, e
	} else {
		answer(w, "text/plain; charset=utf-8", status, "Accepted. What is served there is fetched next, and goes out to the subscribers.\n")
	}
	if len(topics) == 1 {
		topic = topics[0]
	}
	h.tell(Event{
		Name: EventPing, Outcome: outcome, Status: status, Topic: topic, Err: err,
		TraceParent: traceParent(r), RequestID: requestID(w), Start: start, Duration: time.Since(start),
	}, zap.Int("topics", len(topics)), zap.Stringer("requester", h.requester(r)))
}

// ping takes a ping: nil means that its topics are marked durably, all of them,
// and are going to be fetched.
func (h *Handler) ping(r *http.Request, form websub.Form) (topics []string, err error) {
	if h.draining.Load() {
		return nil, refuse(drainingHub, "This hub is shutting down and takes no more pings. Try again in a moment.")
	}
	if topics, err = websub.ParsePing(form); err != nil {
		return nil, err
	}
	if !h.o.Auth.Content && !h.o.Auth.Open {
		return topics, refuse(noCredential, "Publishing here takes a credential, which a ping has none of: POST the notification itself, with the bearer token or X-Hub-Signature that this hub's operator hands out.")
	}
	for _, topic := range topics {
		if err := h.served(topic); err != nil {
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
	if err := h.o.Marks.Ping(r.Context(), h.o.Clock.Now(), topics); err != nil {
		return topics, err
	}
	for _, topic := range topics {
		if h.owns(topic) {
			known := h.fetches.lacks(topic) && h.known(r.Context(), topic)
			h.fetches.ping(topic, known, time.Now())
		}
	}
	return topics, nil
}

// pingRate counts every topic of a ping as one notification, from the address
// that it came from and to the topic's host; over a limit it counts none.
func (h *Handler) pingRate(now time.Time, r *http.Request, topics []string) error {
	hosts := make(map[string]int)
	for _, topic := range topics {
		hosts[egress.HostPortOf(topic)]++
	}
	for host := range hosts {
		// How much there will be to fetch nobody knows yet.
		if err := h.bytesByTopicHost.room(now, topicHostKey(host, false), "of the topic's host", 1); err != nil {
			return err
		}
	}
	claims := []claim{h.byPublisher.claim(now, addressKey(h.requester(r)), "from you", len(topics))}
	for host, n := range hosts {
		claims = append(claims, h.byTopicHost.claim(now, topicHostKey(host, false), "to the topic's host", n))
	}
	var worst error
	var longest time.Duration
	for _, c := range claims {
		if wait, err := c.refusal(now); err != nil && (worst == nil || wait > longest) {
			worst, longest = err, wait
		}
	}
	if worst != nil {
		for _, c := range claims {
			c.giveBack(now)
		}
	}
	return worst
}
