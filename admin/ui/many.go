package ui

import (
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rshub/rshub/admin"
)

// filters are the parameters that select subscriptions.
var filters = []string{"topic", "host", "state"}

// many is something that can be done with all subscriptions that a filter shows.
type many struct {
	Do    string // as the API names it
	Label string
	What  string // what happens then
	Done  string
	Harms bool // subscribers lose something
}

var manyActions = []many{
	{Do: "retry", Label: "Try now", What: "What waits is tried now.", Done: "tried now"},
	{Do: "replay", Label: "Deliver again", What: "All that is retained and ends after this time is delivered again.", Done: "delivered to again"},
	{Do: "pause", Label: "Pause", What: "They get nothing until they are resumed. Their leases go on.", Done: "paused"},
	{Do: "resume", Label: "Resume", What: "They get what waits for them, and everything new.", Done: "resumed"},
	{Do: "end", Label: "End", What: "They end, and their callbacks get a denial. What was not delivered yet is lost to them.", Done: "ended", Harms: true},
}

// manyAsked is what a request asks for about many subscriptions.
type manyAsked struct {
	many
	admin.Many
	Query  template.URL // the filter, as in a URL
	Filter []string     // the same for a person
	Since  string
	More   template.URL // the query that counts on; empty: all are counted
	query  url.Values
}

// askedFor reads the filter of a request and what to do.
func askedFor(r *http.Request) (a manyAsked, err error) {
	for _, one := range manyActions {
		if one.Do == r.FormValue("do") {
			a.many = one
		}
	}
	if a.Do == "" {
		return a, &refused{Status: http.StatusBadRequest, Detail: "Nothing was done. Choose what to do."}
	}
	a.query = url.Values{}
	for _, name := range filters {
		if v := strings.TrimSpace(r.URL.Query().Get(name)); v != "" {
			a.query.Set(name, v)
			a.Filter = append(a.Filter, name+" "+v)
		}
	}
	a.Query = encode(a.query)
	if a.Do == "replay" {
		since, err := sinceOf(r.FormValue("since"))
		if err != nil {
			return a, err
		}
		a.Since = plain(since)
	}
	return a, nil
}

// askMany counts the subscriptions, and asks for a confirmation. Each request counts for
// listWithin at most; the next one adds to its count.
func (u *ui) askMany(r *http.Request) (view, error) {
	a, err := askedFor(r)
	if err != nil {
		return view{}, err
	}
	part := maps.Clone(a.query)
	if after := r.URL.Query().Get("after"); after != "" {
		part.Set("after", after)
	}
	r = r.WithContext(admin.Hurried(r.Context(), time.Now().Add(listWithin)))
	if err := u.get(r, apiPath+"subscriptions/count", part, &a.Many); err != nil {
		return view{}, err
	}
	if before, err := strconv.Atoi(r.URL.Query().Get("counted")); err == nil {
		a.Matched += max(before, 0)
	}
	if a.Next != "" {
		more := r.URL.Query()
		more.Set("after", a.Next)
		more.Set("counted", strconv.Itoa(a.Matched))
		a.More = encode(more)
	}
	return view{Page: "many", Title: a.Label, Data: a, On: a.More}, nil
}

// countMany counts all subscriptions that a filter selects.
func (u *ui) countMany(r *http.Request, filter url.Values) (n int, err error) {
	for part := maps.Clone(filter); ; {
		var m admin.Many
		if err := u.get(r, apiPath+"subscriptions/count", part, &m); err != nil {
			return 0, err
		}
		if n += m.Matched; m.Next == "" {
			return n, nil
		}
		part.Set("after", m.Next)
	}
}

// goOn is the confirmation of a form that continues what was confirmed.
const goOn = "go on"

// stillSo reports whether a number that was typed is still about how many there are. Of many, some
// begin or cease to fail while somebody types, so a tenth more or less is the same.
func stillSo(typed string, now int) bool {
	n, err := strconv.Atoi(strings.NewReplacer(",", "", " ", "").Replace(typed))
	return err == nil && n > 0 && max(n-now, now-n) <= n/10
}

// doMany does what was confirmed.
func (u *ui) doMany(w http.ResponseWriter, r *http.Request) {
	u.show(func(r *http.Request) (view, error) {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		a, err := askedFor(r)
		if err != nil {
			return view{}, err
		}
		if typed := strings.TrimSpace(r.PostFormValue("confirm")); typed != goOn {
			now, err := u.countMany(r, a.query)
			if err != nil {
				return view{}, err
			}
			if !stillSo(typed, now) {
				return view{}, &refused{Status: http.StatusBadRequest, Detail: "Nothing was done. There are " + count(now, "subscription", "subscriptions") + " now; go back, and type their number to confirm it."}
			}
		}
		req := admin.ManyRequest{Action: a.Do}
		if a.Since != "" {
			req.Since, _ = sinceOf(a.Since) // it was written by plain
		}
		back := a.Query
		query := maps.Clone(a.query)
		if after := r.URL.Query().Get("after"); after != "" {
			query.Set("after", after)
		}
		if err := u.ask(r, http.MethodPost, apiPath+"subscriptions", query, req, &a.Many); err != nil {
			return view{}, err
		}
		if query.Set("after", a.Next); a.Next != "" {
			a.Query = encode(query)
		}
		return view{Page: "done", Title: a.Label, Data: struct {
			manyAsked
			Back  template.URL
			Label string
			Done  int
		}{a, back, a.many.Done, a.Many.Done}}, nil
	})(w, r)
}

// verify has a callback asked again, and shows its answer.
func (u *ui) verify(r *http.Request) (view, error) {
	var v struct {
		admin.Verification
		ID string
	}
	v.ID = r.PathValue("id")
	err := u.ask(r, http.MethodPost, apiPath+"subscriptions/"+url.PathEscape(v.ID)+"/verify", nil, nil, &v.Verification)
	return view{Page: "verify", Title: "Does it want the topic?", Data: v}, err
}
