package hub

import (
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/rshub/rshub/internal/egress"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/websub"
)

// serveForm answers a POST of a form, a subscription request (HUB-01 to HUB-18),
// and writes its log line.
func (h *Handler) serveForm(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	var req websub.SubscribeRequest
	err := h.subscribe(w, r, &req)
	status, outcome := http.StatusAccepted, OutcomeAccepted
	if err != nil {
		e := h.refuse(w, r, err)
		status, outcome = e.kind.status, e.kind.slug
	} else {
		answer(w, "text/plain; charset=utf-8", status,
			"Accepted. The callback is asked next whether it wants this; its answer decides.\n")
	}
	event, id := EventSubscribe, ""
	if req.Mode == websub.ModeUnsubscribe {
		event = EventUnsubscribe
	}
	if req.Callback != "" {
		id = subscriptions.ID(req.Topic, req.Callback).String()
	}
	h.tell(Event{
		Name: event, Outcome: outcome, Status: status, Topic: req.Topic, Err: err,
		TraceParent: traceParent(r), Start: start, Duration: time.Since(start),
	}, orSkip("subscription_id", id), orSkip("callback_host", egress.HostPortOf(req.Callback)), zap.Stringer("requester", h.requester(r)))
}

// subscribe takes a subscription request: nil means that it is stored and will
// be verified. Nothing here depends on whether there is a subscription, on the
// callback's answer or on the topic's (HUB-15, HUB-18).
func (h *Handler) subscribe(w http.ResponseWriter, r *http.Request, req *websub.SubscribeRequest) error {
	addr := h.requester(r)
	if err := h.byRequester.take(h.o.Now(), network(addr), "from your address"); err != nil {
		return err
	}
	body, err := h.readBody(w, r, maxForm)
	if err != nil {
		return err
	}
	defer body.release()
	form, err := websub.ParseForm(body.bytes)
	if err != nil {
		return err
	}
	mode, err := form.Mode()
	if err != nil {
		return err
	}
	if mode == websub.ModePublish {
		return refuse(pingNotOffered, "hub.mode=publish is not offered by this version; POST the notification itself, as %s.", mediaXML)
	}
	if *req, err = websub.ParseSubscribe(form); err != nil {
		return err
	}
	if err := h.policy(r, req); err != nil {
		return err
	}
	return h.o.Subscriptions.Accept(r.Context(), *req, addr.String())
}

// policy refuses what this hub does not do, whoever asks (HUB-16).
func (h *Handler) policy(r *http.Request, req *websub.SubscribeRequest) error {
	if h.o.Callbacks != nil {
		if err := h.o.Callbacks.CheckLiteral(req.Callback); err != nil {
			return err
		}
	}
	if req.Mode == websub.ModeUnsubscribe {
		return nil
	}
	if !h.allowed(req.Topic) {
		return refuse(topicNotAllowed, "This hub does not serve the topic %s.", req.Topic)
	}
	if req.Secret != "" && h.o.RequireHTTPSForSecrets && !h.secure(r) {
		return refuse(insecureSecret, "hub.secret came over plain HTTP, where anybody can read it; send the request over HTTPS, with a new secret.")
	}
	return nil
}
