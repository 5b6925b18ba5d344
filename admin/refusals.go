package admin

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// RefusalKinds are the values of Refused.Kind.
var RefusalKinds = []string{"publish", "ping", "fetch", "subscribe", "unsubscribe", "read", "post"}

// Refused is a request that the hub refused, or a subscription that it denied.
type Refused struct {
	At   time.Time `json:"at"`
	Node string    `json:"node"` // the hub
	// Kind is "publish", "ping", "fetch", "subscribe", "unsubscribe", "read" (of the history of a
	// topic) or "post" (of something else).
	Kind string `json:"kind"`
	// Problem is the word of docs/problems.md. It is "denied" for a subscription whose callback
	// got a denial, "not-verified" for a request that its callback did not confirm, and
	// "no-subscription" for a confirmed request to end a subscription that there is not.
	Problem string `json:"problem"`
	Status  int    `json:"status,omitempty"` // of the answer; 0: the hub had accepted the request before
	Topic   string `json:"topic,omitempty"`
	// SubscriptionID and CallbackHost are those of a request to subscribe.
	SubscriptionID string `json:"subscription_id,omitempty"`
	CallbackHost   string `json:"callback_host,omitempty"`
	Requester      string `json:"requester,omitempty"` // its address or network
	Publisher      string `json:"publisher,omitempty"` // the name that goes with its credential
	Detail         string `json:"detail"`              // the sentence that it got
	RequestID      string `json:"request_id,omitempty"`
	// LeftOut is how many of the same kind and requester were refused before it and are not
	// in the list.
	LeftOut int `json:"left_out,omitempty"`
	// LeftOutOfAll is how many of any kind and requester the hub left out since the one before it
	// that is in the list; of the latest, also those since.
	LeftOutOfAll int `json:"left_out_of_all,omitempty"`
}

// RefusedPage is what GET /api/v1/refusals answers.
type RefusedPage struct {
	Page[Refused]
	// Kept is how many refusals are kept of the last day, whatever the page and its filters show;
	// the first is of Since. LeftOut is how many are not kept of that time.
	Kept    int       `json:"kept"`
	Since   time.Time `json:"since,omitzero"`
	LeftOut int       `json:"left_out"`
}

// listRefusals answers with the latest refusals first. The mark of a page is the time of its
// last one, and refusals of the same time are on one page.
func (a *api) listRefusals(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	p, err := parsePage(q)
	if err != nil {
		return err
	}
	if kind := q.Get("kind"); kind != "" && !slices.Contains(RefusalKinds, kind) {
		return badRequest("kind=%s is not a kind of refusal: these are %s.", kind, strings.Join(RefusalKinds, ", "))
	}
	before := int64(math.MaxInt64)
	if p.after != "" {
		if before, err = strconv.ParseInt(p.after, 10, 64); err != nil {
			return p.badAfter()
		}
	}
	all, err := a.Refusals(r.Context())
	if err != nil {
		return err
	}
	page := RefusedPage{Page: Page[Refused]{Items: []Refused{}}, Kept: len(all)}
	for _, f := range all {
		page.Since, page.LeftOut = f.At, page.LeftOut+f.LeftOutOfAll
	}
	var last int64
	for _, f := range all {
		at := f.At.UnixNano()
		if at >= before || q.Get("topic") != "" && q.Get("topic") != f.Topic || q.Get("kind") != "" && q.Get("kind") != f.Kind {
			continue
		}
		if len(page.Items) >= p.limit && at != last {
			page.Next = strconv.FormatInt(last, 10)
			break
		}
		page.Items, last = append(page.Items, f), at
	}
	return writeJSON(w, page)
}
