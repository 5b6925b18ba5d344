package admin

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap/zapcore"

	"github.com/rshub/rshub/subscriptions"
)

// choosy is a Control that records what it retries, and refuses some.
type choosy struct {
	*controlled
	mu     sync.Mutex
	done   map[uuid.UUID]int
	refuse map[uuid.UUID]error
}

func (c *choosy) Retry(_ context.Context, id uuid.UUID) (subscriptions.Record, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.refuse[id]; err != nil {
		return subscriptions.Record{}, err
	}
	c.done[id]++
	return subscriptions.Record{}, nil
}

// One call does the same with all that its filter selects, and skips those that it means
// nothing for.
func TestManyAtOnce(t *testing.T) {
	l := newTabled(Options{})
	c := &choosy{controlled: l.controlled, done: map[uuid.UUID]int{}, refuse: map[uuid.UUID]error{}}
	l.api.Control = func() Control { return c }
	var ids []uuid.UUID
	for i := range 600 {
		callback := fmt.Sprintf("https://many.example/%d", i)
		ids = append(ids, subscriptions.ID(theTopic, callback))
		l.m.addRecord(subscriptions.Record{Subscription: &subscriptions.Subscription{
			ID: ids[i], Topic: theTopic, Callback: callback, ExpiresAt: noon.Add(time.Hour),
		}})
	}
	c.refuse[ids[3]], c.refuse[ids[4]] = fmt.Errorf("wrapped: %w", subscriptions.ErrEnded), subscriptions.ErrUnchanged
	call := func(query, body string) (answer, string) {
		t.Helper()
		l.body = body
		return l.ask(t, http.MethodPost, "/api/v1/subscriptions"+query)
	}
	resp, body := l.ask(t, http.MethodGet, "/api/v1/subscriptions/count?host=many.example")
	if m := decodeBody[Many](t, body); resp.status != 200 || m != (Many{Matched: 600}) || len(c.done) != 0 {
		t.Errorf("counted: %d %s, %d done", resp.status, body, len(c.done))
	}
	// In a hurry, it is counted in parts: none is missed, none is counted twice.
	counted, parts := 0, 0
	for after := ""; (parts == 0 || after != "") && parts < 1000; parts++ {
		r := httptest.NewRequestWithContext(Hurried(t.Context(), time.Time{}), http.MethodGet, "/api/v1/subscriptions/count?host=many.example&after="+after, http.NoBody)
		r.Host = "localhost:8081"
		w := httptest.NewRecorder()
		l.api.handler().ServeHTTP(w, r)
		m := decodeBody[Many](t, w.Body.String())
		counted, after = counted+m.Matched, m.Next
		if want := map[bool]int{false: http.StatusOK, true: http.StatusAccepted}[after != ""]; w.Code != want {
			t.Fatalf("part %d: %d %s, want %d", parts, w.Code, w.Body, want)
		}
	}
	if counted != 600 || parts < 600 {
		t.Errorf("%d were counted in %d parts", counted, parts)
	}
	for _, query := range []string{"?host=", "?topic=&host=many.example", "?state="} {
		if resp, body := call(query, `{"action": "retry"}`); resp.status != http.StatusBadRequest || !strings.Contains(body, "= is empty") || len(c.done) > 0 {
			t.Errorf("%s: %d %s, %d done", query, resp.status, body, len(c.done))
		}
	}
	l.logs.TakeAll()
	resp, body = call("?host=many.example", `{"action": "retry"}`)
	if m := decodeBody[Many](t, body); resp.status != 200 || m != (Many{Matched: 600, Done: 598, Skipped: 2}) || len(c.done) != 598 {
		t.Errorf("retried: %d %s, %d done", resp.status, body, len(c.done))
	}
	l.line(t, zapcore.InfoLevel, map[string]any{"action": "many", "selected": "retry host=many.example: 598 done, 2 skipped because there was nothing to do: they ended, were never verified, are paused, or are like that already", "who": "local"})
	// From the middle on.
	resp, body = call("?host=many.example&after=80000000-0000-0000-0000-000000000000", `{"action": "retry"}`)
	if m := decodeBody[Many](t, body); resp.status != 200 || m.Done < 200 || m.Done > 400 {
		t.Errorf("half of them: %d %s", resp.status, body)
	}
	slices.SortFunc(ids, func(a, b uuid.UUID) int {
		return cmp.Or(cmp.Compare(subscriptions.Shard(a), subscriptions.Shard(b)), bytes.Compare(a[:], b[:]))
	})
	// One that fails keeps no other back, and is counted.
	clear(c.done)
	c.refuse = map[uuid.UUID]error{ids[batch+50]: errors.New("it is damaged")}
	resp, body = call("?host=many.example", `{"action": "retry"}`)
	m := decodeBody[Many](t, body)
	if resp.status != http.StatusOK || m.Failed != 1 || m.Done != 599 || m.Next != "" || !strings.Contains(m.Error, "it is damaged") {
		t.Errorf("with one that fails: %d %s", resp.status, body)
	}
	if text := m.String(); !strings.Contains(text, "599 done, 1 failed: ") || !strings.Contains(text, "it is damaged") {
		t.Errorf("the log says %q", text)
	}
	// If nothing works any more, the next call continues where that began.
	clear(c.done)
	for _, id := range ids[batch:] {
		c.refuse[id] = errors.New("the store is away")
	}
	resp, body = call("?host=many.example", `{"action": "retry"}`)
	m = decodeBody[Many](t, body)
	if resp.status != http.StatusAccepted || m.Next != ids[batch-1].String() || !strings.Contains(m.Error, "the store is away") || m.Done != batch {
		t.Errorf("a store that goes away: %d %s, want next %v", resp.status, body, ids[batch-1])
	}
	resp, body = call("?host=many.example&after="+m.Next, `{"action": "retry"}`)
	wantProblem(t, resp, body, http.StatusServiceUnavailable, "the store is away")
	c.refuse = nil
	resp, body = call("?host=many.example&after="+m.Next, `{"action": "retry"}`)
	if again := decodeBody[Many](t, body); resp.status != 200 || len(c.done) != 600 || again.Done != 600-batch {
		t.Errorf("the rest: %d %s, %d done in all", resp.status, body, len(c.done))
	}
	c.refuse = map[uuid.UUID]error{}
	for _, id := range ids {
		c.refuse[id] = errors.New("the store is away")
	}
	resp, body = call("?host=many.example", `{"action": "retry"}`)
	wantProblem(t, resp, body, http.StatusServiceUnavailable, "the store is away")
	for _, tc := range [][2]string{
		{"", `{}`},
		{"", `{"action": "explode"}`},
		{"", `{"action": "replay"}`},
		{"", `{"action": "retry", "since": "2026-01-31T00:00:00Z"}`},
		{"", `{"action": "retry", "action": "retry"}`},
		{"", `{"action": "retry", "more": 1}`},
		{"", `{"action": 1}`},
		{"?state=odd", `{"action": "retry"}`},
		{"?after=odd", `{"action": "retry"}`},
		{"?limit=5", `{"action": "retry"}`},
	} {
		resp, body := call(tc[0], tc[1])
		wantProblem(t, resp, body, http.StatusBadRequest, "")
	}
}

// slow is a Control that needs some time for each subscription.
type slow struct {
	*choosy
	each time.Duration
}

func (c *slow) Retry(ctx context.Context, id uuid.UUID) (subscriptions.Record, error) {
	time.Sleep(c.each)
	return c.choosy.Retry(ctx, id)
}

// If the store is slow with each subscription, a call ends in its time. The next call continues
// after the last one that was done. None is done twice.
func TestManyEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, m := context.Background(), &memory{}
		a := &subscriptionCalls{&Options{Subscriptions: m, Now: time.Now}}
		for i := range 600 {
			callback := fmt.Sprintf("https://many.example/%d", i)
			m.addRecord(subscriptions.Record{Subscription: &subscriptions.Subscription{
				ID: subscriptions.ID(theTopic, callback), Topic: theTopic, Callback: callback, ExpiresAt: time.Now().Add(time.Hour),
			}})
		}
		c := &slow{&choosy{done: map[uuid.UUID]int{}}, 3 * time.Second}
		calls, sum, after := 0, Many{}, uuid.Nil
		for more := true; more; calls++ {
			one := &changer{do: manyActions["retry"](c, time.Time{})}
			begun := time.Now()
			if err := a.walkMany(ctx, one, filter{}, after); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun); took > manyTime+2*c.each { // one begins when the one before it ends
				t.Errorf("a call took %v", took)
			}
			sum.Matched, sum.Done = sum.Matched+one.Matched, sum.Done+one.Done
			if more = one.Next != ""; more {
				after = uuid.MustParse(one.Next)
			}
		}
		if calls < 3 || sum != (Many{Matched: 600, Done: 600}) || len(c.done) != 600 {
			t.Errorf("%d calls: %+v, %d done", calls, sum, len(c.done))
		}
		for id, n := range c.done {
			if n != 1 {
				t.Errorf("%v was done %d times", id, n)
			}
		}
	})
}
