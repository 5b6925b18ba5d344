package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// Wherever the store fails during a read, the answer is a problem or breaks off. It never looks whole.
func TestReadsFailWithTheStore(t *testing.T) {
	l := newTabled(Options{})
	l.m.addPing(journal.PingRecord{Topic: "https://example.org/pinged", Pings: 1})
	l.m.attempts = []subscriptions.Attempt{{At: noon, Number: 1, Status: 500}}
	paths := []string{
		"topics", "topics/" + l.topic, "subscriptions", "subscriptions/count", "notifications/" + l.notification + "?count=false",
		"notifications/" + l.notification + "/subscriptions",
	}
	for _, order := range []string{"", "?order=newest", "?order=newest&after=" + l.notification} {
		paths = append(paths, "topics/"+l.topic+"/notifications"+order)
	}
	for _, what := range []string{"", "/attempts", "/gaps"} {
		paths = append(paths, "subscriptions/"+l.subscription+what)
	}
	for _, path := range paths {
		answers := func(succeed int64) (whole bool) {
			l.m.failAfter = succeed + 1 // 0 would be: it never fails
			l.m.calls.Store(1)
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/api/v1/"+path, http.NoBody)
			w := httptest.NewRecorder()
			defer func() {
				p := recover()
				if p != nil && p != http.ErrAbortHandler { //nolint:errorlint // it is that value
					panic(p)
				}
				if lines, failed := l.logs.TakeAll(), p != nil || w.Code != http.StatusOK; failed != (len(lines) == 1) {
					t.Errorf("%s with %d calls of the store: %d, broken off: %v, and the log has %v", path, succeed, w.Code, p != nil, lines)
				}
			}()
			l.api.handler().ServeHTTP(w, r)
			if w.Code == http.StatusServiceUnavailable {
				wantProblem(t, answer{path, w.Code, w.Header()}, w.Body.String(), 503, "on fire")
				return false
			}
			if w.Code != http.StatusOK || !json.Valid(w.Body.Bytes()) {
				t.Errorf("%s with %d calls of the store: %d %s", path, succeed, w.Code, w.Body)
			}
			return l.m.calls.Load() <= l.m.failAfter
		}
		n := int64(0)
		for ; !answers(n); n++ {
			if t.Failed() || n > 2000 {
				t.Fatalf("%s is not answered", path)
			}
		}
		if n == 0 {
			t.Errorf("%s does not ask the store", path)
		}
	}
}

// staleTopics has the heads of before a trim, as a call that began before it.
type staleTopics struct {
	*memory
	before journal.Head
}

func (s *staleTopics) Topics(context.Context, int, uuid.UUID, int) ([]journal.Head, error) {
	return []journal.Head{s.before}, nil
}

// A list of notifications that retention trims while it is read continues with the entries that are
// left.
func TestListWhileRetentionTrims(t *testing.T) {
	m := &memory{}
	left := m.addEntries(theTopic, 90, 10)
	before := m.heads[journal.Partition(journal.TopicID(theTopic))][0]
	before.Trimmed = journal.Anchor{}
	base := start(t, Options{Topics: &staleTopics{m, before}, Subscriptions: m}) + "/api/v1/topics/" + journal.TopicID(theTopic).String() + "/notifications?limit=100"
	for _, order := range []string{oldestFirst, newestFirst} {
		p := decode[Page[Notification]](t, base+"&order="+order)
		if len(p.Items) != len(left) || p.Next != "" {
			t.Errorf("%s: %d notifications, want %d", order, len(p.Items), len(left))
		}
	}
}

// Each action on many subscriptions is the one that is asked for.
func TestEachActionOnMany(t *testing.T) {
	for action, does := range map[string]string{"pause": "paused", "resume": "resumed", "end": subscriptions.EndRemoved + ": " + endNotice, "replay": "2026-01-31T00:00:00Z"} {
		l := newTabled(Options{})
		n := &named{controlled: l.controlled}
		l.api.Control = func() Control { return n }
		l.body = fmt.Sprintf(`{"action": %q}`, action)
		if action == "replay" {
			l.body = `{"action": "replay", "since": "2026-01-31T00:00:00Z"}`
		}
		resp, body := l.ask(t, http.MethodPost, "/api/v1/subscriptions")
		if m := decodeBody[Many](t, body); resp.status != 200 || m != (Many{Matched: 1, Done: 1}) {
			t.Errorf("%s: %d %s", action, resp.status, body)
		}
		got := n.did + l.end
		if !l.since.IsZero() {
			got += l.since.Format(time.RFC3339)
		}
		if got != does {
			t.Errorf("%s did %q, want %q", action, got, does)
		}
	}
}

// named is a Control that says what it did.
type named struct {
	*controlled
	did string
}

func (n *named) Pause(ctx context.Context, id uuid.UUID) (subscriptions.Record, error) {
	n.did = "paused"
	return n.get(ctx, id)
}

func (n *named) Resume(ctx context.Context, id uuid.UUID) (subscriptions.Record, error) {
	n.did = "resumed"
	return n.get(ctx, id)
}

// Without the count, the hub reads only the notification, which is fast with any number of
// subscriptions.
func TestNotificationWithoutItsCount(t *testing.T) {
	l := newTabled(Options{})
	path := "/api/v1/notifications/" + l.notification + "?count="
	resp, body := l.ask(t, http.MethodGet, path+"false")
	if s := decodeBody[NotificationStatus](t, body); resp.status != 200 || s.ID != l.notification || s.Topic != theTopic || !s.AsOf.IsZero() || l.m.calls.Load() != 1 {
		t.Errorf("%d %s, %d calls of the store", resp.status, body, l.m.calls.Load())
	}
	resp, body = l.ask(t, http.MethodGet, path+"perhaps")
	wantProblem(t, resp, body, 400, "neither true nor false")
}

// A topic whose notifications come faster than it can be removed stays, and the operator learns why.
func TestRemovalLosesAgainstAFastSource(t *testing.T) {
	l := newTabled(Options{})
	l.m.records = [journal.Partitions][]subscriptions.Record{}
	l.api.Topics = &movingTopics{memory: l.m}
	l.api = newAPI(l.api.Options)
	resp, body := l.ask(t, http.MethodDelete, "/api/v1/topics/"+l.topic)
	wantProblem(t, resp, body, 409, "published to so fast")
	if !strings.Contains(body, "stop its Source") {
		t.Errorf("what to do: %s", body)
	}
}

// movingTopics are topics whose head has always moved before a change of it is stored.
type movingTopics struct{ *memory }

func (*movingTopics) Remove(context.Context, string, journal.Version) error {
	return journal.ErrHeadMoved
}
