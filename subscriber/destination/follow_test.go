package destination_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/destination"
	"github.com/rshub/rshub/websub"
)

// within is more than anything here takes.
const within = 2 * time.Minute

// pushing is a Source with a hub, and a copy that follows it.
type pushing struct {
	*source
	dir      string
	events   chan destination.Event
	came     []destination.Event // that nobody asked for yet
	callback chan string         // that was subscribed and verified
	secrets  sync.Map            // by callback
	until    time.Time           // of the last notification
	copy     *destination.Copy
	end      func() // ends following, and closes the copy
	sent     int
}

// follow makes a copy that follows s, which has a Resource List and a Change List.
func follow(t testing.TB, s *source) *pushing {
	return followWith(t, s, []string{resourcesync.ResourceList, resourcesync.ChangeList}, nil)
}

// followWith makes a copy that follows s, whose Capability List names these documents, a
// channel and its hub. Change may alter the options.
func followWith(t testing.TB, s *source, offers []string, change func(*destination.Options)) *pushing {
	return followIn(t, s, t.TempDir(), offers, change)
}

// followIn is followWith with a folder of the copy.
func followIn(t testing.TB, s *source, dir string, offers []string, change func(*destination.Options)) *pushing {
	p := &pushing{source: s, dir: dir, events: make(chan destination.Event, 1000), callback: make(chan string, 10), until: s.at}
	hub := httptest.NewServer(http.HandlerFunc(p.hub))
	t.Cleanup(hub.Close)
	up := []resourcesync.Link{{Rel: "up", Href: s.URL + "/.well-known/resourcesync"}}
	s.set("/capabilitylist.xml", func(w http.ResponseWriter, _ *http.Request) {
		var entries []resourcesync.Entry
		for _, o := range offers {
			entries = append(entries, resourcesync.Entry{Loc: s.URL + "/" + o + ".xml", Capability: o})
		}
		s.write(w, resourcesync.Head{Capability: resourcesync.CapabilityList, Links: up}, append(entries,
			resourcesync.Entry{Loc: s.URL + "/changes/", Capability: resourcesync.ChangeNotification, Links: []resourcesync.Link{{Rel: "hub", Href: hub.URL}}})...)
	})
	s.set("/changes/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", `<`+s.URL+`/changes/>; rel="self", <`+hub.URL+`>; rel="hub"`)
	})
	var handler atomic.Pointer[http.Handler]
	me := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*handler.Load()).ServeHTTP(w, r) }))
	t.Cleanup(me.Close)
	c := s.open(p.dir, func(o *destination.Options) {
		o.Callback, o.CheckEvery, o.Event = me.URL+"/cb", -1, func(e destination.Event) { p.events <- e }
		if change != nil {
			change(o)
		}
	})
	h := c.Handler()
	handler.Store(&h)
	p.copy = c
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Follow(ctx) }()
	p.end = sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-done, c.Close()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(p.end)
	return p
}

// hub accepts what it is asked for, and verifies it.
func (p *pushing) hub(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost { // it has no stream
		http.Error(w, "no", http.StatusMethodNotAllowed)
		return
	}
	callback, secret := r.PostFormValue(websub.ParamCallback), r.PostFormValue(websub.ParamSecret)
	to := websub.AppendQuery(callback, websub.Param{Name: websub.ParamMode, Value: r.PostFormValue(websub.ParamMode)},
		websub.Param{Name: websub.ParamTopic, Value: r.PostFormValue(websub.ParamTopic)}, websub.Param{Name: websub.ParamChallenge, Value: "abc"},
		websub.Param{Name: websub.ParamLeaseSeconds, Value: "3600"})
	w.WriteHeader(http.StatusAccepted)
	go func() {
		resp, err := http.Get(to) //nolint:noctx // it is on loopback, and short
		if err != nil {
			p.t.Error(err)
			return
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			p.t.Errorf("a verification was answered %s", resp.Status)
		}
		p.secrets.Store(callback, secret)
		p.callback <- callback
	}()
}

// subscribed waits for a callback that was verified.
func (p *pushing) subscribed() string {
	p.t.Helper()
	select {
	case callback := <-p.callback:
		return callback
	case <-time.After(within):
		p.t.Fatal("nobody subscribed")
		return ""
	}
}

// push notifies the subscriber of changes that no list has.
func (p *pushing) push(callback string, entries ...resourcesync.Entry) (id string) {
	p.t.Helper()
	from := p.until
	var body bytes.Buffer
	out, err := resourcesync.NewWriter(&body, resourcesync.Head{Capability: resourcesync.ChangeNotification, From: from, Until: from.Add(time.Minute)}, resourcesync.WriteOptions{})
	for i, e := range entries {
		e.Datetime = from.Add(min(time.Duration(i+1)*time.Second, time.Minute))
		if err == nil {
			err = out.Write(e)
		}
	}
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return p.post(callback, body.Bytes())
}

// pushText notifies the subscriber of entries that are written already.
func (p *pushing) pushText(callback, entries string) (id string) {
	p.t.Helper()
	interval := fmt.Sprintf(` from="%s" until="%s"`, resourcesync.FormatDatetime(p.until), resourcesync.FormatDatetime(p.until.Add(time.Minute)))
	return p.post(callback, []byte(strings.Replace(document("urlset", "change-notification", entries), ` at="2026-01-01T00:00:00Z"`, interval, 1)))
}

// post sends the notification of the next minute.
func (p *pushing) post(callback string, body []byte) (id string) {
	p.t.Helper()
	p.until, p.sent = p.until.Add(time.Minute), p.sent+1
	id = fmt.Sprintf("id-%d", p.sent)
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, callback, bytes.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/xml")
	req.Header.Set("Webhook-Id", id)
	secret, _ := p.secrets.Load(callback)
	req.Header.Set(websub.HeaderSignature, websub.SHA256.Sign(secret.(string), body)) //nolint:errcheck,forcetypeassert // it is one
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		p.t.Fatalf("a notification was answered %s", resp.Status)
	}
	return id
}

// happens waits for an event, which may have come already; no event is had twice.
func (p *pushing) happens(what, path, id string) destination.Event {
	p.t.Helper()
	is := func(e destination.Event) bool {
		return e.What == what && e.URL == p.URL+"/data/"+path && e.NotificationID == id
	}
	deadline := time.After(within)
	for {
		if i := slices.IndexFunc(p.came, is); i >= 0 {
			e := p.came[i]
			p.came = slices.Delete(p.came, i, i+1)
			return e
		}
		select {
		case e := <-p.events:
			p.came = append(p.came, e)
		case <-deadline:
			p.t.Fatalf("%s was not %s by %q, but there came %+v", path, what, id, p.came)
		}
	}
}

func (p *pushing) asked(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gets[path]
}

// entryOf is what the Source says of a file now.
func (p *pushing) entryOf(name string, change resourcesync.ChangeType) resourcesync.Entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	if change == resourcesync.Deleted {
		return resourcesync.Entry{Loc: p.URL + "/data/" + name, Change: change}
	}
	return p.entry(name, change)
}

func (p *pushing) same() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.source.same(p.dir)
}

// A folder takes the place of a file that could not be had, though that is being
// tried again just then.
func TestFolderForAFileThatIsTriedAgain(t *testing.T) {
	s := newSource(t)
	s.put("a", "a", 0)
	p := follow(t, s)
	p.happens(destination.Copied, "a", "")
	callback := p.subscribed()
	again, answer := make(chan struct{}), make(chan struct{})
	s.put("folder", "a file", 0)
	s.set("/data/folder", func(w http.ResponseWriter, r *http.Request) {
		if p.asked("/data/folder") > 1 {
			close(again)
			<-answer
		}
		http.NotFound(w, r)
	})
	p.happens(destination.Failed, "folder", p.push(callback, p.entryOf("folder", resourcesync.Created)))
	<-again
	s.mu.Lock()
	delete(s.files, "folder")
	s.mu.Unlock()
	s.put("folder/in", "a folder", 0)
	id := p.push(callback, p.entryOf("folder", resourcesync.Deleted), p.entryOf("folder/in", resourcesync.Created))
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end) && p.asked("/data/folder/in") == 0; {
		time.Sleep(time.Millisecond) // were it not to wait, it would be there by now
	}
	close(answer)
	p.happens(destination.Copied, "folder/in", id)
	p.same()
}

// What a hub pushes is carried out without asking for any list; what of it can't be had
// holds up nothing, and is had when it is there.
func TestFollowsPushes(t *testing.T) {
	s := newSource(t)
	s.put("a", "first", 0)
	s.put("b", "first", 0)
	s.put("folder", "a file", 0)
	p := follow(t, s)
	p.happens(destination.Copied, "a", "")
	callback := p.subscribed()
	p.same()
	s.put("a", "second", 0)
	s.put("new/c", "new", 0)
	id := p.push(callback, p.entryOf("a", resourcesync.Updated), p.entryOf("new/c", resourcesync.Created))
	e := p.happens(destination.Copied, "new/c", id)
	if e.Change != resourcesync.Created || e.Hash != hashOf("new") || e.Bytes != 3 {
		t.Errorf("%+v", e)
	}
	p.happens(destination.Copied, "a", id)
	p.same()
	const beforePushes = 4 // two for the baseline, and two for what was not pushed before the subscription
	eventually(t, "the Change List is asked for after the subscription", func() bool { return p.asked("/changelist.xml") == beforePushes })

	s.mu.Lock()
	delete(s.files, "b")
	delete(s.files, "folder")
	s.mu.Unlock()
	s.put("folder/in", "a folder", 0)
	id = p.push(callback, p.entryOf("b", resourcesync.Deleted), p.entryOf("folder", resourcesync.Deleted), p.entryOf("folder/in", resourcesync.Created))
	p.happens(destination.Copied, "folder/in", id)
	p.same()

	s.put("later", "body", 0)
	s.set("/data/later", http.NotFound)
	id = p.push(callback, p.entryOf("later", resourcesync.Created))
	if e := p.happens(destination.Failed, "later", id); e.Err == nil {
		t.Errorf("%+v", e)
	}
	s.put("d", "body", 0)
	p.happens(destination.Copied, "d", p.push(callback, p.entryOf("d", resourcesync.Created)))
	s.set("/data/later", nil)
	p.happens(destination.Copied, "later", "") // tried again by itself
	p.same()
	if n := p.asked("/changelist.xml"); n != beforePushes {
		t.Errorf("the Change List was asked for %d times meanwhile", n-beforePushes)
	}
}

// A notification that was lost shows in the next one; the Change List makes up for it.
func TestFollowsOverAGap(t *testing.T) {
	s := newSource(t)
	s.put("a", "first", 0)
	p := follow(t, s)
	callback := p.subscribed()
	s.put("lost", "lost", 90) // in the interval of the notification that is not sent
	p.until = p.until.Add(2 * time.Minute)
	s.put("a", "second", 150)
	p.push(callback, p.entryOf("a", resourcesync.Updated))
	p.happens(destination.Copied, "lost", "")
	for deadline := time.Now().Add(within); ; {
		p.mu.Lock()
		same := p.files["a"] == read(p.dir, "a")
		p.mu.Unlock()
		if same {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a is not as it should be")
		}
		time.Sleep(5 * time.Millisecond)
	}
	p.same()
}

// BenchmarkFollow measures how long a change takes from its push to the event that it is
// copied: alone, and each of 300 that come at once. Most of it is flushing to the disk.
func BenchmarkFollow(b *testing.B) {
	s := newSource(b)
	s.put("a", "body", 0)
	p := follow(b, s)
	callback := p.subscribed()
	n := 0
	push := func() (name, id string) {
		name = fmt.Sprint("f", n)
		n++
		s.put(name, "body", 0)
		return name, p.push(callback, p.entryOf(name, resourcesync.Created))
	}
	for b.Loop() {
		began := time.Now()
		for range 20 {
			name, id := push()
			p.happens(destination.Copied, name, id)
		}
		b.ReportMetric(float64(time.Since(began).Microseconds())/20/1000, "alone-ms")
		began = time.Now()
		ids := map[string]string{}
		for range 300 {
			name, id := push()
			ids[name] = id
		}
		for name, id := range ids {
			p.happens(destination.Copied, name, id)
		}
		b.ReportMetric(float64(time.Since(began).Microseconds())/300/1000, "of-many-ms")
	}
}
