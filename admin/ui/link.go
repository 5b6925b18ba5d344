package ui

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/internal/base/quantity"
)

// linkPolicy is policy for pages without any script.
const linkPolicy = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// linked is the page of the subscription that a link leads to.
type linked struct {
	*ui
	links *admin.Links
}

// NewLinked returns the handler of the pages that links lead to, at /TOKEN, with a path before
// it that the caller has removed.
func NewLinked(api http.Handler, links *admin.Links) http.Handler {
	l := &linked{&ui{api: api, pages: parse(), layout: "bare", wrong: "link_error"}, links}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /static/{name}", static)
	mux.HandleFunc("GET /{token}", l.show(l.get))
	mux.HandleFunc("POST /{token}", l.act)
	mux.HandleFunc("/", l.show(func(*http.Request) (view, error) { return view{}, noLink }))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", linkPolicy)
		mux.ServeHTTP(w, r)
	})
}

// noLink does not say whether a link ever was one.
var noLink = &refused{Status: http.StatusNotFound, Detail: "This link does not work. It may have been cut off, it may be older than 7 days, or the operator of the hub has ended it. Ask the operator for a new one."}

// opened returns the subscription that the link of a request is for, and when the link expires.
func (l *linked) opened(r *http.Request) (uuid.UUID, time.Time, error) {
	id, expires, err := l.links.Open(r.Context(), r.PathValue("token"))
	switch {
	case errors.Is(err, admin.ErrNoLink):
		err = noLink
	case err != nil:
		err = away
	}
	return id, expires, err
}

var away = &refused{Status: http.StatusServiceUnavailable, Detail: "The hub cannot answer at the moment. Try again in a minute."}

// plainly is an error of the API for somebody who does not operate the hub.
func plainly(err error) error {
	var no *refused
	switch {
	case !errors.As(err, &no):
		return err
	case no.Status == http.StatusNotFound:
		return &refused{Status: no.Status, Detail: "The subscription of this link ended more than 7 days ago, and the hub has forgotten it. Subscribe again to get notifications."}
	case no.Status == http.StatusConflict:
		return &refused{Status: no.Status, Detail: "Nothing was done: the subscription is paused or has ended."}
	case no.Status >= http.StatusInternalServerError:
		return away
	}
	return err
}

// linkedSubscription is what the page shows.
type linkedSubscription struct {
	oneSubscription
	LinkExpires time.Time
}

func (l *linked) get(r *http.Request) (view, error) {
	id, expires, err := l.opened(r)
	if err != nil {
		return view{}, err
	}
	s, err := l.history(r, id.String())
	return view{Page: "link", Title: "Your subscription", Data: linkedSubscription{s, expires}}, plainly(err)
}

// act does what a form asks for, and has the browser get the page again.
func (l *linked) act(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	action := r.PostFormValue("action")
	if err := l.change(w, r, action); err != nil {
		l.show(func(*http.Request) (view, error) { return view{}, err })(w, r)
		return
	}
	// http.Redirect would add the path, without what stood before the token.
	w.Header().Set("Location", "?"+url.Values{"done": {action}}.Encode())
	w.WriteHeader(http.StatusSeeOther)
}

// impossible says why an action does nothing to a subscription in a state. One that is pending can
// be retried, and one that is paused replayed.
var impossible = map[[2]string]string{
	{"replay", "pending"}: "Nothing was done: the hub has yet to ask the callback whether it wants the topic.",
	{"retry", "paused"}:   "Nothing was done: the operator of the hub has paused the subscription. Ask the operator to resume it.",
	{"retry", "ended"}:    "Nothing was done: the subscription has ended, or its lease ran out. Subscribe again to get notifications.",
	{"replay", "ended"}:   "Nothing was done: the subscription has ended, or its lease ran out. Subscribe again to get notifications.",
}

func (l *linked) change(w http.ResponseWriter, r *http.Request, action string) error {
	id, _, err := l.opened(r)
	if err != nil {
		return err
	}
	var body any
	switch action {
	case "retry":
	case "replay":
		since, err := sinceOf(r.PostFormValue("since"))
		if err != nil {
			return err
		}
		body = admin.ReplayRequest{Since: since}
	default:
		return &refused{Status: http.StatusBadRequest, Detail: "There is no such form."}
	}
	// What will be refused takes no turn.
	var s admin.Subscription
	if err := l.ui.get(r, apiPath+"subscriptions/"+id.String(), nil, &s); err != nil {
		return plainly(err)
	}
	no := impossible[[2]string{action, s.State}]
	if no == "" && action == "retry" && !s.Waits() {
		no = "Nothing was done: everything is delivered, so there is nothing to try."
	}
	if no != "" {
		return &refused{Status: http.StatusConflict, Detail: no}
	}
	wait, err := l.links.Take(r.Context(), id, action)
	if err != nil {
		return away
	}
	if wait > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(int(wait/time.Second)+1))
		return &refused{Status: http.StatusTooManyRequests, Detail: "Nothing was done: that was asked for a moment ago. Try again in " + quantity.SpanText(wait) + "."}
	}
	return plainly(l.ask(r, http.MethodPost, apiPath+"subscriptions/"+id.String()+"/"+action, nil, body, nil))
}
