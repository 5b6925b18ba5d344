package subscriber_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"

	"github.com/rshub/rshub/subscriber"
	"github.com/rshub/rshub/websub"
)

// An application that has an HTTP server subscribes to a topic: it mounts the
// callback, runs the Subscriber, and takes changes as they come.
func Example() {
	mux, source := http.NewServeMux(), exampleHub()
	server := httptest.NewServer(mux) // the server that is there already
	defer source.Close()
	defer server.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	dir, _ := os.MkdirTemp("", "example")
	defer func() { _ = os.RemoveAll(dir) }()

	sub, err := subscriber.Open(subscriber.Options{
		Dir: dir, Topic: source.URL + "/topic", Callback: server.URL + "/websub/",
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, // the topic and its hub are on this machine
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = sub.Close() }()
	mux.Handle("/websub/", sub.Handler())
	running := make(chan error)
	go func() { running <- sub.Run(ctx) }()
	for change := range sub.Changes(ctx) {
		fmt.Println(change.Entry.Change, change.Loc) // the application's work
		if err := sub.Commit(change.Cursor); err != nil {
			fmt.Println(err)
		}
		if change.Last { // only an example ends
			break
		}
	}
	cancel()
	if err := <-running; err != nil {
		fmt.Println(err)
	}
	// Output:
	// created https://source.example/a
	// updated https://source.example/b
}

// A program that no hub can call reads the stream of the hub.
func ExampleNotifications() {
	hub := httptest.NewServer(http.HandlerFunc(exampleStream))
	defer hub.Close()
	for n, err := range subscriber.Notifications(context.Background(), subscriber.StreamOptions{
		Hub: hub.URL, Topic: "https://source.example/topic", After: "earliest",
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, // the hub is on this machine
	}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		for change, err := range n.Entries() {
			fmt.Println(change.Change, change.Loc, err)
		}
		break // only an example ends
	}
	// Output:
	// created https://source.example/a <nil>
	// updated https://source.example/b <nil>
}

// exampleStream is the stream of a hub with one notification.
func exampleStream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	data, _ := json.Marshal(map[string]any{
		"id": "1", "topic": r.FormValue("hub.topic"), "content_type": "application/xml", "document": exampleNotification,
		"size": len(exampleNotification), "sha256": fmt.Sprintf("%x", sha256.Sum256([]byte(exampleNotification))),
	})
	_, _ = fmt.Fprintf(w, "event: notification\ndata: %s\nid: 1\n\n", data)
}

// exampleHub is a topic and its hub, which delivers one notification to whoever
// subscribes.
func exampleHub() *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("/topic", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", `</topic>; rel="self", </hub>; rel="hub"`)
	})
	mux.HandleFunc("/hub", func(w http.ResponseWriter, r *http.Request) {
		callback, secret := r.FormValue("hub.callback"), r.FormValue("hub.secret")
		query := []websub.Param{{Name: "hub.mode", Value: "subscribe"}, {Name: "hub.topic", Value: r.FormValue("hub.topic")}, {Name: "hub.challenge", Value: "x"}}
		w.WriteHeader(http.StatusAccepted)
		go func() { //nolint:contextcheck // it outlives the request
			send(http.MethodGet, websub.AppendQuery(callback, query...), "", "")
			send(http.MethodPost, callback, exampleNotification, websub.SHA256.Sign(secret, []byte(exampleNotification)))
		}()
	})
	return httptest.NewServer(mux)
}

func send(method, url, body, signature string) {
	req, _ := http.NewRequestWithContext(context.Background(), method, url, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/xml")
	req.Header.Set(websub.HeaderSignature, signature)
	if resp, err := http.DefaultClient.Do(req); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
}

const exampleNotification = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
<rs:md capability="change-notification" from="2026-01-01T00:00:00Z" until="2026-01-01T00:01:00Z"/>
<url><loc>https://source.example/a</loc><rs:md change="created" datetime="2026-01-01T00:00:10Z"/></url>
<url><loc>https://source.example/b</loc><rs:md change="updated" datetime="2026-01-01T00:00:20Z"/></url>
</urlset>`
