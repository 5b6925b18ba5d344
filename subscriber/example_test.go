package subscriber_test

import (
	"context"
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
