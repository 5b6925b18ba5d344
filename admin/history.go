package admin

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

func (a *subscriptionCalls) listAttempts(w http.ResponseWriter, r *http.Request) error {
	p, err := parsePage(r.URL.Query())
	if err != nil {
		return err
	}
	id, _, err := a.record(r.Context(), mux.Vars(r)["id"])
	if err != nil {
		return err
	}
	attempts, err := a.Subscriptions.Attempts(r.Context(), id)
	if err != nil {
		return err
	}
	var answers []Answer
	if a.Answers != nil && RoleOf(r.Context()) == Operator {
		answers = a.Answers(id)
	}
	items := make([]Attempt, 0, len(attempts))
	for _, at := range attempts {
		item := attempt(at)
		for _, one := range answers {
			if one.NotificationID == at.NotificationID && one.Attempt == at.Number {
				item.Answer = Readable(one.Body)
			}
		}
		items = append(items, item)
	}
	return writeDated(w, p, items, func(a Attempt) time.Time { return a.At })
}

// attempt converts an attempt. If it got no answer, the error is the stored text.
func attempt(a subscriptions.Attempt) Attempt {
	status, failure := Outcome(a.Status)
	reason := cmp.Or(a.Error, failure)
	if reason != "" && failure == "" {
		failure = "error"
	}
	return Attempt{
		At: utc(a.At), NotificationID: a.NotificationID.String(), Attempt: a.Number,
		Status: status, Error: reason, Failure: failure, Duration: a.Duration.Seconds(),
	}
}

func (a *subscriptionCalls) listGaps(w http.ResponseWriter, r *http.Request) error {
	p, err := parsePage(r.URL.Query())
	if err != nil {
		return err
	}
	_, rec, err := a.record(r.Context(), mux.Vars(r)["id"])
	if err != nil {
		return err
	}
	var all []journal.Gap
	if s := rec.Subscription; s != nil {
		head, err := a.Topics.Head(r.Context(), s.Topic)
		if err != nil {
			return err
		}
		all = s.AllGaps(head, a.Now())
	}
	return writeDated(w, p, gaps(all), func(g Gap) time.Time { return g.At })
}

// gaps is never nil, so that none are [] in JSON.
func gaps(of []journal.Gap) []Gap {
	out := make([]Gap, 0, len(of))
	for _, g := range of {
		out = append(out, Gap{From: utc(g.From), Until: utc(g.Until), Count: g.Count, Reason: g.Reason, At: utc(g.At)})
	}
	return out
}

// writeDated writes a page of a short list without ids. The mark of an item is its time, and
// its number among items of the same time. Items may have been deleted at the front of the
// list since the previous page.
func writeDated[T any](w http.ResponseWriter, p pageRequest, all []T, at func(T) time.Time) error {
	marks := make([]string, len(all))
	begin, same := 0, 0
	for i, item := range all {
		if same++; i > 0 && !at(item).Equal(at(all[i-1])) {
			same = 1
		}
		marks[i] = strconv.FormatInt(at(item).UnixNano(), 10) + "." + strconv.Itoa(same)
	}
	if p.after != "" {
		var err error
		if begin, err = beginAfter(p, all, marks, at); err != nil {
			return err
		}
	}
	page := Page[T]{Items: all[begin:]}
	if len(page.Items) > p.limit {
		page.Items = page.Items[:p.limit]
		page.Next = marks[begin+p.limit-1]
	}
	return writeJSON(w, page)
}

// beginAfter returns the index of the item after the one with the mark p.after. If that item
// is gone, it returns the index of the first later one.
func beginAfter[T any](p pageRequest, all []T, marks []string, at func(T) time.Time) (int, error) {
	nanos, same, ok := strings.Cut(p.after, ".")
	ns, err := strconv.ParseInt(nanos, 10, 64)
	if _, err2 := strconv.ParseUint(same, 10, 31); !ok || err != nil || err2 != nil {
		return 0, p.badAfter()
	}
	if i := slices.Index(marks, p.after); i >= 0 {
		return i + 1, nil
	}
	later := func(item T) bool { return at(item).UnixNano() > ns }
	if i := slices.IndexFunc(all, later); i >= 0 {
		return i, nil
	}
	return len(all), nil
}
