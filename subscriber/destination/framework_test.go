package destination_test

import (
	"bytes"
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/destination"
	"github.com/rshub/rshub/websub"
)

// A framework notification has the documents that it names read at once: a Change List, and a
// Capability List that names a new set of documents. SRC-01, DOC-20.
func TestFollowsFrameworkNotifications_DOC20(t *testing.T) {
	hub, s, dir := newVerifier(t), newSource(t), t.TempDir()
	s.put("a", "first", 0)
	topic := s.URL + "/framework/"
	s.set("/capabilitylist.xml", func(w http.ResponseWriter, _ *http.Request) {
		at := []resourcesync.Link{{Rel: "hub", Href: hub.URL}}
		s.write(w, resourcesync.Head{Capability: resourcesync.CapabilityList, Links: []resourcesync.Link{{Rel: "up", Href: s.URL + "/.well-known/resourcesync"}}},
			resourcesync.Entry{Loc: s.URL + "/resourcelist.xml", Capability: resourcesync.ResourceList}, resourcesync.Entry{Loc: s.URL + "/changelist.xml", Capability: resourcesync.ChangeList},
			resourcesync.Entry{Loc: s.URL + "/changes/", Capability: resourcesync.ChangeNotification, Links: at}, resourcesync.Entry{Loc: topic, Capability: resourcesync.FrameworkNotification, Links: at})
	})
	at, handler := callbackServer(t)
	c := s.open(dir, func(o *destination.Options) { o.Callback, o.CheckEvery = at.URL+"/cb", -1 })
	h := c.Handler()
	handler.Store(&h)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Follow(ctx) }()
	eventually(t, "both are subscribed", func() bool { return hub.mode(topic) == "subscribe" && hub.mode(s.URL+"/changes/") == "subscribe" })
	hub.mu.Lock()
	callback := hub.calls[topic]
	hub.mu.Unlock()
	resp, err := http.Post(callback, "application/xml", strings.NewReader("<urlset/>")) //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	counted := func(all []destination.SetStatus, err error) {
		t.Helper()
		if err != nil || len(all) != 1 || all[0].Framework == nil || all[0].Framework.Topic != topic || all[0].Framework.Counts.Refused["unsigned"] != 1 {
			t.Errorf("a notification that is not signed is not in the status of its topic: %+v, %v", all, err)
		}
	}
	counted(c.Status())
	tell := func(id, loc, capability string) {
		t.Helper()
		var body bytes.Buffer
		out, err := resourcesync.NewWriter(&body, resourcesync.Head{Capability: resourcesync.FrameworkNotification}, resourcesync.WriteOptions{})
		if err == nil {
			err = out.Write(resourcesync.Entry{Loc: loc, Change: resourcesync.Updated, Capability: capability})
		}
		if err == nil {
			err = out.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		hub.mu.Lock()
		callback, key := hub.calls[topic], hub.keys[topic]
		hub.mu.Unlock()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, callback, &body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/xml")
		req.Header.Set("Webhook-Id", id)
		req.Header.Set(websub.HeaderSignature, websub.SHA256.Sign(key, body.Bytes()))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode/100 != 2 {
			t.Fatalf("it was answered %s", resp.Status)
		}
	}
	documents := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.gets["/changelist.xml"] + s.gets["/resourcelist.xml"]
	}
	eventually(t, "the start is over", func() bool {
		before := documents()
		time.Sleep(300 * time.Millisecond)
		all, err := c.Status()
		return err == nil && len(all) == 1 && !all[0].SyncedAt.IsZero() && documents() == before
	})
	s.put("a", "second", 100) // which nobody pushes
	time.Sleep(50 * time.Millisecond)
	if read(dir, "a") != "first" {
		t.Error("it is there before anybody said so")
	}
	tell("1", s.URL+"/changelist.xml", resourcesync.ChangeList)
	eventually(t, "the Change List is read", func() bool { return read(dir, "a") == "second" })
	s.mu.Lock()
	asked := s.gets["/capabilitylist.xml"]
	s.mu.Unlock()
	tell("2", s.URL+"/capabilitylist.xml", resourcesync.CapabilityList)
	eventually(t, "the Capability List is read", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.gets["/capabilitylist.xml"] > asked
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	counted(destination.ReadStatus(filepath.Join(dir, ".rssub")))
}
