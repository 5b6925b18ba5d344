package admin

import (
	"net/http"
	"strconv"
	"time"
)

// Stream is a stream that a reader has open.
type Stream struct {
	ID        uint64    `json:"id"` // of this run of the hub
	Node      string    `json:"node"`
	Topics    []string  `json:"topics"`
	Requester string    `json:"requester,omitempty"` // its address or network
	Reader    string    `json:"reader,omitempty"`    // the name that goes with its token
	OpenedAt  time.Time `json:"opened_at"`
	// Notifications, Gaps and Bytes were sent since then.
	Notifications uint64 `json:"notifications"`
	Gaps          uint64 `json:"gaps"`
	Bytes         uint64 `json:"bytes"`
	// Behind: the reader does not have all that there is. BlockedSeconds is how long the hub has
	// waited for it to take something; 0: it does not wait.
	Behind         bool    `json:"behind,omitempty"`
	BlockedSeconds float64 `json:"blocked_seconds,omitempty"`
}

// StreamsPage is what GET /api/v1/streams answers: streams of the hub that answers.
type StreamsPage struct {
	Page[Stream]
	Hubs []HubStreams `json:"hubs"`
	// HubsError: the counts of other hubs could not be read.
	HubsError string `json:"hubs_error,omitempty"`
}

// HubStreams is how many streams a hub of the store has.
type HubStreams struct {
	ID      string    `json:"id"`
	Streams int       `json:"streams"`
	AsOf    time.Time `json:"as_of,omitzero"` // zero: it did not say
}

// listStreams answers with the streams of this hub, the oldest first.
func (a *api) listStreams(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	p, err := parsePage(q)
	if err != nil {
		return err
	}
	var after uint64
	if p.after != "" {
		if after, err = strconv.ParseUint(p.after, 10, 64); err != nil {
			return p.badAfter()
		}
	}
	page := StreamsPage{Page: Page[Stream]{Items: []Stream{}}, Hubs: []HubStreams{}}
	items, more := a.Streams(q.Get("topic"), after, p.limit)
	page.Items = append(page.Items, items...)
	if more {
		page.Next = strconv.FormatUint(items[len(items)-1].ID, 10)
	}
	if a.Fleet != nil {
		now := a.Fleet(r.Context())
		page.HubsError = now.HubsError
		for _, h := range now.Hubs {
			page.Hubs = append(page.Hubs, HubStreams{h.ID, h.Streams, h.AsOf})
		}
	}
	return writeJSON(w, page)
}
