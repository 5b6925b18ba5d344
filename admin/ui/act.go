package ui

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rshub/rshub/admin"
)

// action is what a form asks the API for.
type action struct {
	method, path string // path: after that of the subscription or the topic
	query        url.Values
	// typed is what has to be typed to confirm it; empty: nothing.
	typed string
	// gone says that nothing is left to be shown afterwards.
	gone bool
}

// actions are what the forms of the page do, by kind of what they are about and name.
var actions = map[string]action{
	"subscriptions/retry":  {method: http.MethodPost, path: "/retry"},
	"subscriptions/replay": {method: http.MethodPost, path: "/replay"},
	"subscriptions/pause":  {method: http.MethodPost, path: "/pause"},
	"subscriptions/resume": {method: http.MethodPost, path: "/resume"},
	"subscriptions/end":    {method: http.MethodDelete, typed: "end"},
	"topics/reset":         {method: http.MethodPost, path: "/reset", typed: "reset"},
	"topics/remove":        {method: http.MethodDelete, typed: "remove", gone: true},
	"topics/force":         {method: http.MethodDelete, query: url.Values{"force": {"true"}}, typed: "remove and end", gone: true},
}

// nothingWaits is done for a retry of a subscription that has got everything.
const nothingWaits = "nothing-waits"

// done are the sentences about what was done.
var done = map[string]string{
	"retry":      "The next attempt is due now. " + admin.WhenItTakesEffect,
	nothingWaits: "There is nothing to try: everything is delivered.",
	"replay":     "The notifications since then are delivered again. " + admin.WhenItTakesEffect,
	"end":        "The subscription has ended, and its callback gets a denial. " + admin.WhenItTakesEffect,
	"pause":      "It gets nothing until it is resumed. " + admin.WhenItTakesEffect,
	"resume":     "It gets what waits for it, and everything new. " + admin.WhenItTakesEffect,
	"reset":      "The next notification may start anywhere.", "remove": "The topic is removed.", "force": "The topic is removed, and its subscriptions have ended.",
	"reload": "The files were read again.",
}

// act passes what a form asks for to the API, and redirects to the page.
func (u *ui) act(w http.ResponseWriter, r *http.Request) {
	kind, id, name := r.PathValue("kind"), r.PathValue("id"), r.PathValue("action")
	u.show(func(r *http.Request) (view, error) {
		a, ok := actions[kind+"/"+name]
		if !ok {
			return view{}, &refused{Status: http.StatusNotFound, Detail: "There is no such form."}
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if typed := strings.TrimSpace(r.PostFormValue("confirm")); a.typed != "" && !strings.EqualFold(typed, a.typed) {
			return view{}, &refused{Status: http.StatusBadRequest, Detail: "Nothing was done. To confirm it, type " + a.typed + "."}
		}
		var body any
		if name == "replay" {
			since, err := sinceOf(r.PostFormValue("since"))
			if err != nil {
				return view{}, err
			}
			body = admin.ReplayRequest{Since: since}
		}
		var s admin.Subscription
		var answer any
		if name == "retry" {
			answer = &s
		}
		if err := u.ask(r, a.method, apiPath+kind+"/"+url.PathEscape(id)+a.path, a.query, body, answer); err != nil {
			return view{}, err
		}
		if answer != nil && !s.Waits() {
			name = nothingWaits
		}
		to := admin.PagePath + kind
		if !a.gone {
			to += "/" + url.PathEscape(id)
		}
		return view{To: to + "?done=" + name}, nil
	})(w, r)
}

// maxForm bounds a form, in bytes.
const maxForm = 16 << 10

// sinceOf reads a date and time as a form has it: of a field for both, or written out. It
// is in UTC unless it says otherwise.
func sinceOf(text string) (time.Time, error) {
	text = strings.TrimSpace(text)
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, &refused{Status: http.StatusBadRequest, Detail: "Nothing was done. Say since when, like 2026-11-23T14:00:00Z."}
}

func (u *ui) reload(w http.ResponseWriter, r *http.Request) {
	u.show(func(r *http.Request) (view, error) {
		return view{To: admin.PagePath + "hub?done=reload"}, u.ask(r, http.MethodPost, apiPath+"reload", nil, nil, nil)
	})(w, r)
}
