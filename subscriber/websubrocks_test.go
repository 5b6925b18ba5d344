package subscriber_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/subscriber"
	"github.com/rshub/rshub/websub"
)

// rocks plays the suite of websub.rocks for subscribers: a topic and a hub, and what
// the hub was asked.
type rocks struct {
	*httptest.Server
	mux   *http.ServeMux
	sub   *subscriber.Subscriber
	asked chan url.Values
}

// newRocks serves pages and runs a subscriber to /topic.
func newRocks(t *testing.T, pages func(r *rocks)) *rocks {
	r := &rocks{mux: http.NewServeMux(), asked: make(chan url.Values, 10)}
	r.Server = httptest.NewServer(r.mux)
	t.Cleanup(r.Close)
	r.mux.HandleFunc("POST /hub", func(w http.ResponseWriter, req *http.Request) {
		_ = req.ParseForm()
		r.asked <- req.PostForm
		w.WriteHeader(http.StatusAccepted)
	})
	r.mux.HandleFunc("POST /wrong", func(http.ResponseWriter, *http.Request) { t.Error("the wrong hub was asked") })
	r.mux.HandleFunc("/cb/", func(w http.ResponseWriter, req *http.Request) { r.sub.Handler().ServeHTTP(w, req) })
	pages(r)
	var err error
	r.sub, err = subscriber.Open(subscriber.Options{Dir: t.TempDir(), Topic: r.URL + "/topic", Callback: r.URL + "/cb/", Allow: egress.DevAllow()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = r.sub.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done; _ = r.sub.Close() })
	return r
}

// page serves a page with links in its headers.
func (r *rocks) page(path, mediaType, body string, links ...string) {
	r.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		for _, l := range links {
			w.Header().Add("Link", strings.ReplaceAll(l, "ROOT", r.URL))
		}
		_, _ = io.WriteString(w, strings.ReplaceAll(body, "ROOT", r.URL))
	})
}

// request waits until the hub is asked.
func (r *rocks) request(t *testing.T) url.Values {
	t.Helper()
	select {
	case f := <-r.asked:
		return f
	case <-time.After(time.Minute):
		t.Fatal("the hub was not asked")
		return nil
	}
}

func (r *rocks) call(t *testing.T, method, target, body string, header ...string) (status int, text string) {
	t.Helper()
	req, _ := http.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	got, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(got)
}

// verify asks for a verification of intent as the suite does.
func (r *rocks) verify(t *testing.T, f url.Values, topic string) (status int, body string) {
	t.Helper()
	return r.call(t, http.MethodGet, websub.AppendQuery(f.Get("hub.callback"), websub.Param{Name: "hub.mode", Value: "subscribe"},
		websub.Param{Name: "hub.topic", Value: topic}, websub.Param{Name: "hub.challenge", Value: "ch/al lenge"}, websub.Param{Name: "hub.lease_seconds", Value: "86400"}), "")
}

const (
	hubLink  = `<ROOT/hub>; rel="hub"`
	selfLink = `<ROOT/topic>; rel="self"`
	atom     = `<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom"><link rel="hub" href="ROOT/hub"/><link rel="self" href="ROOT/topic"/></feed>`
	rss      = `<?xml version="1.0"?><rss xmlns:atom="http://www.w3.org/2005/Atom" version="2.0"><channel><atom:link rel="self" href="/topic"/><atom:link rel="hub" href="ROOT/hub"/></channel></rss>`
	html     = `<!doctype html><html><head><link rel="hub" href="ROOT/hub"><link rel="self" href="/topic"></head><body><link rel="hub" href="ROOT/wrong"></body></html>`
)

// The scenarios of websub.rocks for subscribers, by their numbers: discovery (DST-01,
// DST-02, DST-04, DST-06), verification (DST-07) and distribution (DST-10, DST-13).
func TestWebSubRocks_DST01_DST02_DST06(t *testing.T) {
	for name, c := range map[string]struct {
		pages func(r *rocks)
		topic string // that is subscribed to
	}{
		"100 headers": {func(r *rocks) { r.page("/topic", "text/html", "<p>", hubLink, selfLink) }, "/topic"},
		"101 HTML":    {func(r *rocks) { r.page("/topic", "text/html; charset=utf-8", html) }, "/topic"},
		"102 Atom":    {func(r *rocks) { r.page("/topic", "application/atom+xml", atom) }, "/topic"},
		"103 RSS":     {func(r *rocks) { r.page("/topic", "application/rss+xml", rss) }, "/topic"},
		"104 headers before content": {func(r *rocks) {
			r.page("/topic", "text/html", strings.ReplaceAll(html, "/hub", "/wrong"), hubLink+", "+selfLink)
		}, "/topic"},
		"the header has self, the content the hub": {func(r *rocks) {
			r.page("/topic", "text/html", `<head><link rel="hub" href="/hub"></head>`, `<ROOT/topic?a=%7e&b>; rel="self"`)
		}, "/topic?a=%7e&b"},
		"200 another self": {func(r *rocks) { r.page("/topic", "text/html", "", hubLink, `</Other%2dtopic>; rel=self`) }, "/Other%2dtopic"},
		"201 a 302": {func(r *rocks) {
			r.mux.Handle("GET /topic", http.RedirectHandler("/moved", http.StatusFound))
			r.page("/moved", "text/html", "", hubLink, `<ROOT/moved>; rel="self"`)
		}, "/moved"},
		"202 a 301": {func(r *rocks) {
			r.mux.Handle("GET /topic", http.RedirectHandler("/moved/", http.StatusMovedPermanently))
			r.page("/moved/", "text/html", "", `<../hub>; rel="HUB self2", <now>; rel="self"`)
		}, "/moved/now"},
		"203 a hub with 307": {func(r *rocks) {
			r.page("/topic", "text/html", "", `<ROOT/old>; rel=hub`, selfLink)
			r.mux.Handle("POST /old", http.RedirectHandler("/hub", http.StatusTemporaryRedirect))
		}, "/topic"},
		"204 a hub with 308": {func(r *rocks) {
			r.page("/topic", "text/html", "", `<ROOT/old>; rel=hub`, selfLink)
			r.mux.Handle("POST /old", http.RedirectHandler("/hub", http.StatusPermanentRedirect))
		}, "/topic"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRocks(t, c.pages)
			f := r.request(t)
			if f.Get("hub.mode") != "subscribe" || f.Get("hub.topic") != r.URL+c.topic || !strings.HasPrefix(f.Get("hub.callback"), r.URL+"/cb/") || len(f.Get("hub.secret")) < 30 {
				t.Errorf("asked %v", f)
			}
			if status, body := r.verify(t, f, r.URL+c.topic); status != 200 || body != "ch/al lenge" {
				t.Errorf("the verification was answered %d %q", status, body)
			}
			content := "something new"
			if status, _ := r.call(t, http.MethodPost, f.Get("hub.callback"), content, "Content-Type", "text/plain", "X-Hub-Signature", websub.SHA256.Sign(f.Get("hub.secret"), []byte(content))); status/100 != 2 {
				t.Errorf("the delivery was answered %d", status)
			}
			for change := range r.sub.Changes(t.Context()) {
				if string(change.Content) != content {
					t.Errorf("%+v", change)
				}
				break
			}
		})
	}
}

func TestWebSubRocks_DST07_DST10_DST13(t *testing.T) {
	r := newRocks(t, func(r *rocks) { r.page("/topic", "text/html", "", hubLink, selfLink) })
	f := r.request(t)
	t.Run("205 a wrong topic", func(t *testing.T) {
		if status, _ := r.verify(t, f, r.URL+"/topic?invalid"); status != 404 {
			t.Errorf("answered %d", status)
		}
	})
	if status, _ := r.verify(t, f, r.URL+"/topic"); status != 200 {
		t.Fatalf("answered %d", status)
	}
	body := "content"
	deliver := func(header ...string) int {
		status, _ := r.call(t, http.MethodPost, f.Get("hub.callback"), body, append(header, "Content-Type", "text/plain")...)
		return status
	}
	t.Run("300 a valid signature", func(t *testing.T) {
		if status := deliver("X-Hub-Signature", websub.SHA256.Sign(f.Get("hub.secret"), []byte(body))); status/100 != 2 {
			t.Errorf("answered %d", status)
		}
	})
	t.Run("301 an invalid signature", func(t *testing.T) {
		if status := deliver("X-Hub-Signature", fmt.Sprintf("sha256=%x", sha256.Sum256([]byte(body)))); status/100 == 2 {
			t.Errorf("answered %d", status)
		}
	})
	t.Run("302 no signature", func(t *testing.T) {
		if status := deliver(); status/100 == 2 {
			t.Errorf("answered %d", status)
		}
	})
	n := 0
	for range r.sub.Waiting(t.Context()) {
		n++
	}
	if n != 1 {
		t.Errorf("%d were handed on", n)
	}
}
