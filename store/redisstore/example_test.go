package redisstore_test

import (
	"context"
	"crypto/rand"
	"log"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rshub/rshub/cluster"
	"github.com/rshub/rshub/delivery"
	"github.com/rshub/rshub/hub"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/redisstore"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/validate"
)

// A program has one of several hubs that share a store in Redis. A cluster.Keeper gives each hub its part of the work,
// and that of a hub that is gone. With one hub, the embedded store needs less: see the example of package hub.
func Example() {
	const hubURL, lease, drain = "https://hub.example/", 30 * time.Second, 15 * time.Second
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var w worker
	store, err := redisstore.Open(ctx, redisstore.Options{URL: "redis://redis.example:6379/0", Lease: lease, Reached: w.reached})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	for _, sentence := range store.Found.Warnings {
		log.Print(sentence) // for instance that Redis may lose what it has acknowledged
	}
	keeper, err := cluster.New(cluster.Options{
		Store: store.Leases, Worker: &w, Lease: lease, Drain: drain,
		Self: cluster.Node{ID: rand.Text(), Name: "hub-1", HubURL: hubURL, Format: redisstore.Format, StartedAt: time.Now()},
	})
	if err != nil {
		log.Fatal(err)
	}
	w.ready = keeper.Starting

	// Strangers choose what this client calls. On the Internet, use one that does not dial addresses of your network.
	client := &http.Client{Transport: &http.Transport{}}
	topics, err := validate.NewTopicChecker(validate.TopicOptions{HubURL: hubURL, Client: client})
	if err != nil {
		log.Fatal(err)
	}
	defer topics.Close()
	var requests *subscriptions.Service
	deliveries, err := delivery.New(delivery.Options{
		HubURL: hubURL, Journal: store, Subscriptions: store, Client: client, Drain: drain,
		Owns: keeper.Owns, Poll: store.Poll,
		Found: func(r subscriptions.Record) { requests.Found(r) }, // what another hub accepted
	})
	if err != nil {
		log.Fatal(err)
	}
	requests, err = subscriptions.New(subscriptions.Options{
		Store: store, Heads: store, Client: client, Check: topics, Changed: deliveries.Apply, ResumeWithin: 24 * time.Hour,
		Owns: keeper.Owns, Live: keeper.Live, StoreTime: store.Time,
	})
	if err != nil {
		log.Fatal(err)
	}
	w.Handler, err = hub.New(hub.Options{
		HubURL: hubURL, Journal: store, Pings: store, Topics: topics, Subscriptions: requests,
		Auth: hub.PublishAuth{Content: true}, Owns: keeper.Owns, Live: keeper.Live,
	})
	if err != nil {
		log.Fatal(err)
	}
	w.Dispatcher.Store(deliveries)

	server := &http.Server{Addr: ":8080", Handler: w.Handler, ReadHeaderTimeout: 10 * time.Second}
	go func() { log.Print(server.ListenAndServe()) }()
	working, end := context.WithCancel(context.WithoutCancel(ctx))
	var delivering, running sync.WaitGroup
	delivering.Go(func() { _ = deliveries.Run(working) }) // until the Keeper has given back the shards
	for _, run := range []func(context.Context) error{keeper.Run, requests.Run, w.Fetch} {
		running.Go(func() { _ = run(ctx) })
	}
	running.Wait()
	end()
	delivering.Wait()
	_ = server.Close()
}

// worker is the cluster.Worker of a hub.
type worker struct {
	*hub.Handler
	Dispatcher atomic.Pointer[delivery.Dispatcher]
	ready      func() error
}

func (w *worker) Start(ctx context.Context, shard int) error {
	w.Acquired(shard)
	return w.Dispatcher.Load().Start(ctx, shard)
}

func (w *worker) Finish(ctx context.Context, shard int) { w.Dispatcher.Load().Finish(ctx, shard) }
func (w *worker) Abort(shard int)                       { w.Dispatcher.Load().Abort(shard) }

// reached says how far the subscriptions of this hub got, when Redis has lost its tail. The store may ask before the hub is complete.
func (w *worker) reached(partitions []int) ([]journal.Reached, bool) {
	d := w.Dispatcher.Load()
	if d == nil {
		return nil, false
	}
	return d.Reached(partitions), w.ready() == nil
}
