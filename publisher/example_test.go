package publisher_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/rshub/rshub/publisher"
	"github.com/rshub/rshub/resourcesync"
)

// An application that publishes its changes: its outbox, the topic's URL, and a
// change that is told once it is on disk.
func Example() {
	hub, mux := demoHub(), http.NewServeMux()
	app := httptest.NewServer(mux)
	dir, _ := os.MkdirTemp("", "outbox-")

	p, err := publisher.Open(publisher.Options{Dir: dir, Topic: app.URL + "/changes/", Hubs: []publisher.Hub{{URL: hub.URL + "/"}}})
	if err != nil {
		log.Fatal(err)
	}
	mux.Handle("/changes/", p.Handler())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	err = p.Record(ctx, publisher.Change{Entry: resourcesync.Entry{Loc: app.URL + "/books/1", Change: resourcesync.Updated}})
	fmt.Println("recorded:", err)

	fmt.Println("published:", p.Flush(ctx)) // only to see it happen; Run does it by itself
	fmt.Println(p.Status().Hubs[0].State)
	cancel()
	fmt.Println(<-ended, p.Close())
	app.Close()
	hub.Close()
	_ = os.RemoveAll(dir)
	// Output:
	// recorded: <nil>
	// published: <nil>
	// up to date
	// <nil> <nil>
}

// demoHub answers as a hub does that takes everything.
func demoHub() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"id": %q, "duplicate": false}`, time.Now())
	}))
}
