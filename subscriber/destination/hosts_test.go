package destination_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/destination"
)

// crowd counts who is served at once, and holds each until as many are as should be.
type crowd struct {
	mu        sync.Mutex
	now, most map[string]int // by host
	full      int
	open      chan struct{} // closed when as many as full are there, or that took too long
	once      sync.Once
}

func (c *crowd) enter(host string) {
	c.mu.Lock()
	c.now[host]++
	c.most[host] = max(c.most[host], c.now[host])
	all := 0
	for _, n := range c.now {
		all += n
	}
	c.mu.Unlock()
	if all == c.full {
		c.once.Do(func() { close(c.open) })
	}
	select {
	case <-c.open:
	case <-time.After(within):
		c.once.Do(func() { close(c.open) })
	}
}

func (c *crowd) leave(host string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now[host]--
}

// Each host of a Source has its own requests at once, and its own token, which no
// other host ever sees.
func TestTwoHosts(t *testing.T) {
	const parallel, each = 3, 20
	in := &crowd{now: map[string]int{}, most: map[string]int{}, full: 2 * parallel, open: make(chan struct{})}
	var mu sync.Mutex
	sent := map[string]map[string]int{"source": {}, "other": {}}
	serve := func(host string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			sent[host][r.Header.Get("Authorization")]++
			mu.Unlock()
			in.enter(host)
			defer in.leave(host)
			_, _ = io.WriteString(w, "body of "+r.URL.Path)
		}
	}
	other := httptest.NewServer(serve("other"))
	defer other.Close()
	s, dir := newSource(t), t.TempDir()
	s.offers = []string{resourcesync.ResourceList}
	var list strings.Builder
	want := map[string]string{}
	for i := range each {
		path := fmt.Sprintf("/data/%d", i)
		s.set(path, serve("source"))
		for _, to := range []string{s.URL, other.URL} {
			fmt.Fprintf(&list, `<url><loc>%s%s</loc><rs:md hash="%s"/></url>`, to, path, hashOf("body of "+path))
		}
		want[fmt.Sprint(i)], want["other"+path] = "body of "+path, "body of "+path
	}
	s.set("/resourcelist.xml", answer(document("urlset", "resourcelist", list.String())))
	s.files = want
	host := other.Listener.Addr().String()
	r, err := s.open(dir, func(o *destination.Options) {
		o.Hosts, o.Parallel = []string{host}, parallel
		o.Roots = append(o.Roots, destination.Root{URL: other.URL + "/", Dir: "other"})
		o.Tokens = map[string]string{s.Listener.Addr().String(): "of-source", host: "of-other"}
	}).Sync(t.Context())
	if err != nil || !r.InSync() || r.Copied != 2*each {
		t.Fatalf("%v %+v", err, r)
	}
	s.same(dir)
	for _, host := range []string{"source", "other"} {
		if in.most[host] != parallel {
			t.Errorf("%s had %d requests at once, and should have had %d", host, in.most[host], parallel)
		}
		if n := sent[host]["Bearer of-"+host]; n != each || len(sent[host]) != 1 {
			t.Errorf("%s was sent %v", host, sent[host])
		}
	}
}

// A host without a token of its own is sent none, in a list or by a redirect.
func TestNoTokenForOthers(t *testing.T) {
	var mu sync.Mutex
	var sent []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, r.Header.Get("Authorization"))
		_, _ = io.WriteString(w, "body")
	}))
	defer other.Close()
	s, dir := newSource(t), t.TempDir()
	s.offers = []string{resourcesync.ResourceList}
	s.set("/data/moved", redirect(other.URL+"/there"))
	s.set("/resourcelist.xml", answer(document("urlset", "resourcelist",
		`<url><loc>`+s.URL+`/data/moved</loc></url><url><loc>`+other.URL+`/named</loc></url>`+
			`<url><loc>`+s.URL+`/data/gone</loc><rs:md length="4"/><rs:ln rel="duplicate" href="`+other.URL+`/mirror"/></url>`)))
	r, err := s.open(dir, func(o *destination.Options) {
		o.Hosts = []string{other.Listener.Addr().String()}
		o.Tokens = map[string]string{s.Listener.Addr().String(): "of-source"}
	}).Sync(t.Context())
	if err != nil || !r.InSync() || r.Copied != 3 || len(sent) != 3 {
		t.Errorf("%v %+v", err, r)
	}
	for _, token := range sent {
		if token != "" {
			t.Errorf("the other host was sent %q", token)
		}
	}
}

// An *http.Client follows no redirect by itself, so that a host that is not allowed is not called.
func TestHTTPClientStaysWithItsHosts(t *testing.T) {
	var called atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		called.Add(1)
		_, _ = io.WriteString(w, "body")
	}))
	defer other.Close()
	s, dir := newSource(t), t.TempDir()
	s.put("a", "body", 0)
	s.set("/data/a", redirect(other.URL+"/a"))
	r, err := s.open(dir, func(o *destination.Options) { o.Client = new(http.Client) }).Sync(t.Context())
	if err != nil || r.Failed != 1 || called.Load() > 0 || len(r.NotAllowed) != 1 {
		t.Errorf("%v, %+v, the other host was called %d times", err, r, called.Load())
	}
}

// A token goes to its host only, also where a redirect leads to another.
func TestTokensStayWithTheirHost(t *testing.T) {
	var mu sync.Mutex
	var leaked []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if a := r.Header.Get("Authorization"); a != "" && a != "Bearer of-other" {
			leaked = append(leaked, a)
		}
		_, _ = io.WriteString(w, "moved")
	}))
	defer other.Close()
	s, dir := newSource(t), t.TempDir()
	s.put("a", "body", 0)
	s.put("b", "moved", 0)
	s.set("/data/b", redirect(other.URL+"/b"))
	asked := 0
	s.set("/data/a", func(w http.ResponseWriter, r *http.Request) {
		if asked++; r.Header.Get("Authorization") != "Bearer of-source" {
			t.Errorf("the Source was sent %q", r.Header.Get("Authorization"))
		}
		_, _ = io.WriteString(w, "body")
	})
	host := other.Listener.Addr().String()
	c := s.open(dir, func(o *destination.Options) {
		o.Hosts = []string{host}
		o.Tokens = map[string]string{s.Listener.Addr().String(): "of-source", host: "of-other"}
	})
	if r, err := c.Sync(t.Context()); err != nil || !r.InSync() || asked != 1 {
		t.Errorf("%v %+v", err, r)
	}
	if len(leaked) > 0 {
		t.Errorf("another host was sent %q", leaked)
	}
}

// A web page to which a redirect leads, as a login, is not copied as a resource that the Source says is something else.
func TestPageInsteadOfAResource(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.offers = []string{resourcesync.ResourceList}
	to := func(media, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", media)
			_, _ = io.WriteString(w, body)
		}
	}
	s.set("/login", to("text/html; charset=utf-8", "<p>"))
	s.set("/file", to("application/pdf", "%PDF"))
	list := ""
	for name, md := range map[string]string{
		"refused": `type="application/pdf"`, "page": `type="text/html"`, "file": `type="application/pdf"`, "direct": `type="application/pdf"`,
		"hashed": `type="application/pdf" hash="` + hashOf("<p>") + `"`,
	} {
		s.set("/data/"+name, redirect("/login"))
		list += "<url><loc>" + s.URL + "/data/" + name + "</loc><rs:md " + md + "/></url>"
	}
	s.set("/data/file", redirect("/file"))
	s.set("/data/direct", to("text/html", "<p>"))
	s.set("/resourcelist.xml", answer(document("urlset", "resourcelist", list)))
	r, err := s.open(dir).Sync(t.Context())
	if err != nil || r.Copied != 4 || r.Failed != 1 || len(r.Problems) != 1 {
		t.Fatalf("%v %+v", err, r)
	}
	if p := r.Problems[0]; p.URL != s.URL+"/data/refused" || !strings.Contains(p.Why, s.URL+"/login, which is a web page, and the Source says that the resource is application/pdf") {
		t.Errorf("%+v", p)
	}
}
