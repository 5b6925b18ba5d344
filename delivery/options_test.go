package delivery

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/rshub/rshub/store/storetest"
)

// New refuses options with which a Dispatcher could deliver nothing, or would panic when it runs.
func TestNewRefusesNegativeOptions(t *testing.T) {
	for name, set := range map[string]func(*Options){
		"MaxInflight":      func(o *Options) { o.MaxInflight = -1 },
		"MaxInflightBytes": func(o *Options) { o.MaxInflightBytes = -1 },
		"Schedulers":       func(o *Options) { o.Schedulers = -1 },
		"PerHost":          func(o *Options) { o.PerHost = -1 },
		"CommitEvery":      func(o *Options) { o.CommitEvery = -1 },
		"CommitWindow":     func(o *Options) { o.CommitWindow = -1 },
		"Timeout":          func(o *Options) { o.Timeout = -time.Second },
		"Drain":            func(o *Options) { o.Drain = -1 },
		"Sweep":            func(o *Options) { o.Sweep = -1 },
		"Policy":           func(o *Options) { o.Policy.GiveUp = -1 },
		"nothing":          func(*Options) {},
	} {
		store := storetest.NewMemory()
		o := Options{Journal: store, Subscriptions: store, Client: http.DefaultClient, HubURL: "https://hub.example/"}
		set(&o)
		if _, err := New(o); (err == nil) != (name == "nothing") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A second Run returns an error at once.
func TestRunsOnce(t *testing.T) {
	store := storetest.NewMemory()
	d, err := New(Options{Journal: store, Subscriptions: store, Client: http.DefaultClient, HubURL: "https://hub.example/"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Run(ctx); err != nil {
		t.Error(err)
	}
	if d.Run(ctx) == nil {
		t.Error("it ran again")
	}
}

func TestActionHasAName(t *testing.T) {
	for a, want := range map[Action]string{Deliver: "delivered", End: "ended", 99: "Action(99)", -1: "Action(-1)"} {
		if got := a.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A number that is no shard's is an error of Start, and not started for Finish and Abort.
func TestShardsThatDoNotExist(t *testing.T) {
	store := storetest.NewMemory()
	d, err := New(Options{Journal: store, Subscriptions: store, Client: http.DefaultClient, HubURL: "https://hub.example/"})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{-1, 256} {
		if d.Start(t.Context(), n) == nil {
			t.Errorf("shard %d was started", n)
		}
		d.Finish(t.Context(), n)
		d.Abort(n)
	}
}
