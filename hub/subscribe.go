package hub

import (
	"net/http"
	"strings"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/base/ingress"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/websub"
)

// serveForm answers a POST of a form: a subscription request or a ping.
func (h *Handler) serveForm(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	form, mode, err := h.readForm(w, r)
	if mode == websub.ModePublish {
		h.servePing(w, r, form, start)
		return
	}
	h.serveSubscribe(w, r, form, start, err)
}

// readForm reads a form and what it is for.
func (h *Handler) readForm(w http.ResponseWriter, r *http.Request) (websub.Form, websub.Mode, error) {
	body, err := readBody(h.memory, h.incoming(w, r), r.ContentLength, websub.MaxFormBytes)
	if err != nil {
		return websub.Form{}, "", err
	}
	defer body.release()
	form, err := websub.ParseForm(body.bytes)
	if err != nil {
		return websub.Form{}, "", err
	}
	mode, err := form.Mode()
	return form, mode, err
}

// serveSubscribe answers a subscription request (HUB-01 to HUB-18), or a form that cannot
// be read, and writes its log line.
func (h *Handler) serveSubscribe(w http.ResponseWriter, r *http.Request, form websub.Form, start time.Time, err error) {
	var req websub.SubscribeRequest
	err = h.subscribe(r, form, &req, err)
	e := Event{Name: EventSubscribe, Outcome: OutcomeAccepted, Status: http.StatusAccepted, Topic: req.Topic}
	if err != nil {
		h.refused(w, r, &e, err)
	} else {
		answer(w, "text/plain; charset=utf-8", e.Status,
			"Accepted. The hub asks the callback next to confirm this; its answer decides.\n")
	}
	if req.Mode == websub.ModeUnsubscribe {
		e.Name = EventUnsubscribe
	}
	id := ""
	if req.Callback != "" {
		id = subscriptions.ID(req.Topic, req.Callback).String()
	}
	h.reportRequest(w, r, start, e, orSkip("subscription_id", id), orSkip("callback_host", egress.HostPortOf(req.Callback)))
}

// subscribe accepts a subscription request. Nil: it is stored and will be verified. Unread
// is why the form could not be read; such a request counts for the rate too. Nothing here
// depends on whether there is a subscription, or on an answer of the callback or the topic
// (HUB-15, HUB-18).
func (h *Handler) subscribe(r *http.Request, form websub.Form, req *websub.SubscribeRequest, unread error) (err error) {
	addr := h.proxies.Requester(r)
	if err := h.byRequester.allow(h.o.Now(), ingress.Network(addr), "from your address"); err != nil {
		return err
	}
	if unread != nil {
		return unread
	}
	if *req, err = websub.ParseSubscribe(form); err != nil {
		return err
	}
	if err := h.policy(r, req); err != nil {
		return err
	}
	return h.o.Subscriptions.Accept(r.Context(), *req, ingress.Network(addr))
}

// policy refuses what this hub never does, for any requester (HUB-16).
func (h *Handler) policy(r *http.Request, req *websub.SubscribeRequest) error {
	if h.own.is(req.Callback) {
		return refuse(callbackNotAllowed, "The callback is this hub itself, which would call itself in a loop; give a URL of your own.")
	}
	if h.o.Callbacks != nil {
		if err := h.o.Callbacks.CheckLiteral(req.Callback); err != nil {
			return err
		}
	}
	if req.Mode == websub.ModeUnsubscribe {
		return nil
	}
	if err := h.checkTopic(req.Topic); err != nil {
		return err
	}
	switch {
	case req.Secret == "" || !h.o.RequireHTTPSForSecrets:
	case !h.proxies.HTTPS(r):
		return refuse(insecureSecret, "hub.secret came over plain HTTP, where others can read it. Send the request over HTTPS, with a new secret.")
	case !strings.HasPrefix(strings.ToLower(req.Callback), "https://"):
		return refuse(insecureSecret, "This hub accepts hub.secret only with an https callback, so that nobody on the way can read deliveries. Give an https callback, or leave out hub.secret.")
	}
	return nil
}
