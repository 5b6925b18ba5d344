package admin

import (
	"net/http"
	"time"
)

// Publisher is a publisher that the hub knows, and how often it published.
type Publisher struct {
	// Name is the name in the publishers file. Empty: all publishes without a credential. The hub
	// accepts these if the topic serves the same content (or --publish-auth has open).
	Name string `json:"name"`
	// Topics are patterns of what it may publish.
	Topics []string `json:"topics,omitempty"`
	// Token and Signature say which credentials it has. The credentials are never shown.
	Token     bool `json:"token,omitempty"`
	Signature bool `json:"signature,omitempty"`
	Use
}

// Publishers is what GET /api/v1/publishers answers.
type Publishers struct {
	Items []Publisher `json:"items"`
	// HubsError: the counts of other hubs could not be read, or not all of them. The counts
	// then lack what those hubs saw.
	HubsError string `json:"hubs_error,omitempty"`
}

// Use is how often a publisher published, as all hubs on the store counted since they
// started.
type Use struct {
	LastAt   time.Time `json:"last_at,omitzero"` // zero: not since then
	Accepted int       `json:"accepted"`
	Refused  int       `json:"refused"`
}

// Add adds what another hub counted.
func (u *Use) Add(o Use) {
	u.Accepted, u.Refused = u.Accepted+o.Accepted, u.Refused+o.Refused
	if o.LastAt.After(u.LastAt) {
		u.LastAt = o.LastAt
	}
}

func (a *api) listPublishers(w http.ResponseWriter, r *http.Request) error {
	return writeJSON(w, a.Publishers(r.Context()))
}

// Setting is one setting of the hub, and where its value comes from.
type Setting struct {
	Name    string `json:"name"`
	Value   string `json:"value"` // without secrets; empty: About says what that means
	About   string `json:"about,omitempty"`
	From    string `json:"from"` // "default", "--listen", "RSHUB_LISTEN", "rshub.yaml:3"
	Default bool   `json:"default"`
}

func (a *api) listSettings(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, Page[Setting]{Items: a.Settings()})
}
