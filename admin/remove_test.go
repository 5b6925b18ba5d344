package admin

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap/zapcore"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// A topic that somebody gets is refused with how many they are, and force has them
// ended first.
func TestRemove(t *testing.T) {
	l := newTabled(Options{})
	path := "/api/v1/topics/" + l.topic
	for i, callback := range []string{"https://s.example/ended", "https://s.example/lapsed", "https://s.example/pending", "https://s.example/other"} {
		s := &subscriptions.Subscription{ID: subscriptions.ID(theTopic, callback), Topic: theTopic, Callback: callback, ExpiresAt: noon.Add(time.Hour)}
		rec := subscriptions.Record{Subscription: s}
		switch i {
		case 0:
			s.EndedAt = noon
		case 1:
			s.ExpiresAt = noon
		case 2:
			rec = subscriptions.Record{Request: &subscriptions.Request{Mode: "subscribe", Topic: theTopic, Callback: callback}}
		case 3:
			s.Topic, s.ID = theTopic+"/other", subscriptions.ID(theTopic+"/other", callback)
		}
		l.m.addRecord(rec)
	}
	for _, query := range []string{"?", "?force=false"} {
		resp, body := l.ask(t, http.MethodDelete, path+query)
		wantProblem(t, resp, body, http.StatusConflict, "subscriptions: 1.")
		l.line(t, zapcore.InfoLevel, map[string]any{"action": "remove", "topic": theTopic, "outcome": "refused", "status": int64(409)})
	}
	resp, body := l.ask(t, http.MethodDelete, path+"?force=yes")
	wantProblem(t, resp, body, http.StatusBadRequest, "force=yes")
	if l.calls.Load() != 0 || l.m.removed.Load() != 0 {
		t.Fatal("it was done all the same")
	}
	l.logs.TakeAll()

	resp, body = l.ask(t, http.MethodDelete, path+"?force=true")
	want := Removal{ID: l.topic, URL: theTopic, Removed: true, Ended: 1}
	if got := decodeBody[Removal](t, body); resp.status != 200 || got != want || l.end != "removed: "+removedNotice || l.m.removed.Load() != 1 {
		t.Errorf("%d %+v, ended as %q, removed %d times", resp.status, got, l.end, l.m.removed.Load())
	}
	l.line(t, zapcore.InfoLevel, map[string]any{"action": "remove", "topic": theTopic, "outcome": "done", "status": int64(200)})

	// The hub need not look for subscriptions that it counts itself.
	l.api.Subscribers = func(string) (int, bool) { return 7, true }
	resp, body = l.ask(t, http.MethodDelete, path+"?")
	wantProblem(t, resp, body, http.StatusConflict, "subscriptions: 7.")
}

// endless is a Service that ends a few subscriptions, and then needs a long time.
type endless struct {
	*controlled
	quick int64
}

func (e endless) End(ctx context.Context, id uuid.UUID, reason, notice string) error {
	if e.controlled.calls.Load() >= e.quick {
		<-ctx.Done()
		return ctx.Err()
	}
	return e.controlled.End(ctx, id, reason, notice)
}

// A call begins a removal that is too large for it, and further calls continue it.
func TestRemovalOfMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTabled(Options{})
		for _, callback := range []string{"https://s.example/2", "https://s.example/3"} {
			l.m.addRecord(subscriptions.Record{Subscription: &subscriptions.Subscription{
				ID: subscriptions.ID(theTopic, callback), Topic: theTopic, Callback: callback, ExpiresAt: noon.Add(time.Hour),
			}})
		}
		slow := endless{l.controlled, 1}
		l.api.Control = func() Control { return slow }
		resp, body := l.ask(t, http.MethodDelete, "/api/v1/topics/"+l.topic+"?force=true")
		if got := decodeBody[Removal](t, body); resp.status != 202 || got.Removed || got.Ended > 3 || l.m.removed.Load() != 0 {
			t.Errorf("%d %+v, removed %d times", resp.status, got, l.m.removed.Load())
		}
		l.line(t, zapcore.InfoLevel, map[string]any{"action": "remove", "topic": theTopic, "outcome": "begun", "status": int64(202)})
	})
}

// Over the real parts: the notifications that a failing subscriber did not get become one gap, its
// callback is informed, the topic is not shown any more, and its next notification may start at any
// time. A subscription whose lease had run out continues after the removal, over a gap, when it is
// renewed.
func TestRemovingATopic(t *testing.T) {
	r := newReal(t)
	path := "/topics/" + journal.TopicID(theTopic).String()
	call[Problem](r, 404, "DELETE", path, "")
	r.publish(1)
	rcv, late := &receiver{}, &receiver{up: true}
	server, lateServer := httptest.NewServer(rcv), httptest.NewServer(late)
	defer server.Close()
	defer lateServer.Close()
	sub, lapsed := "/subscriptions/"+r.subscribe(server.URL+"/cb"), r.subscribeFor(lateServer.URL+"/cb", -time.Hour)
	two, _, last := r.publish(2), r.publish(3), r.publish(4)
	r.until("it fails", func() bool { return call[Subscription](r, 200, "GET", sub, "").State == "failing" })

	call[Problem](r, 409, "DELETE", path, "")
	if n := call[Topic](r, 200, "GET", path, "").Retained.Entries; n != 4 {
		t.Errorf("%d entries are left after a refusal", n)
	}
	if got := call[Removal](r, 200, "DELETE", path+"?force=true", "{}"); got.Ended != 1 || !got.Removed {
		t.Errorf("%+v", got)
	}
	r.until("the callback is told", func() bool {
		rcv.mu.Lock()
		defer rcv.mu.Unlock()
		return rcv.denied == removedNotice
	})
	gaps := call[Page[Gap]](r, 200, "GET", sub+"/gaps", "").Items
	if len(gaps) != 1 || gaps[0].Reason != journal.GapRemoved || gaps[0].Count != 3 || !gaps[0].Until.Equal(last.Until) {
		t.Errorf("%+v", gaps)
	}
	for _, call := range []func(){
		func() { call[Problem](r, 404, "GET", path, "") },
		func() { call[Problem](r, 404, "DELETE", path, "") },
		func() { call[Problem](r, 404, "POST", path+"/reset", "") },
		func() { call[Problem](r, 404, "GET", path+"/notifications", "") },
		func() { call[Problem](r, 404, "GET", "/notifications/"+two.ID.String(), "") },
	} {
		call()
	}
	if items := call[Page[Topic]](r, 200, "GET", "/topics", "").Items; len(items) != 0 {
		t.Errorf("%+v", items)
	}

	// A ping brings it back, as a topic that had no notification yet.
	if err := r.store.Ping(t.Context(), time.Now(), []string{theTopic}); err != nil {
		t.Fatal(err)
	}
	if topic := call[Topic](r, 200, "GET", path, ""); topic.Head != (Head{}) || topic.Fetch == nil || topic.Kind != "" {
		t.Errorf("%+v", topic)
	}

	r.publish(100)
	r.takeUp(lapsed)
	// The notifications that delivery has in memory may still be sent: what the failing subscriber was sent, and one more.
	// The others are its gap.
	var got []string
	r.until("it goes on", func() bool {
		late.does(func() { got = slices.Clone(late.got) })
		return slices.Contains(got, "100")
	})
	r.until("its gap is stored", func() bool { // before that, the gap is of all that it lacks
		s := call[Subscription](r, 200, "GET", "/subscriptions/"+lapsed, "")
		return s.Gaps > 0 && s.Lag.Lost == 0
	})
	gaps = call[Page[Gap]](r, 200, "GET", "/subscriptions/"+lapsed+"/gaps", "").Items
	if len(gaps) != 1 || gaps[0].Reason != journal.GapRemoved || gaps[0].Count+uint64(len(got)) != 4 {
		t.Errorf("it got %q, and its gaps are %+v", got, gaps)
	}
	if topic := call[Topic](r, 200, "GET", path, ""); topic.Head.Seq != 5 || len(topic.Gaps) != 0 {
		t.Errorf("%+v", topic)
	}
}

// takeUp gives a subscription a lease that is in force.
func (r *real) takeUp(id string) {
	r.t.Helper()
	_, err := r.store.Update(r.t.Context(), uuid.MustParse(id), func(rec subscriptions.Record) (subscriptions.Record, error) {
		s := *rec.Subscription
		s.ExpiresAt = time.Now().Add(time.Hour)
		rec.Subscription = &s
		return rec, nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
}
