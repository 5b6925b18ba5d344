package publisher

import (
	"bytes"
	"fmt"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// entryTag begins the text of an entry, and rootEnd what comes after the last.
var (
	entryTag = []byte("  <url>")
	rootEnd  = []byte("</urlset>")
)

// write writes a notification with these entries. The error is a *resourcesync.Error if one
// of them breaks a rule.
func write(head resourcesync.Head, entries ...resourcesync.Entry) ([]byte, error) {
	var b bytes.Buffer
	w, err := resourcesync.NewWriter(&b, head, resourcesync.WriteOptions{})
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if err := w.Write(e); err != nil {
			return nil, err
		}
	}
	err = w.Close()
	return b.Bytes(), err
}

// composeEntry writes an entry as it will stand in a notification. The error is a
// *resourcesync.Error if it breaks a rule.
func composeEntry(kind Kind, e resourcesync.Entry, at time.Time) (queued, error) {
	e.Datetime = at
	if e.Change.Removes() {
		e.Hash, e.Length, e.HasLength, e.Type, e.Encoding = "", 0, false, "", ""
	}
	text, err := write(resourcesync.Head{Capability: string(kind), From: at, Until: at}, e)
	if err != nil {
		return queued{}, err
	}
	// The head has no links, so it has no text of strangers.
	begin, end := bytes.Index(text, entryTag), bytes.LastIndex(text, rootEnd)
	if begin < 0 || end < begin {
		return queued{}, fmt.Errorf("the entry %s was not written as one", e.Loc)
	}
	above := e.Capability == resourcesync.CapabilityList || e.Capability == resourcesync.Description
	return queued{at: at, above: above, text: text[begin:end]}, nil
}

// frame returns the parts of a notification of the interval before and after its entries.
// Above says that all of these are about documents below the Source Description.
func (o *Options) frame(from, until time.Time, above bool) (head, foot []byte, err error) {
	h := resourcesync.Head{Capability: string(o.Kind), From: from, Until: until}
	up := o.CapabilityList
	if above && o.SourceDescription != "" {
		up = o.SourceDescription
	}
	if up != "" {
		h.Links = []resourcesync.Link{{Rel: "up", Href: up}}
	}
	text, err := write(h)
	if err != nil {
		return nil, nil, fmt.Errorf("the head of a notification: %w", err)
	}
	end := bytes.LastIndex(text, rootEnd)
	return text[:end], text[end:], nil
}

// frameSize is the most that frame takes, in bytes.
func (o *Options) frameSize() (int64, error) {
	longest := lastInstant.Add(-time.Second).Truncate(time.Second).Add(999_999_999)
	var most int
	for _, above := range []bool{false, true} {
		head, foot, err := o.frame(longest, longest, above)
		if err != nil {
			return 0, err
		}
		most = max(most, len(head)+len(foot))
	}
	return int64(most), nil
}
