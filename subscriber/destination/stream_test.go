package destination_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber"
	"github.com/rshub/rshub/subscriber/destination"
)

// streams has a Source be its own hub, with a stream for those who have the token.
func (s *source) streams(events map[string]chan []byte, open *atomic.Int32) {
	hub := s.URL + "/hub"
	s.set("/capabilitylist.xml", func(w http.ResponseWriter, _ *http.Request) {
		at := []resourcesync.Link{{Rel: "hub", Href: hub}}
		s.write(w, resourcesync.Head{Capability: resourcesync.CapabilityList, Links: []resourcesync.Link{{Rel: "up", Href: s.URL + "/.well-known/resourcesync"}}},
			resourcesync.Entry{Loc: s.URL + "/resourcelist.xml", Capability: resourcesync.ResourceList}, resourcesync.Entry{Loc: s.URL + "/changelist.xml", Capability: resourcesync.ChangeList},
			resourcesync.Entry{Loc: s.URL + "/changes/", Capability: resourcesync.ChangeNotification, Links: at}, resourcesync.Entry{Loc: s.URL + "/framework/", Capability: resourcesync.FrameworkNotification, Links: at})
	})
	s.set("/hub", func(w http.ResponseWriter, r *http.Request) {
		topic := r.URL.Query().Get("hub.topic")
		if r.Header.Get("Authorization") != "Bearer secret" || events[topic] == nil || !strings.HasPrefix(r.Header.Get("Accept"), "text/event-stream") {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		open.Add(1)
		defer open.Add(-1)
		for n := 0; ; n++ {
			_, _ = fmt.Fprintf(w, "id: %d\n\n", n)
			_ = http.NewResponseController(w).Flush()
			select {
			case body := <-events[topic]:
				sum := sha256.Sum256(body)
				data, err := json.Marshal(map[string]any{
					"id": fmt.Sprint("id-", n), "topic": topic, "content_type": "application/xml", "size": len(body), "sha256": hex.EncodeToString(sum[:]), "document": string(body),
				})
				if err != nil {
					s.t.Error(err)
				}
				_, _ = fmt.Fprintf(w, "event: notification\ndata: %s\n", data)
			case <-r.Context().Done():
				return
			}
		}
	})
}

// Where no hub can call, changes and framework notifications come by the hub's stream. A stream
// occupies no place among the requests that a host gets at once, and has the token of its host.
func TestFollowsAStream(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.put("a", "first", 0)
	var open atomic.Int32
	changes, framework := make(chan []byte), make(chan []byte)
	s.streams(map[string]chan []byte{s.URL + "/changes/": changes, s.URL + "/framework/": framework}, &open)
	s.set("/changes/", http.NotFound) // a channel need not be a page
	s.set("/framework/", http.NotFound)
	c := s.open(dir, func(o *destination.Options) {
		o.CheckEvery, o.Parallel, o.Tokens = -1, 1, map[string]string{strings.TrimPrefix(s.URL, "http://"): "secret"}
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Follow(ctx) }()
	eventually(t, "both streams are open", func() bool { return open.Load() == 2 })
	s.put("a", "second", 0)
	s.put("b", "second", 0)
	document := func(h resourcesync.Head, e resourcesync.Entry) []byte {
		var body bytes.Buffer
		out, err := resourcesync.NewWriter(&body, h, resourcesync.WriteOptions{})
		if err == nil {
			err = out.Write(e)
		}
		if err == nil {
			err = out.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		return body.Bytes()
	}
	e := s.entry("a", resourcesync.Updated)
	e.Datetime = s.at.Add(time.Second)
	changes <- document(resourcesync.Head{Capability: resourcesync.ChangeNotification, From: s.at, Until: s.at.Add(time.Minute)}, e)
	eventually(t, "what the stream has is carried out", func() bool { return read(dir, "a") == "second" })
	s.put("b", "third", 100) // which no notification says
	framework <- document(resourcesync.Head{Capability: resourcesync.FrameworkNotification}, resourcesync.Entry{Loc: s.URL + "/changelist.xml", Change: resourcesync.Updated, Capability: resourcesync.ChangeList})
	eventually(t, "the Change List is read", func() bool { return read(dir, "b") == "third" })
	all, err := c.Status()
	if err != nil || len(all) != 1 || all[0].Way != subscriber.ViaStream || all[0].Stream == nil || all[0].Stream.State != subscriber.StreamOpen || all[0].Stream.LastEvent.IsZero() || all[0].Topic == "" {
		t.Errorf("%v %+v", err, all)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A copy that is left out of a Fleet which no hub can call is gone at once.
func TestFleetWithoutACallback(t *testing.T) {
	s, root := newSource(t), t.TempDir()
	f, err := destination.OpenFleet(destination.FleetOptions{Dir: root + "/fleet", Client: http.DefaultClient})
	if err != nil {
		t.Fatal(err)
	}
	o := destination.Options{Source: s.URL, Dir: root + "/a", PollEvery: time.Millisecond}
	if err := f.Set([]destination.Member{{Name: "a", Version: "1", Options: o}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	eventually(t, "it is followed", func() bool { st := f.Status(); return len(st) == 1 && st[0].Ready })
	if err := f.Set(nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it has left", func() bool { return len(f.Status()) == 0 })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
