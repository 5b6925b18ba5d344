package ui

import (
	"context"
	"html/template"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/internal/base/excerpt"
	"github.com/rshub/rshub/journal"
)

const (
	apiPath = "/api/v1/"
	// pageSize is how many rows a list shows.
	pageSize = "50"
)

// fleet is what GET /api/v1/now says, with what is wrong in sentences.
type fleet struct {
	admin.Now
	Wrong []string
	Total admin.HubNow
}

func (u *ui) fleet(r *http.Request) (fleet, error) {
	var f fleet
	if err := u.get(r, apiPath+"now", nil, &f.Now); err != nil {
		return f, err
	}
	f.Wrong, f.Total = f.Now.Wrong(), f.Now.Total()
	f.Slowest = slices.DeleteFunc(f.Slowest, func(s admin.Laggard) bool { // it stands above
		return slices.ContainsFunc(f.Failing, func(l admin.Laggard) bool { return l.ID == s.ID })
	})
	return f, nil
}

func (u *ui) now(r *http.Request) (view, error) {
	f, err := u.fleet(r)
	f.Failing, f.Slowest = f.Failing[:min(len(f.Failing), fewWorst)], f.Slowest[:min(len(f.Slowest), fewWorst)]
	f.FailingHosts = f.FailingHosts[:min(len(f.FailingHosts), fewWorst)]
	return view{Page: "now", Title: "Now", Data: f, Live: true}, err
}

// fewWorst is how many rows of each list the page Now has. That of subscriptions has all that the
// hubs name.
const fewWorst = 10

// listWithin is how long a page looks for the rows of a list. After that it shows what it has,
// with a link to look on: a filter may select few of very many.
const listWithin = 40 * time.Millisecond

// list is one page of rows, with the way to the next.
type list[T any] struct {
	admin.Page[T]
	Query url.Values // the filters
	Fleet fleet
	More  template.URL // the query of the next page; empty: there is none
}

// on is view.On of the list: where nothing was found yet, the browser looks on.
func (l *list[T]) on() template.URL {
	if len(l.Items) > 0 {
		return ""
	}
	return l.More
}

// encode is a query as a link has it after its question mark. As a string, a template would
// escape it once more.
func encode(q url.Values) template.URL { return template.URL(q.Encode()) } //nolint:gosec // Encode leaves nothing that ends an attribute

// lists gets one page of a list of the API, with these parameters of the request and those of the
// path.
func lists[T any](u *ui, r *http.Request, path string, params ...string) (l list[T], err error) {
	l.Query = url.Values{}
	path, fixed, _ := strings.Cut(path, "?")
	asked, _ := url.ParseQuery(fixed) // it is ours
	asked.Set("limit", pageSize)
	for _, p := range append(params, "after") {
		if v := strings.TrimSpace(r.URL.Query().Get(p)); v != "" {
			asked.Set(p, v)
			l.Query.Set(p, v)
		}
	}
	r = r.WithContext(admin.Hurried(r.Context(), time.Now().Add(listWithin)))
	if err = u.get(r, path, asked, &l.Page); err == nil && l.Next != "" {
		more := url.Values{"after": {l.Next}}
		for p := range l.Query {
			if p != "after" {
				more.Set(p, l.Query.Get(p))
			}
		}
		l.More = encode(more)
	}
	return l, err
}

func (u *ui) subscriptions(r *http.Request) (view, error) {
	l, err := lists[admin.Subscription](u, r, apiPath+"subscriptions", "topic", "state", "host")
	if err == nil && len(l.Query) == 0 {
		l.Fleet, err = u.fleet(r)
	}
	return view{Page: "subscriptions", Title: "Subscriptions", Data: l, On: l.on()}, err
}

// oneSubscription is a subscription with its history.
type oneSubscription struct {
	admin.Subscription
	Attempts []admin.Attempt // the latest first
	Lost     []admin.Gap
}

func (u *ui) subscription(r *http.Request) (view, error) {
	s, err := u.history(r, r.PathValue("id"))
	return view{Page: "subscription", Title: "Subscription " + callback(s.Callback), Data: s}, err
}

// history gets a subscription with its history.
func (u *ui) history(r *http.Request, id string) (s oneSubscription, err error) {
	at := apiPath + "subscriptions/" + url.PathEscape(id)
	if err := u.get(r, at, nil, &s.Subscription); err != nil {
		return s, err
	}
	var attempts admin.Page[admin.Attempt]
	var gaps admin.Page[admin.Gap]
	if err := u.get(r, at+"/attempts", nil, &attempts); err != nil {
		return s, err
	}
	// There are fewer than this: journal.MaxGaps of its own, and as many of its topic.
	if err := u.get(r, at+"/gaps", url.Values{"limit": {strconv.Itoa(admin.MaxLimit)}}, &gaps); err != nil {
		return s, err
	}
	for _, a := range attempts.Items {
		s.Attempts = append([]admin.Attempt{a}, s.Attempts...)
	}
	s.Lost = gaps.Items
	return s, nil
}

func (u *ui) topics(r *http.Request) (view, error) {
	l, err := lists[admin.Topic](u, r, apiPath+"topics")
	return view{Page: "topics", Title: "Topics", Data: l, On: l.on()}, err
}

// oneTopic is a topic with its latest notifications and what they look like in time.
type oneTopic struct {
	admin.Topic
	Notifications list[admin.Notification]
	Refused       admin.Page[admin.Refused] // the latest
	Timeline      timeline
}

func (u *ui) topic(r *http.Request) (view, error) {
	var t oneTopic
	at := apiPath + "topics/" + url.PathEscape(r.PathValue("id"))
	err := u.get(r, at, nil, &t.Topic)
	if err != nil {
		return view{}, err
	}
	if t.Notifications, err = lists[admin.Notification](u, r, at+"/notifications?order=newest"); err != nil {
		return view{}, err
	}
	if err = u.get(r, apiPath+"refusals", url.Values{"topic": {t.URL}, "limit": {"10"}}, &t.Refused); err != nil {
		return view{}, err
	}
	f, err := u.fleet(r)
	if err != nil {
		return view{}, err
	}
	drawn := slices.Clone(t.Notifications.Items)
	slices.Reverse(drawn)
	t.Timeline = newTimeline(drawn, t.Gaps, slowestOf(t.URL, f.Now), t.Head.Seq)
	return view{Page: "topic", Title: "Topic", Data: t}, nil
}

// oneNotification is a notification with its document, and who got it.
type oneNotification struct {
	admin.NotificationStatus
	TopicID              string
	Waiting, Passed, Got *admin.Page[admin.Receiver] // nil: none
	Nameless             bool                        // there was no time to name them all
	Document             string                      // as a person reads it
	Cut                  bool                        // it is only the beginning
	TooLong              bool                        // it was not read
	Unread               string                      // why there is no document
}

// fewReceivers is how many subscriptions of each outcome the page of a notification names.
const fewReceivers = "20"

// maxRead is how long a document may be that a page reads to show its beginning, in bytes.
const maxRead = 1 << 20

// countWithin is how long a page waits until the subscriptions are counted. After that it
// shows the rest, with a link to count on.
const countWithin = 60 * time.Millisecond

func (u *ui) notification(r *http.Request) (view, error) {
	var n oneNotification
	at := apiPath + "notifications/" + url.PathEscape(r.PathValue("id"))
	if err := u.get(r, at, url.Values{"count": {"false"}}, &n.NotificationStatus); err != nil {
		return view{}, err
	}
	n.TopicID = journal.TopicID(n.Topic).String()
	ctx, cancel := r.Context(), context.CancelFunc(func() {})
	if r.URL.Query().Get("count") == "" {
		ctx, cancel = context.WithTimeout(ctx, countWithin)
	}
	defer cancel()
	if err := u.receivers(r.WithContext(ctx), at, &n); err != nil {
		if ctx.Err() == nil {
			return view{}, err
		}
		n.Nameless = true
	}
	if n.TooLong = n.Bytes > maxRead; !n.TooLong {
		document, err := u.raw(r, at+"/document")
		if err != nil {
			n.Unread = err.Error()
		} else {
			n.Document, n.Cut = readable(document.body.Bytes())
		}
	}
	return view{Page: "notification", Title: "Notification", Data: n}, nil
}

// receivers counts who got a notification, and names some of them.
func (u *ui) receivers(r *http.Request, at string, n *oneNotification) error {
	if err := u.get(r, at, nil, &n.NotificationStatus); err != nil {
		return err
	}
	for _, of := range []struct {
		outcome string
		count   int
		into    **admin.Page[admin.Receiver]
	}{{"pending", n.Pending, &n.Waiting}, {"skipped", n.Skipped, &n.Passed}, {"delivered", n.Delivered, &n.Got}} {
		if of.count == 0 {
			continue
		}
		var page admin.Page[admin.Receiver]
		if err := u.get(r, at+"/subscriptions", url.Values{"outcome": {of.outcome}, "limit": {fewReceivers}}, &page); err != nil {
			return err
		}
		*of.into = &page
	}
	return nil
}

// document hands on the document of a notification as it was published.
func (u *ui) document(w http.ResponseWriter, r *http.Request) {
	at := apiPath + "notifications/" + url.PathEscape(r.PathValue("id"))
	if err := u.get(r, at, url.Values{"count": {"false"}}, nil); err != nil {
		u.show(func(*http.Request) (view, error) { return view{}, err })(w, r)
		return
	}
	req, err := http.NewRequestWithContext(r.Context(), r.Method, (&url.URL{Path: at + "/document"}).String(), http.NoBody)
	if err != nil {
		u.show(func(*http.Request) (view, error) { return view{}, failed(err) })(w, r)
		return
	}
	u.api.ServeHTTP(w, about(r, req)) // it is not kept in memory here
}

func (u *ui) refusals(r *http.Request) (view, error) {
	l, err := lists[admin.Refused](u, r, apiPath+"refusals", "topic", "kind")
	var all admin.RefusedPage
	if err == nil {
		err = u.get(r, apiPath+"refusals", url.Values{"limit": {"1"}}, &all)
	}
	return view{Page: "refusals", Title: "Refusals", Data: struct {
		list[admin.Refused]
		Kept    int
		Since   time.Time
		LeftOut int
	}{l, all.Kept, all.Since, all.LeftOut}}, err
}

func (u *ui) streams(r *http.Request) (view, error) {
	l, err := lists[admin.Stream](u, r, apiPath+"streams", "topic")
	var all admin.StreamsPage
	if err == nil {
		err = u.get(r, apiPath+"streams", url.Values{"limit": {"1"}}, &all)
	}
	return view{Page: "streams", Title: "Streams", Live: true, Data: struct {
		list[admin.Stream]
		Hubs      []admin.HubStreams
		HubsError string
	}{l, all.Hubs, all.HubsError}}, err
}

func (u *ui) publishers(r *http.Request) (view, error) {
	var p admin.Publishers
	err := u.get(r, apiPath+"publishers", nil, &p)
	return view{Page: "publishers", Title: "Publishers", Data: p}, err
}

func (u *ui) settings(r *http.Request) (view, error) {
	var p admin.Page[admin.Setting]
	err := u.get(r, apiPath+"settings", nil, &p)
	return view{Page: "settings", Title: "Settings", Data: p}, err
}

// slowestOf is the subscription to a topic that is the furthest behind, as far as the hubs
// name it; nil: they name none.
func slowestOf(topic string, now admin.Now) *admin.Laggard {
	var slowest *admin.Laggard
	for _, l := range slices.Concat(now.Failing, now.Slowest) {
		if (l.Topic == topic || l.Topic == excerpt.Cut(topic, admin.MaxShown)) && (slowest == nil || l.Lag.Seconds > slowest.Lag.Seconds) {
			slowest = &l
		}
	}
	return slowest
}

// hub shows where the hub is and what it runs on.
func (u *ui) hub(r *http.Request) (view, error) {
	var i admin.Info
	err := u.get(r, apiPath+"info", nil, &i)
	return view{Page: "hub", Title: "Hub", Data: i}, err
}

// login is the form for the token. Without a token file, or with a session, it leads to the
// page instead.
func (u *ui) login(r *http.Request) (view, error) {
	if admin.RoleOf(r.Context()) != "" {
		return view{To: admin.PagePath}, nil
	}
	q := r.URL.Query()
	return view{Page: "login", Title: "Log in", Data: map[string]string{"Next": q.Get("next"), "Refused": q.Get("refused"), "Wait": q.Get("wait")}}, nil
}

var anyID = regexp.MustCompile(`[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`)

// find redirects to what the field at the top names: the id of a notification (a Webhook-Id), of a
// subscription or of a topic, the URL of a topic, that and an instant, a callback or its host, or a
// line of the log with one of these.
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
	if topic, at, ok := topicAndInstant(q); ok {
		return u.findAt(r, topic, at)
	}
	spaced := strings.ContainsAny(q, " \t") // no URL is, nor a host
	if at, err := url.Parse(q); err == nil && at.IsAbs() && at.Host != "" && !spaced {
		return u.findURL(r, q)
	}
	if q != "" && !spaced && !strings.Contains(q, "{") {
		return view{To: admin.PagePath + "subscriptions?" + url.Values{"host": {q}}.Encode()}, nil
	}
	return view{}, &refused{Status: http.StatusNotFound, Detail: "Nothing was found. Look for the id of a notification, a subscription or a topic, for the URL of a topic, alone or with a time as in 2026-11-23T14:00:00Z after it, for a callback or its host, or paste a line of the log."}
}

// findURL redirects to what the URL of a topic or of a callback names: the topic, its subscriptions if
// nothing was published yet, the subscription of the callback, or all of its host.
func (u *ui) findURL(r *http.Request, raw string) (view, error) {
	if u.get(r, apiPath+"topics/"+topicID(raw), nil, nil) == nil {
		return view{To: admin.PagePath + "topics/" + topicID(raw)}, nil
	}
	r = r.WithContext(admin.Hurried(r.Context(), time.Now().Add(listWithin)))
	for _, by := range []url.Values{{"topic": {raw}}, {"host": {host(raw)}}} {
		var found admin.Page[admin.Subscription]
		if err := u.get(r, apiPath+"subscriptions", by, &found); err != nil {
			return view{}, err
		}
		ofIt := slices.DeleteFunc(slices.Clone(found.Items), func(s admin.Subscription) bool { return s.Callback != raw })
		switch {
		case len(ofIt) == 1 && found.Next == "":
			return view{To: admin.PagePath + "subscriptions/" + ofIt[0].ID}, nil
		case len(found.Items) > 0, by.Has("host") && found.Next != "": // the list looks on
			return view{To: admin.PagePath + "subscriptions?" + by.Encode()}, nil
		}
	}
	return view{}, &refused{Status: http.StatusNotFound, Detail: "Nothing was found: this URL is no topic that the hub knows, and no subscription has a callback at its host."}
}

// topicAndInstant reads the URL of a topic with an instant after it, as sinceOf reads it.
func topicAndInstant(q string) (topic string, at time.Time, ok bool) {
	topic, rest, ok := strings.Cut(q, " ")
	if u, err := url.Parse(topic); !ok || err != nil || !u.IsAbs() {
		return "", at, false
	}
	at, err := sinceOf(rest)
	return topic, at, err == nil
}

// findAt redirects to the notification of a topic whose interval an instant is in.
func (u *ui) findAt(r *http.Request, topic string, at time.Time) (view, error) {
	var found admin.Page[admin.Notification]
	if err := u.get(r, apiPath+"topics/"+topicID(topic)+"/notifications", url.Values{"at": {at.Format(time.RFC3339Nano)}}, &found); err != nil {
		return view{}, err
	}
	if len(found.Items) == 0 {
		return view{}, &refused{Status: http.StatusNotFound, Detail: "No notification of this topic whose interval has " + plain(at) + " in it is kept. The page of the topic shows its intervals and its gaps."}
	}
	return view{To: admin.PagePath + "notifications/" + found.Items[0].ID}, nil
}
