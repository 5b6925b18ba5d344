package cli

import (
	"encoding/base64"
	"time"
	"unicode/utf8"

	"github.com/rshub/rshub/resourcesync"
)

// NotificationJSON is a notification as a line of JSON: of `rssub listen`, and of `rshub topic tail`.
type NotificationJSON struct {
	Topic          string       `json:"topic,omitempty"`
	NotificationID string       `json:"notification_id,omitempty"`
	From           time.Time    `json:"from,omitzero"`
	Until          time.Time    `json:"until,omitzero"`
	ReceivedAt     time.Time    `json:"received_at,omitzero"` // by the hub
	Gap            string       `json:"gap,omitempty"`        // why notifications of the interval do not come
	Repaired       bool         `json:"repaired,omitempty"`
	NeedsBaseline  bool         `json:"needs_baseline,omitempty"`
	Changes        []ChangeJSON `json:"changes,omitempty"`
	MediaType      string       `json:"media_type,omitempty"`
	Content        string       `json:"content,omitempty"`
	ContentBase64  string       `json:"content_base64,omitempty"`
}

// SetContent sets what is not a change notification.
func (n *NotificationJSON) SetContent(mediaType string, content []byte) {
	n.MediaType = mediaType
	if utf8.Valid(content) {
		n.Content = string(content)
	} else {
		n.ContentBase64 = base64.StdEncoding.EncodeToString(content)
	}
}

// ChangeJSON is one change of a resource as JSON: all that its entry says.
type ChangeJSON struct {
	Change     resourcesync.ChangeType `json:"change"`
	URL        string                  `json:"url"`
	Written    string                  `json:"written,omitempty"` // the address as the Source writes it, where it is not URL
	Datetime   time.Time               `json:"datetime,omitzero"`
	LastMod    time.Time               `json:"lastmod,omitzero"`
	Capability string                  `json:"capability,omitempty"`
	Length     *int64                  `json:"length,omitempty"`
	Hash       string                  `json:"hash,omitempty"`
	Type       string                  `json:"type,omitempty"`
	Encoding   string                  `json:"encoding,omitempty"`
	Path       string                  `json:"path,omitempty"`
	At         time.Time               `json:"at,omitzero"`
	Completed  time.Time               `json:"completed,omitzero"`
	From       time.Time               `json:"from,omitzero"`
	Until      time.Time               `json:"until,omitzero"`
	Modified   time.Time               `json:"modified,omitzero"`
	Links      []LinkJSON              `json:"links,omitempty"`
	Attributes []AttributeJSON         `json:"attributes,omitempty"`
}

// LinkJSON is one rs:ln as JSON.
type LinkJSON struct {
	Rel        string          `json:"rel"`
	Href       string          `json:"href"`
	Pri        int             `json:"pri,omitempty"`
	Length     *int64          `json:"length,omitempty"`
	Hash       string          `json:"hash,omitempty"`
	Type       string          `json:"type,omitempty"`
	Encoding   string          `json:"encoding,omitempty"`
	Path       string          `json:"path,omitempty"`
	Profile    string          `json:"profile,omitempty"`
	Modified   time.Time       `json:"modified,omitzero"`
	Attributes []AttributeJSON `json:"attributes,omitempty"`
}

// AttributeJSON is one of a namespace other than those of ResourceSync.
type AttributeJSON struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Value     string `json:"value"`
}

// NewChangeJSON returns all that an entry says.
func NewChangeJSON(e *resourcesync.Entry) ChangeJSON {
	out := ChangeJSON{
		Change: e.Change, URL: e.Loc, Written: e.Written, Datetime: e.Datetime, LastMod: e.LastMod, Capability: e.Capability,
		Length: lengthOf(e.HasLength, e.Length), Hash: e.Hash, Type: e.Type, Encoding: e.Encoding, Path: e.Path,
		At: e.At, Completed: e.Completed, From: e.From, Until: e.Until, Modified: e.Modified, Attributes: newAttributes(e.Attributes),
	}
	for _, l := range e.Links {
		out.Links = append(out.Links, LinkJSON{
			Rel: l.Rel, Href: l.Href, Pri: l.Pri, Length: lengthOf(l.HasLength, l.Length), Hash: l.Hash, Type: l.Type, Encoding: l.Encoding,
			Path: l.Path, Profile: l.Profile, Modified: l.Modified, Attributes: newAttributes(l.Attributes),
		})
	}
	return out
}

func lengthOf(has bool, n int64) *int64 {
	if !has {
		return nil
	}
	return &n
}

func newAttributes(all []resourcesync.Attribute) (out []AttributeJSON) {
	for _, a := range all {
		out = append(out, AttributeJSON{a.Space, a.Name, a.Value})
	}
	return out
}
