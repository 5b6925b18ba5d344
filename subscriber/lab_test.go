package subscriber

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/websub"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	labTopic = "https://source.example/topic"
	labHub   = "https://hub.example/"
	labList  = "https://source.example/changes"
	labCaps  = "https://source.example/caps"
)

// lab is a Subscriber among hosts that a test plays, within a synctest bubble:
// handlers by URL, in place of the network.
type lab struct {
	*testing.T
	o    Options
	sub  *Subscriber
	from time.Time // second 0
	stop func()

	mu       sync.Mutex
	at       map[string]http.HandlerFunc
	forms    []url.Values // what hubs were asked
	asked    []time.Time  // when
	lease    int          // that hubs give, in seconds; 0: they do not verify
	all      []resourcesync.Entry
	head     resourcesync.Head // of the Change List
	modified bool              // the Change List says when it was
}

// newLab runs a Subscriber as a test wants it, with a topic, a hub and a Change List.
func newLab(t *testing.T, change ...func(*lab)) *lab {
	l := &lab{T: t, from: time.Now().Add(-time.Hour).Truncate(time.Second), modified: true, lease: 10 * 24 * 3600, at: map[string]http.HandlerFunc{}}
	l.o = Options{Dir: t.TempDir(), Topic: labTopic, Callback: "https://me.example/cb", Client: l, CheckEvery: -1}
	l.head = resourcesync.Head{Capability: resourcesync.ChangeList, From: l.from.Add(-time.Hour)}
	l.page(labTopic, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", `<`+labTopic+`>; rel="self", <`+labHub+`>; rel="hub", <`+labCaps+`>; rel="resourcesync"`)
	})
	l.page(labHub, l.hub)
	l.page(labCaps, func(w http.ResponseWriter, _ *http.Request) {
		l.write(w, resourcesync.Head{Capability: resourcesync.CapabilityList},
			resourcesync.Entry{Loc: labList, Capability: resourcesync.ChangeList}, resourcesync.Entry{Loc: labTopic, Capability: resourcesync.ChangeNotification, Links: []resourcesync.Link{{Rel: "hub", Href: labHub}}})
	})
	l.page(labList, func(w http.ResponseWriter, _ *http.Request) {
		l.mu.Lock()
		head, all := l.head, append([]resourcesync.Entry(nil), l.all...)
		modified := l.modified
		l.mu.Unlock()
		if modified {
			w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		}
		l.write(w, head, all...)
	})
	for _, c := range change {
		c(l)
	}
	l.start()
	t.Cleanup(func() { l.end() })
	return l
}

func (l *lab) start() {
	l.Helper()
	var err error
	if l.sub, err = Open(l.o); err != nil {
		l.Fatal(err)
	}
	l.sub.inbox.db.InterceptSync(func(string, func() error) error { return nil }) // what is written can be read; more is not asked of it here
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = l.sub.Run(ctx) }()
	l.stop = func() { cancel(); <-done }
	synctest.Wait()
}

// end ends the Subscriber as a program does that is told to.
func (l *lab) end() {
	if l.sub == nil {
		return
	}
	l.stop()
	if err := l.sub.Close(); err != nil {
		l.Error(err)
	}
	l.sub = nil
}

func (l *lab) restart() { l.end(); l.start() }

func (l *lab) page(url string, h http.HandlerFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at[url] = h
}

// Do implements Doer.
func (l *lab) Do(r *http.Request) (*http.Response, error) {
	l.mu.Lock()
	h := l.at[r.URL.String()]
	l.mu.Unlock()
	if h == nil {
		return nil, fmt.Errorf("nobody is at %s", r.URL)
	}
	w := httptest.NewRecorder()
	h(w, r)
	return w.Result(), nil
}

// hub accepts anything, and verifies it a second later.
func (l *lab) hub(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	l.mu.Lock()
	l.forms, l.asked = append(l.forms, r.PostForm), append(l.asked, time.Now())
	lease := l.lease
	l.mu.Unlock()
	w.WriteHeader(http.StatusAccepted)
	if lease == 0 {
		return
	}
	sub := l.sub
	time.AfterFunc(time.Second, func() { //nolint:contextcheck // it outlives the request
		w := l.get(sub, r.PostForm.Get(websub.ParamCallback), r.PostForm.Get(websub.ParamMode), r.PostForm.Get(websub.ParamTopic), "abc", lease)
		if w.Code != http.StatusOK || w.Body.String() != "abc" {
			l.Errorf("a verification was answered %d %q", w.Code, w.Body)
		}
	})
}

// get asks a callback for a verification.
func (l *lab) get(sub *Subscriber, callback, mode, topic, challenge string, lease int) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	sub.Handler().ServeHTTP(w, httptest.NewRequestWithContext(l.Context(), http.MethodGet, websub.AppendQuery(callback, websub.Param{Name: websub.ParamMode, Value: mode},
		websub.Param{Name: websub.ParamTopic, Value: topic}, websub.Param{Name: websub.ParamChallenge, Value: challenge},
		websub.Param{Name: websub.ParamLeaseSeconds, Value: strconv.Itoa(lease)}), nil))
	return w
}

func (l *lab) form(i int) url.Values {
	l.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if i < 0 {
		i += len(l.forms)
	}
	if i < 0 || i >= len(l.forms) {
		l.Fatalf("there is no request %d to a hub, but %d", i, len(l.forms))
	}
	return l.forms[i]
}

func (l *lab) requests() int { l.mu.Lock(); defer l.mu.Unlock(); return len(l.forms) }

func (l *lab) write(w io.Writer, h resourcesync.Head, entries ...resourcesync.Entry) {
	if h.Links == nil && h.Capability != resourcesync.ChangeNotification {
		h.Links = []resourcesync.Link{{Rel: "up", Href: "https://source.example/up"}}
	}
	out, err := resourcesync.NewWriter(w, h, resourcesync.WriteOptions{})
	for _, e := range entries {
		if err == nil {
			err = out.Write(e)
		}
	}
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		l.Error(err)
	}
}

func (l *lab) second(s float64) time.Time { return l.from.Add(time.Duration(s * float64(time.Second))) }

// change is a change at a second, and seconds are many.
func (l *lab) change(s float64) resourcesync.Entry {
	return resourcesync.Entry{Loc: fmt.Sprintf("https://source.example/r/%g", s), Change: resourcesync.Updated, Datetime: l.second(s)}
}

func (l *lab) changes(seconds ...float64) []resourcesync.Entry {
	var out []resourcesync.Entry
	for _, s := range seconds {
		out = append(out, l.change(s))
	}
	return out
}

// listed adds changes to the Change List.
func (l *lab) listed(seconds ...float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, l.changes(seconds...)...)
}

func (l *lab) notification(from, until float64, entries ...resourcesync.Entry) []byte {
	var body bytes.Buffer
	l.write(&body, resourcesync.Head{Capability: resourcesync.ChangeNotification, From: l.second(from), Until: l.second(until)}, entries...)
	return body.Bytes()
}

// post delivers a body to the callback of the latest request, signed.
func (l *lab) post(mediaType string, body []byte, header ...string) *httptest.ResponseRecorder {
	l.Helper()
	f := l.form(-1)
	r := httptest.NewRequestWithContext(l.Context(), http.MethodPost, f.Get(websub.ParamCallback), bytes.NewReader(body))
	r.Header.Set("Content-Type", mediaType)
	if secret := f.Get(websub.ParamSecret); secret != "" {
		r.Header.Set(websub.HeaderSignature, websub.SHA256.Sign(secret, body))
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	l.sub.Handler().ServeHTTP(w, r)
	return w
}

// push delivers the notification of an interval.
func (l *lab) push(from, until float64, seconds ...float64) int {
	l.Helper()
	return l.post("application/xml", l.notification(from, until, l.changes(seconds...)...)).Code
}

func (l *lab) pushed(from, until float64, seconds ...float64) {
	l.Helper()
	if got := l.push(from, until, seconds...); got != http.StatusNoContent {
		l.Fatalf("%g to %g was answered %d", from, until, got)
	}
}

// waiting takes what waits, commits it, and names it: seconds, a content, or
// "baseline from-until".
func (l *lab) waiting() string {
	l.Helper()
	synctest.Wait()
	var out []string
	for c := range l.sub.Waiting(context.Background()) {
		out = append(out, l.name(&c))
		if err := l.sub.Commit(c.Cursor); err != nil {
			l.Fatal(err)
		}
	}
	if err := l.sub.Err(); err != nil {
		l.Error(err)
	}
	return strings.Join(out, " ")
}

func (l *lab) name(c *Change) string {
	switch {
	case c.NeedsBaseline:
		return fmt.Sprintf("baseline %g-%g", c.From.Sub(l.from).Seconds(), c.Until.Sub(l.from).Seconds())
	case c.Content != nil:
		return string(c.Content)
	}
	return strings.TrimPrefix(c.Loc, "https://source.example/r/")
}

// want compares what waits.
func (l *lab) want(want string) {
	l.Helper()
	if got := l.waiting(); got != want {
		st := l.status()
		l.Errorf("handed on: %q, want %q (counts %+v, gaps %s, trouble %q)", got, want, st.Counts, l.gaps(), st.Trouble)
	}
}

func (l *lab) status() Status {
	l.Helper()
	st, err := l.sub.Status()
	if err != nil {
		l.Fatal(err)
	}
	return st
}

// gaps tells them in a word each.
func (l *lab) gaps() string {
	var out []string
	for _, g := range l.status().Gaps {
		out = append(out, fmt.Sprintf("%s %s %g-%g:%d", g.Why, g.State, g.From.Sub(l.from).Seconds(), g.Until.Sub(l.from).Seconds(), g.Changes))
	}
	return strings.Join(out, ", ")
}

// after lets time pass.
// asks is how often the hub was asked.
func (l *lab) asks() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.asked)
}

func (l *lab) after(d time.Duration) { time.Sleep(d); synctest.Wait() }

// subscribed runs a test of a lab that is subscribed, and has had everything up to
// second 0.
func subscribed(t *testing.T, change func(*lab), test func(*lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, func(l *lab) {
			l.o.Start = l.from
			if change != nil {
				change(l)
			}
		})
		l.after(3 * time.Second)
		if st := l.status(); len(st.Subscriptions) != 1 || st.Subscriptions[0].State != "active" {
			t.Fatalf("not subscribed: %+v", st)
		}
		test(l)
	})
}

var errAway = errors.New("away")

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errAway }

type tx = boltfile.Tx

// lastWrite is the number of the last transaction that was written.
func (l *lab) lastWrite() (id int) {
	l.Helper()
	if err := l.sub.inbox.db.View(func(tx *tx) error { id = tx.ID(); return nil }); err != nil {
		l.Error(err)
	}
	return id
}
