package subscriptions_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/embedstore"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/websub"
)

// HUB-13, invariant 6: all of it on the embedded store and over the wire. A
// request is accepted, the hub stops in the middle of the verification, the
// topic moves on, and the next hub on the same folder verifies it; the
// subscription begins where the topic was at first.
func TestPendingRequestOutlivesTheProcess_HUB13(t *testing.T) {
	const topic = "https://source.example/changes/"
	dir := t.TempDir()
	var echoes atomic.Bool
	asked := make(chan struct{}, 100)
	callback := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		if !echoes.Load() {
			<-r.Context().Done()
			return
		}
		_, _ = fmt.Fprint(w, r.URL.Query().Get("hub.challenge"))
	}))
	defer callback.Close()
	id := subscriptions.ID(topic, callback.URL)

	store, service, stop := start(t, dir, nil)
	first := publish(t, store, topic, 1)
	err := service.Accept(t.Context(), websub.SubscribeRequest{Mode: websub.ModeSubscribe, Topic: topic, Callback: callback.URL, Secret: "s"}, "")
	if err != nil {
		t.Fatal(err)
	}
	<-asked
	publish(t, store, topic, 2)
	stop()
	echoes.Store(true)

	changed := make(chan subscriptions.Subscription, 1)
	store, _, stop = start(t, dir, func(s subscriptions.Subscription) { changed <- s })
	defer stop()
	select {
	case s := <-changed:
		if s.ID != id || s.Cursor.Anchor != first || s.Secret != "s" {
			t.Errorf("in force is %+v, want it to begin at %+v", s, first)
		}
	case <-time.After(time.Minute):
		t.Fatal("it was not verified")
	}
	rec, err := store.Get(t.Context(), id)
	if err != nil || rec.Request != nil || rec.Subscription == nil {
		t.Errorf("stored is %+v, %v", rec, err)
	}
}

// start runs a Service on the store in a folder, until stop, which closes it.
func start(t *testing.T, dir string, changed func(subscriptions.Subscription)) (*embedstore.Store, *subscriptions.Service, func()) {
	t.Helper()
	store, err := embedstore.Open(dir, embedstore.Options{MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	client, err := egress.New(egress.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := subscriptions.New(subscriptions.Options{Store: store, Heads: store, Client: client, Budget: egress.NewBudget(20), Changed: changed})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return store, s, func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if err := store.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	}
}

func publish(t *testing.T, store *embedstore.Store, topic string, n int64) journal.Anchor {
	t.Helper()
	head, err := store.Head(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	e := journal.Entry{From: time.Unix(n-1, 0).UTC(), Until: time.Unix(n, 0).UTC(), Kind: journal.KindChange, MediaType: "application/xml", Body: []byte("<urlset/>"), Size: 9}
	e, err = store.Append(t.Context(), time.Now(), topic, e, head.Version)
	if err != nil {
		t.Fatal(err)
	}
	return e.Anchor()
}
