package main

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/publisher"
	"github.com/rshub/rshub/publisher/source"
	"github.com/rshub/rshub/resourcesync"
)

// events writes what happens to a Source as JSON, an object a line.
type events struct {
	mu sync.Mutex
	to io.Writer // nil: nothing is written
}

// event is one line. Fields that do not apply are omitted.
type event struct {
	Event string    `json:"event"` // change, post or documents
	Set   string    `json:"set,omitempty"`
	At    time.Time `json:"at,omitzero"`
	// Fields of a change.
	Change resourcesync.ChangeType `json:"change,omitempty"`
	Path   string                  `json:"path,omitempty"`
	Length *int64                  `json:"length,omitempty"`
	// Fields of a POST.
	Topic     string    `json:"topic,omitempty"`
	Hub       string    `json:"hub,omitempty"`
	From      time.Time `json:"from,omitzero"`
	Until     time.Time `json:"until,omitzero"`
	Entries   int       `json:"entries,omitempty"`
	Status    int       `json:"status,omitempty"`
	ID        string    `json:"id,omitempty"`
	Duplicate bool      `json:"duplicate,omitempty"`
	Error     string    `json:"error,omitempty"`
	// Fields of documents.
	URLs []string `json:"urls,omitempty"`
}

func (e *events) write(all ...event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range all {
		if e.to != nil {
			_ = cli.WriteJSON(e.to, all[i]) // publishing continues if the reader is gone
		}
	}
}

func (e *events) recorded(set string, changes []source.Change) {
	var all []event
	for i := range changes {
		c := &changes[i]
		x := event{Event: "change", Set: set, At: c.At, Change: c.Change, Path: c.Resource.Path}
		if !c.Change.Removes() {
			x.Length = &c.Resource.Length
		}
		all = append(all, x)
	}
	e.write(all...)
}

func (e *events) posted(set string, p publisher.Posted) {
	x := postEvent(p)
	x.Set, x.At = set, time.Now().UTC()
	e.write(x)
}

// postEvent is the line about a POST.
func postEvent(p publisher.Posted) event {
	x := event{
		Event: "post", Topic: p.Topic, Hub: p.Hub, From: p.From, Until: p.Until, Entries: p.Entries,
		Status: p.Receipt.Status, ID: p.Receipt.ID, Duplicate: p.Receipt.Duplicate,
	}
	if p.Err != nil {
		x.Error = p.Err.Error()
	}
	if refused := (*publisher.RefusedError)(nil); errors.As(p.Err, &refused) {
		x.Status = refused.Status
	}
	return x
}

func (e *events) built(set string, urls []string) {
	e.write(event{Event: "documents", Set: set, At: time.Now().UTC(), URLs: urls})
}
