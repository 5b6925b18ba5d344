package subscriber_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber"
	"github.com/rshub/rshub/websub"
)

// world is a Source, a hub and a callback server on loopback, of which a test
// decides what they say.
type world struct {
	*httptest.Server
	t    *testing.T
	sub  *subscriber.Subscriber
	from time.Time

	mu       sync.Mutex
	asked    []url.Values // forms that the hub got
	all      []resourcesync.Entry
	pushed   []string // callbacks
	listFrom time.Time
	listOff  bool // the Change List can't be had
}

func newWorld(t *testing.T, o subscriber.Options) *world {
	w := &world{t: t, from: time.Now().Add(-time.Hour).Truncate(time.Second)}
	mux := http.NewServeMux()
	w.Server = httptest.NewServer(mux)
	t.Cleanup(w.Close)
	mux.HandleFunc("/topic", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Add("Link", fmt.Sprintf(`<%s/topic>; rel="self", </hub>; rel="hub", </caplist>; rel="resourcesync"`, w.URL))
	})
	mux.HandleFunc("/hub", w.hub)
	mux.HandleFunc("/caplist", func(rw http.ResponseWriter, _ *http.Request) {
		w.document(rw, resourcesync.Head{Capability: resourcesync.CapabilityList, Links: []resourcesync.Link{{Rel: "up", Href: w.URL + "/wk"}}},
			resourcesync.Entry{Loc: w.URL + "/changes", Capability: resourcesync.ChangeList},
			resourcesync.Entry{Loc: w.URL + "/topic", Capability: resourcesync.ChangeNotification, Links: []resourcesync.Link{{Rel: "hub", Href: w.URL + "/hub"}}})
	})
	mux.HandleFunc("/changes", func(rw http.ResponseWriter, _ *http.Request) {
		w.mu.Lock()
		all, from, off := w.all, w.listFrom, w.listOff
		w.mu.Unlock()
		if off {
			http.Error(rw, "away", http.StatusServiceUnavailable)
			return
		}
		if from.IsZero() {
			from = w.from
		}
		w.document(rw, resourcesync.Head{Capability: resourcesync.ChangeList, From: from, Links: []resourcesync.Link{{Rel: "up", Href: w.URL + "/caplist"}}}, all...)
	})
	mux.HandleFunc("/cb/", func(rw http.ResponseWriter, r *http.Request) { w.sub.Handler().ServeHTTP(rw, r) })

	o.Topic, o.Callback, o.Allow = w.URL+"/topic", w.URL+"/cb/", egress.DevAllow()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	var err error
	if w.sub, err = subscriber.Open(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.sub.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = w.sub.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

func (w *world) document(rw http.ResponseWriter, h resourcesync.Head, entries ...resourcesync.Entry) {
	rw.Header().Set("Content-Type", "application/xml")
	out, err := resourcesync.NewWriter(rw, h, resourcesync.WriteOptions{})
	if err != nil {
		w.t.Error(err)
		return
	}
	for _, e := range entries {
		if err := out.Write(e); err != nil {
			w.t.Error(err)
		}
	}
	if err := out.Close(); err != nil {
		w.t.Error(err)
	}
}

// hub verifies what it is asked for at once.
func (w *world) hub(rw http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	w.mu.Lock()
	w.asked = append(w.asked, r.PostForm)
	w.mu.Unlock()
	callback := r.PostForm.Get(websub.ParamCallback)
	rw.WriteHeader(http.StatusAccepted)
	go func() { //nolint:contextcheck // it outlives the request
		req, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, websub.AppendQuery(callback, websub.Param{Name: websub.ParamMode, Value: r.PostForm.Get(websub.ParamMode)},
			websub.Param{Name: websub.ParamTopic, Value: r.PostForm.Get(websub.ParamTopic)},
			websub.Param{Name: websub.ParamChallenge, Value: "abc"}, websub.Param{Name: websub.ParamLeaseSeconds, Value: "3600"}), nil)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			w.mu.Lock()
			w.pushed = append(w.pushed, callback)
			w.mu.Unlock()
		}
	}()
}

func (w *world) at(s float64) time.Time { return w.from.Add(time.Duration(s * float64(time.Second))) }

// change adds a change to the Source at a second.
func (w *world) change(s float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, resourcesync.Entry{Loc: fmt.Sprintf("%s/r/%g", w.URL, s), Change: resourcesync.Updated, Datetime: w.at(s)})
}

// push delivers the notification of [from, until) and returns the answer.
func (w *world) push(from, until float64) int {
	w.t.Helper()
	w.mu.Lock()
	var in []resourcesync.Entry
	for _, e := range w.all {
		if !e.Datetime.Before(w.at(from)) && e.Datetime.Before(w.at(until)) {
			in = append(in, e)
		}
	}
	secret, callback := w.asked[0].Get(websub.ParamSecret), w.pushed[0]
	w.mu.Unlock()
	var body bytes.Buffer
	out, err := resourcesync.NewWriter(&body, resourcesync.Head{Capability: resourcesync.ChangeNotification, From: w.at(from), Until: w.at(until)}, resourcesync.WriteOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range in {
		if err := out.Write(e); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		w.t.Fatal(err)
	}
	req, _ := http.NewRequestWithContext(w.t.Context(), http.MethodPost, callback, bytes.NewReader(body.Bytes()))
	req.Header.Set("Content-Type", "application/xml")
	req.Header.Set(websub.HeaderSignature, websub.SHA256.Sign(secret, body.Bytes()))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

func (w *world) subscribed() {
	w.t.Helper()
	w.until("the subscription", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.pushed) > 0 })
}

func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			st, _ := w.sub.Status()
			w.t.Fatalf("waited in vain for %s: %+v", what, st)
		}
	}
}

// want takes n changes from the stream, commits them, and compares their seconds.
func (w *world) want(seconds ...float64) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	if len(seconds) == 0 {
		return
	}
	i := 0
	for c := range w.sub.Changes(ctx) {
		if want := fmt.Sprintf("%s/r/%g", w.URL, seconds[i]); c.Loc != want {
			w.t.Errorf("change %d is %q, want %q (%+v)", i, c.Loc, want, c)
		}
		if err := w.sub.Commit(c.Cursor); err != nil {
			w.t.Fatal(err)
		}
		if i++; i == len(seconds) {
			return
		}
	}
	w.t.Fatalf("the stream ended after %d changes: %v", i, w.sub.Err())
}

func TestStream(t *testing.T) {
	w := newWorld(t, subscriber.Options{HoldFor: time.Hour})
	w.subscribed()
	w.change(1)
	if got := w.push(0, 2); got != http.StatusNoContent {
		t.Fatal(got)
	}
	w.want(1)
	w.change(3)
	w.change(5)
	w.push(4, 6) // early
	w.push(2, 4)
	w.push(2, 4) // again
	w.want(3, 5)
	st, err := w.sub.Status()
	if err != nil || len(st.Gaps) != 0 || st.Counts.Duplicates != 1 {
		t.Errorf("%v %+v", err, st)
	}
}

func TestStreamWithAGap(t *testing.T) {
	w := newWorld(t, subscriber.Options{HoldFor: 100 * time.Millisecond})
	w.subscribed()
	w.change(1)
	w.push(0, 2)
	w.want(1)
	w.change(3)
	w.change(5)
	w.push(4, 6) // 2 to 4 never comes
	w.want(3, 5)
	st, err := w.sub.Status()
	if err != nil || len(st.Gaps) != 1 || st.Gaps[0].State != subscriber.GapRepaired {
		t.Errorf("%v %+v", err, st)
	}
}

func TestNeedsBaseline(t *testing.T) {
	w := newWorld(t, subscriber.Options{HoldFor: 50 * time.Millisecond})
	w.subscribed()
	w.change(1)
	w.push(0, 2)
	w.want(1)
	w.mu.Lock()
	w.listFrom, w.all = w.at(10), nil
	w.mu.Unlock()
	w.change(21)
	w.push(20, 22)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for c := range w.sub.Changes(ctx) {
		if !c.NeedsBaseline || !c.From.Equal(w.at(2)) || !c.Until.Equal(w.at(10)) {
			t.Errorf("%+v", c)
		}
		if err := w.sub.Commit(c.Cursor); err != nil {
			t.Fatal(err)
		}
		break
	}
	w.want(21)
}
