package hub_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/rshub/rshub/delivery"
	"github.com/rshub/rshub/hub"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/publisher"
	"github.com/rshub/rshub/store/embedstore"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/validate"
)

// A program has a hub of its own, with the embedded store. EmbeddedHub is what to copy: it connects the parts of a hub.
// The program mounts it in the HTTP server that it has. The rest is a Source and a subscriber that use the hub.
func Example() {
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	defer server.Close()
	dir, err := os.MkdirTemp("", "hub-")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	hubURL, topic, callback := server.URL+"/hub", server.URL+"/changes/", server.URL+"/callback"
	h, err := OpenHub(hubURL, dir)
	if err != nil {
		log.Fatal(err)
	}
	mux.Handle("/hub", h)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- h.Run(ctx) }()

	// The topic URI of the Source names the hub, and serves what is published.
	mux.HandleFunc("GET /changes/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, topic, hubURL))
		_, _ = io.WriteString(w, notification)
	})
	// The callback of the subscriber confirms its request, and accepts notifications.
	received := make(chan string)
	mux.HandleFunc("GET /callback", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.FormValue("hub.challenge"))
	})
	mux.HandleFunc("POST /callback", func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		received <- string(body)
	})

	resp, err := http.PostForm(hubURL, url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic}, "hub.callback": {callback}}) //nolint:noctx // an example
	if err != nil {
		log.Fatal(err)
	}
	_ = resp.Body.Close()
	fmt.Println("subscribe:", resp.Status)
	receipt, err := publisher.Post(ctx, nil, publisher.Hub{URL: hubURL}, publisher.Notification{Topic: topic, Body: []byte(notification)})
	fmt.Println("publish:", receipt.Status, err)
	fmt.Println("received unchanged:", <-received == notification)

	cancel()
	fmt.Println("ended:", <-ended, h.Close())
	// Output:
	// subscribe: 202 Accepted
	// publish: 200 <nil>
	// received unchanged: true
	// ended: <nil> <nil>
}

// EmbeddedHub is a hub within a program. It is the http.Handler of the hub URL.
type EmbeddedHub struct {
	*hub.Handler // how requests come in
	store        *embedstore.Store
	client       *http.Client
	topics       *validate.TopicChecker
	requests     *subscriptions.Service // verifies subscribers
	deliveries   *delivery.Dispatcher   // delivers to them
}

// OpenHub opens a hub with its state in a folder.
func OpenHub(hubURL, dir string) (h *EmbeddedHub, err error) {
	h = &EmbeddedHub{
		// Strangers choose what this client calls. On the Internet, use one that does not dial addresses of your network.
		client: &http.Client{Transport: &http.Transport{}},
	}
	if h.store, err = embedstore.Open(dir, embedstore.Options{}); err != nil {
		return nil, err
	}
	h.topics, err = validate.NewTopicChecker(validate.TopicOptions{HubURL: hubURL, Client: h.client})
	if err != nil {
		return nil, errors.Join(err, h.store.Close())
	}
	h.deliveries, err = delivery.New(delivery.Options{
		HubURL: hubURL, Journal: h.store, Subscriptions: h.store, Client: h.client, Drain: 5 * time.Second,
	})
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	h.requests, err = subscriptions.New(subscriptions.Options{
		Store: h.store, Heads: h.store, Client: h.client, Check: h.topics, Changed: h.deliveries.Apply, ResumeWithin: 24 * time.Hour,
	})
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	h.Handler, err = hub.New(hub.Options{
		HubURL: hubURL, Journal: h.store, Pings: h.store, Topics: h.topics, Subscriptions: h.requests,
		Auth: hub.PublishAuth{Content: true}, // who controls the topic URI may publish to it
	})
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// Run works until ctx ends. It deletes no notification: see the example of journal.Retention.
func (h *EmbeddedHub) Run(ctx context.Context) error {
	// Without other hubs on the store, this one owns all shards. With Redis, package cluster divides them.
	for shard := range journal.Partitions {
		if err := h.deliveries.Start(ctx, shard); err != nil {
			return err
		}
	}
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{h.deliveries.Run, h.requests.Run, h.Fetch} {
		running.Go(func() { _ = run(ctx) }) // each returns nil when it has stopped
	}
	running.Wait()
	return nil
}

// Close releases the folder. Run has to have returned.
func (h *EmbeddedHub) Close() error {
	h.topics.Close()
	h.client.CloseIdleConnections()
	return h.store.Close()
}

const notification = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
<rs:md capability="change-notification" from="2026-01-01T00:00:00Z" until="2026-01-01T00:01:00Z"/>
<url><loc>https://source.example/a</loc><rs:md change="created" datetime="2026-01-01T00:00:10Z"/></url>
</urlset>`
