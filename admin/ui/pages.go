package ui

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/internal/base/quantity"
	"github.com/rshub/rshub/journal"
)

const (
	apiPath = "/api/v1/"
	// pageSize is how many rows a list shows.
	pageSize = "50"
)

// fleet is what GET /api/v1/now says, with what is wrong in sentences, the worst first.
type fleet struct {
	admin.Now
	Wrong []string
	Total admin.HubNow // the counts of all hubs
}

func (u *ui) fleet(r *http.Request) (fleet, error) {
	var f fleet
	if err := u.get(r, apiPath+"now", nil, &f.Now); err != nil {
		return f, err
	}
	if f.HubsError != "" {
		f.Wrong = append(f.Wrong, "The store does not tell how the other hubs are: "+f.HubsError)
	}
	for _, h := range f.Hubs {
		f.Wrong = append(f.Wrong, troubles(h)...)
		t := &f.Total
		t.Active, t.Failing, t.Pending, t.Ended = t.Active+h.Active, t.Failing+h.Failing, t.Pending+h.Pending, t.Ended+h.Ended
		t.Suspect, t.InFlight = t.Suspect+h.Suspect, t.InFlight+h.InFlight
		t.DeliveriesPerSecond, t.FailuresPerSecond = t.DeliveriesPerSecond+h.DeliveriesPerSecond, t.FailuresPerSecond+h.FailuresPerSecond
		t.LagSeconds = max(t.LagSeconds, h.LagSeconds)
	}
	f.Slowest = slices.DeleteFunc(f.Slowest, func(s admin.Laggard) bool { // it stands above
		return slices.ContainsFunc(f.Failing, func(l admin.Laggard) bool { return l.ID == s.ID })
	})
	if n := f.Total.Failing; n > 0 {
		f.Wrong = append(f.Wrong, fmt.Sprintf("%d of %d subscriptions fail and are tried again.", n, n+f.Total.Active))
	}
	return f, nil
}

// fewSpace is how many times the least free space counts as little.
const fewSpace = 4

// troubles are what is wrong with one hub.
func troubles(h admin.HubNow) (wrong []string) {
	say := func(format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("Hub %s ", h.ID)+fmt.Sprintf(format, args...))
	}
	if h.Draining {
		say("is about to end: it takes no more publishes and finishes its deliveries.")
	}
	for _, why := range h.NotReady {
		say("is not ready: %s.", strings.TrimSuffix(why, "."))
	}
	if late := time.Since(h.AsOf); late > time.Minute {
		say("has said nothing for %s.", span(late))
	}
	if s := h.Space; s != nil && s.Free < fewSpace*s.Least {
		say("has %s of free space left; under %s it stores nothing new.", quantity.BytesText(s.Free), quantity.BytesText(s.Least))
	}
	if j := h.Journal; j != nil && j.Limit > 0 && j.Bytes*10 > j.Limit*9 {
		say("keeps %s of what its topics may retain: the oldest notifications are about to be trimmed.", percent(j.Bytes, j.Limit))
	}
	return wrong
}

func (u *ui) now(r *http.Request) (view, error) {
	f, err := u.fleet(r)
	return view{Page: "now", Title: "Now", Data: f, Live: true}, err
}

// list is one page of rows, with the way to the next.
type list[T any] struct {
	admin.Page[T]
	Query url.Values // the filters
	Fleet fleet
	More  string // the query of the next page; empty: there is none
}

// lists asks for a page of what is at a path of the API, with some parameters of the
// request.
func lists[T any](u *ui, r *http.Request, path string, params ...string) (l list[T], err error) {
	l.Query = url.Values{}
	asked := url.Values{"limit": {pageSize}}
	for _, p := range append(params, "after") {
		if v := strings.TrimSpace(r.URL.Query().Get(p)); v != "" {
			asked.Set(p, v)
			l.Query.Set(p, v)
		}
	}
	if err = u.get(r, path, asked, &l.Page); err == nil && l.Next != "" {
		more := url.Values{"after": {l.Next}}
		for p := range l.Query {
			if p != "after" {
				more.Set(p, l.Query.Get(p))
			}
		}
		l.More = more.Encode()
	}
	return l, err
}

func (u *ui) subscriptions(r *http.Request) (view, error) {
	l, err := lists[admin.Subscription](u, r, apiPath+"subscriptions", "topic", "state", "host")
	if err == nil && len(l.Query) == 0 {
		l.Fleet, err = u.fleet(r)
	}
	return view{Page: "subscriptions", Title: "Subscriptions", Data: l}, err
}

// oneSubscription is a subscription with its history.
type oneSubscription struct {
	admin.Subscription
	Attempts []admin.Attempt // the latest first
	Lost     []admin.Gap
}

func (u *ui) subscription(r *http.Request) (view, error) {
	var s oneSubscription
	at := apiPath + "subscriptions/" + url.PathEscape(r.PathValue("id"))
	if err := u.get(r, at, nil, &s.Subscription); err != nil {
		return view{}, err
	}
	var attempts admin.Page[admin.Attempt]
	var gaps admin.Page[admin.Gap]
	if err := u.get(r, at+"/attempts", nil, &attempts); err != nil {
		return view{}, err
	}
	if err := u.get(r, at+"/gaps", nil, &gaps); err != nil {
		return view{}, err
	}
	for _, a := range attempts.Items {
		s.Attempts = append([]admin.Attempt{a}, s.Attempts...)
	}
	s.Lost = gaps.Items
	return view{Page: "subscription", Title: "Subscription " + callback(s.Callback), Data: s}, nil
}

func (u *ui) topics(r *http.Request) (view, error) {
	l, err := lists[admin.Topic](u, r, apiPath+"topics")
	return view{Page: "topics", Title: "Topics", Data: l}, err
}

// oneTopic is a topic with its latest notifications and what they look like in time.
type oneTopic struct {
	admin.Topic
	Notifications list[admin.Notification]
	Timeline      timeline
}

func (u *ui) topic(r *http.Request) (view, error) {
	var t oneTopic
	at := apiPath + "topics/" + url.PathEscape(r.PathValue("id"))
	err := u.get(r, at, nil, &t.Topic)
	if err != nil {
		return view{}, err
	}
	if t.Notifications, err = lists[admin.Notification](u, r, at+"/notifications"); err != nil {
		return view{}, err
	}
	t.Timeline = newTimeline(t.Notifications.Items, t.Gaps)
	return view{Page: "topic", Title: "Topic", Data: t}, nil
}

func (u *ui) notification(r *http.Request) (view, error) {
	var n struct {
		admin.NotificationStatus
		TopicID string
	}
	err := u.get(r, apiPath+"notifications/"+url.PathEscape(r.PathValue("id")), nil, &n.NotificationStatus)
	n.TopicID = journal.TopicID(n.Topic).String()
	return view{Page: "notification", Title: "Notification", Data: n}, err
}

// hub shows where the hub is and what it runs on.
func (u *ui) hub(r *http.Request) (view, error) {
	var i admin.Info
	err := u.get(r, apiPath+"info", nil, &i)
	return view{Page: "hub", Title: "Hub", Data: i}, err
}

// login is the form for the token. Who needs none, or is logged in, has no use for it.
func (u *ui) login(r *http.Request) (view, error) {
	if admin.RoleOf(r.Context()) != "" {
		return view{To: admin.PagePath}, nil
	}
	q := r.URL.Query()
	return view{Page: "login", Title: "Log in", Data: map[string]string{"Next": q.Get("next"), "Refused": q.Get("refused"), "Wait": q.Get("wait")}}, nil
}

var anyID = regexp.MustCompile(`[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`)

// find leads to what somebody looks for: the id of a notification (a Webhook-Id), of a
// subscription or of a topic, the URL of a topic, the host of a callback, or a line of the
// log with one of these.
func (u *ui) find(r *http.Request) (view, error) {
	q := strings.TrimSpace(r.URL.Query().Get("q"))
	for _, raw := range anyID.FindAllString(q, 10) {
		id, err := uuid.Parse(raw)
		if err != nil {
			continue
		}
		kinds := []string{"subscriptions", "topics"}
		if id.Version() == 7 {
			kinds = []string{"notifications"}
		}
		for _, kind := range kinds {
			if u.get(r, apiPath+kind+"/"+id.String(), nil, nil) == nil {
				return view{To: admin.PagePath + kind + "/" + id.String()}, nil
			}
		}
	}
	if topic, err := url.Parse(q); err == nil && topic.IsAbs() && topic.Host != "" {
		id := journal.TopicID(q).String()
		if u.get(r, apiPath+"topics/"+id, nil, nil) == nil {
			return view{To: admin.PagePath + "topics/" + id}, nil
		}
		return view{To: admin.PagePath + "subscriptions?" + url.Values{"topic": {q}}.Encode()}, nil
	}
	if q != "" && !strings.ContainsAny(q, " \t{") {
		return view{To: admin.PagePath + "subscriptions?" + url.Values{"host": {q}}.Encode()}, nil
	}
	return view{}, &refused{Status: http.StatusNotFound, Detail: "Nothing was found. Look for the id of a notification, a subscription or a topic, for the URL of a topic, for the host of a callback, or paste a line of the log."}
}
