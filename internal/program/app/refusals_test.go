package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/hub"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/storetest"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/websub"
)

// failingNotebook is a notebook that may be out of order.
type failingNotebook struct {
	journal.Notebook
	broken atomic.Bool
}

func (n *failingNotebook) Note(ctx context.Context, texts ...[]byte) error {
	if n.broken.Load() {
		return errors.New("no disk")
	}
	return n.Notebook.Note(ctx, texts...)
}

func knowsOne(r admin.Refused) bool { return r.Topic == "https://example.org/known" }

func publishRefused(requester, topic string) hub.Event {
	return hub.Event{Name: hub.EventPublish, Outcome: "gap", Status: 409, Topic: topic, Requester: requester, RequestID: "r1", Err: errors.New("it leaves out an hour")}
}

// Each hub shows the refusals of all for a day, also those that it could not store yet.
func TestRefusalsOfAllHubs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.WarnLevel)
		store := &failingNotebook{Notebook: storetest.NewMemory()}
		one := newRefusals("one", func() journal.Notebook { return store }, knowsOne, zap.New(core))
		two := newRefusals("two", func() journal.Notebook { return store }, knowsOne, zap.NewNop())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		for _, f := range []*refusals{one, two} {
			go func() { done <- f.run(ctx) }()
		}
		one.request(hub.Event{Name: hub.EventPublish, Outcome: hub.OutcomeAccepted})
		one.request(publishRefused("192.0.2.7", "https://example.org/t"))
		time.Sleep(2 * refusalsEvery)
		two.subscription(subscriptions.Event{Name: subscriptions.EventVerified})
		two.subscription(subscriptions.Event{Name: subscriptions.EventDenied, Topic: "https://example.org/t", CallbackHost: "s.example:443", Reason: "no such topic"})
		time.Sleep(2 * refusalsEvery)
		store.broken.Store(true)
		two.subscription(subscriptions.Event{Name: subscriptions.EventDropped, Topic: "https://example.org/t", Reason: "the callback answered 404"})
		time.Sleep(time.Millisecond)
		one.request(publishRefused("192.0.2.8", "https://example.org/u"))
		time.Sleep(5 * refusalsEvery)
		want := func(f *refusals, problems ...string) {
			t.Helper()
			list, err := f.list(ctx)
			var got []string
			for _, r := range list {
				got = append(got, r.Node+" "+r.Kind+" "+r.Problem)
			}
			if err != nil || fmt.Sprint(got) != fmt.Sprint(problems) {
				t.Errorf("%q, %v, want %q", got, err, problems)
			}
		}
		want(one, "one publish gap", "two subscribe denied", "one publish gap") // the other one is not stored
		if logs.Len() != 1 || logs.All()[0].ContextMap()["event"] != "refusals_failed" {
			t.Errorf("logged %v", logs.All())
		}
		store.broken.Store(false)
		time.Sleep(2 * refusalsEvery)
		want(one, "one publish gap", "two subscribe not-verified", "two subscribe denied", "one publish gap")
		want(two, "one publish gap", "two subscribe not-verified", "two subscribe denied", "one publish gap")
		if list, _ := one.list(ctx); list[3].Detail != "it leaves out an hour" || list[3].Status != 409 || list[3].Requester != "192.0.2.7" || list[3].RequestID != "r1" {
			t.Errorf("%+v", list[3])
		}
		time.Sleep(refusalsFor)
		want(one)
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

// slowNotebook is a notebook whose notes take a while.
type slowNotebook struct {
	journal.Notebook
	meanwhile func()
}

func (n *slowNotebook) Note(ctx context.Context, texts ...[]byte) error {
	n.meanwhile()
	defer n.meanwhile()
	return n.Notebook.Note(ctx, texts...)
}

// A refusal is listed while it is being stored, and only once.
func TestRefusalsAreListedWhileTheyAreStored(t *testing.T) {
	store := &slowNotebook{Notebook: storetest.NewMemory()}
	f := newRefusals("one", func() journal.Notebook { return store }, knowsOne, zap.NewNop())
	looks := 0
	look := func() {
		looks++
		if list, err := f.list(t.Context()); err != nil || len(list) != 1 {
			t.Errorf("look %d: %v %v", looks, list, err)
		}
	}
	store.meanwhile = look
	f.request(publishRefused("192.0.2.7", "https://example.org/t"))
	look()
	if err := f.flush(t.Context()); err != nil {
		t.Error(err)
	}
	look()
	if looks != 4 {
		t.Errorf("%d looks", looks)
	}
}

// One requester cannot push out the refusals of others, nor can many strangers those of
// publishers that are known (invariant 12).
func TestRefusalsOfStrangersAreBounded(t *testing.T) {
	store := storetest.NewMemory()
	f := newRefusals("one", func() journal.Notebook { return store }, knowsOne, zap.NewNop())
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f.now = func() time.Time { return now }
	for range 1000 {
		f.request(publishRefused("192.0.2.7", "https://example.org/t"))
	}
	if len(f.waiting) != eachBurst {
		t.Fatalf("%d of one requester", len(f.waiting))
	}
	now = now.Add(eachEvery)
	f.request(publishRefused("192.0.2.7", "https://example.org/t"))
	var last struct {
		LeftOut int `json:"left_out"`
	}
	if err := json.Unmarshal(f.waiting[eachBurst], &last); err != nil || last.LeftOut != 1000-eachBurst {
		t.Errorf("%d were left out: %v", last.LeftOut, err)
	}
	for n := range 100_000 {
		f.request(publishRefused(fmt.Sprint("stranger ", n), "https://example.org/t"))
		if n%100 == 0 {
			if err := f.flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	known := publishRefused("198.51.100.1", "https://example.org/known")
	known.Publisher = "library"
	f.request(known)
	if err := f.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	list, err := f.list(t.Context())
	if err != nil || len(list) > allBurst+2 || list[0].Publisher != "library" {
		t.Errorf("%d are kept, the latest %+v: %v", len(list), list[0], err)
	}
	leftOut := 0
	for _, r := range list {
		leftOut += r.LeftOutOfAll
	}
	if all := 1000 + 1 + 100_000 + 1; leftOut != all-len(list) {
		t.Errorf("%d are kept of %d, and %d left out", len(list), all, leftOut)
	}
	if f.each.Len() > maxRequesters {
		t.Errorf("%d requesters", f.each.Len())
	}
}

// The list can be asked for each kind of request that a hub refuses.
func TestKindsOfRefusals(t *testing.T) {
	for _, kind := range []string{hub.EventPublish, hub.EventPing, hub.EventFetch, hub.EventSubscribe, hub.EventUnsubscribe, hub.EventRead, hub.EventPost} {
		if !slices.Contains(admin.RefusalKinds, kind) {
			t.Errorf("%q is not one of %v", kind, admin.RefusalKinds)
		}
	}
}

// What subscriptions report is listed by what came of a request. The notice of an end is not
// listed: nobody asked for anything.
func TestRefusedRequestsOfSubscribers(t *testing.T) {
	for _, tc := range []struct {
		e    subscriptions.Event
		want string
	}{
		{subscriptions.Event{Name: subscriptions.EventDenied, Mode: websub.ModeSubscribe, Status: 200}, "subscribe denied"},
		{subscriptions.Event{Name: subscriptions.EventDropped, Mode: websub.ModeSubscribe}, "subscribe not-verified"},
		{subscriptions.Event{Name: subscriptions.EventDropped, Mode: websub.ModeUnsubscribe}, "unsubscribe not-verified"},
		{subscriptions.Event{Name: subscriptions.EventDropped, Mode: websub.ModeUnsubscribe, Status: 200}, "unsubscribe no-subscription"},
		{subscriptions.Event{Name: subscriptions.EventDenied, Mode: websub.ModeDenied, Status: 200}, ""},
		{subscriptions.Event{Name: subscriptions.EventDropped, Mode: websub.ModeDenied}, ""},
		{subscriptions.Event{Name: subscriptions.EventFailed, Mode: websub.ModeSubscribe}, ""},
	} {
		f := newRefusals("one", func() journal.Notebook { return storetest.NewMemory() }, knowsOne, zap.NewNop())
		f.subscription(tc.e)
		list, err := f.list(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, r := range list {
			got += r.Kind + " " + r.Problem
		}
		if got != tc.want {
			t.Errorf("%s of %s: listed as %q, want %q", tc.e.Name, tc.e.Mode, got, tc.want)
		}
	}
}

// However many requests of strangers are refused in a day, the refusals of publishers and those about
// known topics stay. However many are refused about a known topic, those of publishers stay.
func TestNoiseForADay(t *testing.T) {
	store := storetest.NewMemory()
	f := newRefusals("one", func() journal.Notebook { return store }, knowsOne, zap.NewNop())
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f.now = func() time.Time { return now }
	has := func(what string, is func(admin.Refused) bool) {
		t.Helper()
		list, err := f.list(t.Context())
		if err != nil || !slices.ContainsFunc(list, is) {
			t.Errorf("%s is not among the %d that are kept: %v", what, len(list), err)
		}
	}
	refuse := func(requester, topic, publisher string) {
		e := publishRefused(requester, topic)
		e.Publisher = publisher
		f.request(e)
	}
	for minute := range 23 * 60 {
		for n := range 35 { // more than a store kept once for the whole hub
			refuse(fmt.Sprint("stranger ", minute, n), fmt.Sprint("https://example.net/", n), "")
		}
		if minute == 60 {
			refuse("192.0.2.1", "https://example.org/known", "")
			refuse("192.0.2.2", "https://example.org/other", "library")
		}
		if minute > 60 { // somebody knows a topic
			refuse(fmt.Sprint("stranger ", minute), "https://example.org/known", "")
		}
		if err := f.flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Minute)
	}
	has("what concerns a known topic", func(r admin.Refused) bool { return r.Requester == "192.0.2.1" })
	has("what a publisher did", func(r admin.Refused) bool { return r.Publisher == "library" })
	refuse("192.0.2.3", "https://example.org/other", "archive")
	has("what a publisher did just now", func(r admin.Refused) bool { return r.Publisher == "archive" })
	if most := int(groups) * (allBurst + int(refusalsFor/allEvery)); most > journal.MaxNotes {
		t.Errorf("%d of one hub in a day do not fit into %d", most, journal.MaxNotes)
	}
}
