package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/test/ports"
	"github.com/rshub/rshub/websub"
)

// field is many small Sources on some hosts, with one hub.
type field struct {
	t       *testing.T
	hub     *httptest.Server
	sources []*plot
	quit    chan struct{} // closed at the end: what hangs ends

	mu    sync.Mutex
	calls map[string]call // by topic
}

// call is a subscription.
type call struct{ callback, secret, mode string }

// plot is one Source.
type plot struct {
	field *field
	name  string
	base  string // its URL, which ends with a slash
	kind  string // how it is broken; empty: it is not

	mu      sync.Mutex
	files   map[string]string
	changes []resourcesync.Entry
	began   time.Time
	until   time.Time // of the last notification
}

// brokenKinds are the ways to be broken, each as often as it is here among 20.
var brokenKinds = []string{
	"hangs", "hangs", "hangs", "hangs", "hangs", "hangs", "gone", "gone", "gone", "gone", "loops", "loops", "loops", "wrong", "wrong", "wrong", "drips", "drips", "lies", "lies",
}

// newField makes so many Sources, a tenth of them broken, eight on each host.
func newField(t *testing.T, n int) *field {
	f := &field{t: t, calls: map[string]call{}, quit: make(chan struct{})}
	f.hub = httptest.NewServer(http.HandlerFunc(f.subscribe))
	var host *httptest.Server
	var hosts []*httptest.Server
	began := time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
	for i := range n {
		if i%8 == 0 {
			host = httptest.NewServer(http.HandlerFunc(f.serve))
			hosts = append(hosts, host)
		}
		p := &plot{field: f, name: fmt.Sprintf("s%03d", i), files: map[string]string{}, began: began, until: began}
		p.base = host.URL + "/" + p.name + "/"
		if i%10 == 3 {
			p.kind = brokenKinds[i/10%len(brokenKinds)]
		}
		if p.kind == "gone" {
			p.base = "http://" + ports.Addr() + "/" + p.name + "/"
		}
		for k := range 3 {
			p.files[fmt.Sprint("f", k)] = fmt.Sprintf("%s %d", p.name, k)
		}
		f.sources = append(f.sources, p)
	}
	t.Cleanup(func() {
		close(f.quit)
		for _, h := range append(hosts, f.hub) {
			h.CloseClientConnections()
			h.Close()
		}
	})
	return f
}

// healthy are the Sources that are not broken.
func (f *field) healthy() []*plot {
	return slices.DeleteFunc(slices.Clone(f.sources), func(p *plot) bool { return p.kind != "" })
}

// subscribe is the hub: it verifies each request at once.
func (f *field) subscribe(w http.ResponseWriter, r *http.Request) {
	c := call{r.PostFormValue(websub.ParamCallback), r.PostFormValue(websub.ParamSecret), r.PostFormValue(websub.ParamMode)}
	topic := r.PostFormValue(websub.ParamTopic)
	to := websub.AppendQuery(c.callback, websub.Param{Name: websub.ParamMode, Value: c.mode}, websub.Param{Name: websub.ParamTopic, Value: topic},
		websub.Param{Name: websub.ParamChallenge, Value: "abc"}, websub.Param{Name: websub.ParamLeaseSeconds, Value: "3600"})
	w.WriteHeader(http.StatusAccepted)
	go func() {
		resp, err := http.Get(to) //nolint:noctx // it is on loopback, and short
		if err != nil {
			return
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			f.mu.Lock()
			f.calls[topic] = c
			f.mu.Unlock()
		}
	}()
}

func (f *field) call(p *plot) call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[p.base+"changes/"]
}

// serve answers for all Sources.
func (f *field) serve(w http.ResponseWriter, r *http.Request) {
	name, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	i := slices.IndexFunc(f.sources, func(p *plot) bool { return p.name == name })
	if i < 0 {
		http.NotFound(w, r)
		return
	}
	p := f.sources[i]
	switch {
	case p.kind == "hangs":
		select {
		case <-r.Context().Done():
		case <-f.quit:
		}
		return
	case p.kind == "loops":
		http.Redirect(w, r, r.URL.Path+"x", http.StatusFound)
		return
	case path == "list.xml" && p.kind == "wrong":
		_, _ = io.WriteString(w, "<html>this is no list</html>")
		return
	case path == "list.xml" && p.kind == "drips":
		for _, b := range []byte(strings.Repeat("<!-- -->", 1<<20)) { // it never ends
			_, _ = w.Write([]byte{b})
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
				return
			case <-f.quit:
				return
			case <-time.After(time.Second):
			}
		}
	}
	p.answer(w, r, path)
}

func (p *plot) answer(w http.ResponseWriter, r *http.Request, path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	up := []resourcesync.Link{{Rel: "up", Href: p.base + "caps.xml"}}
	switch path {
	case "caps.xml":
		p.write(w, resourcesync.Head{Capability: resourcesync.CapabilityList, Links: []resourcesync.Link{{Rel: "up", Href: p.base + "description.xml"}}}, resourcesync.Entry{Loc: p.base + "list.xml", Capability: resourcesync.ResourceList},
			resourcesync.Entry{Loc: p.base + "changes.xml", Capability: resourcesync.ChangeList},
			resourcesync.Entry{Loc: p.base + "changes/", Capability: resourcesync.ChangeNotification, Links: []resourcesync.Link{{Rel: "hub", Href: p.field.hub.URL}}})
	case "changes/":
		w.Header().Set("Link", `<`+p.base+`changes/>; rel="self", <`+p.field.hub.URL+`>; rel="hub"`)
	case "list.xml":
		var entries []resourcesync.Entry
		for _, name := range slices.Sorted(maps.Keys(p.files)) {
			entries = append(entries, p.entry(name))
		}
		p.write(w, resourcesync.Head{Capability: resourcesync.ResourceList, At: p.until, Links: up}, entries...)
	case "changes.xml":
		p.write(w, resourcesync.Head{Capability: resourcesync.ChangeList, From: p.began, Links: up}, p.changes...)
	default:
		body, ok := p.files[path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		if p.kind == "lies" {
			body = strings.ToUpper(body)
		}
		_, _ = io.WriteString(w, body)
	}
}

// entry is what the Source says of a file. Called with mu held, as write.
func (p *plot) entry(name string) resourcesync.Entry {
	sum := sha256.Sum256([]byte(p.files[name]))
	return resourcesync.Entry{Loc: p.base + name, Length: int64(len(p.files[name])), HasLength: true, Hash: "sha-256:" + hex.EncodeToString(sum[:])}
}

func (p *plot) write(w io.Writer, h resourcesync.Head, entries ...resourcesync.Entry) {
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
		p.field.t.Errorf("%s: %v", p.name, err)
	}
}

// change changes a file, and pushes that to the subscriber, if there is one that answers.
func (p *plot) change(name, body string) {
	p.mu.Lock()
	from := p.until
	p.files[name] = body
	p.until = from.Add(time.Second)
	e := p.entry(name)
	e.Change, e.Datetime = resourcesync.Updated, p.until
	p.changes = append(p.changes, e)
	var doc bytes.Buffer
	p.write(&doc, resourcesync.Head{Capability: resourcesync.ChangeNotification, From: from, Until: p.until}, e)
	p.mu.Unlock()
	c := p.field.call(p)
	if c.mode != "subscribe" {
		return
	}
	req, err := http.NewRequest(http.MethodPost, c.callback, &doc) //nolint:noctx // it is on loopback, and short
	if err != nil {
		p.field.t.Error(err)
		return
	}
	req.Header.Set("Content-Type", "application/xml")
	req.Header.Set("Webhook-Id", p.name+p.until.Format(time.RFC3339))
	req.Header.Set(websub.HeaderSignature, websub.SHA256.Sign(c.secret, doc.Bytes()))
	if resp, err := http.DefaultClient.Do(req); err == nil {
		_ = resp.Body.Close()
	}
}
