package app

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// notification is a change notification of the minutes from, until of one hour.
func notification(from, until int) string {
	return fmt.Sprintf(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`+
		`<rs:md capability="change-notification" from="2026-01-01T00:%02d:00Z" until="2026-01-01T00:%02d:00Z"/></urlset>`, from, until)
}

// post returns the status and the Retry-After of the answer.
func post(t *testing.T, target, media, body, link string) (status int, retryAfter string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	req.Header.Set("Content-Type", media)
	req.Header.Set("Link", link)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode, resp.Header.Get("Retry-After")
}

// While deliveries end, the hub still answers a publish, with 503 and Retry-After. It does not refuse
// the connection.
func TestPublishIsToldWhileDeliveriesEnd(t *testing.T) {
	verified, delivering, release := make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{})
	callback := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, r.URL.Query().Get("hub.challenge"))
			verified <- struct{}{}
			return
		}
		delivering <- struct{}{}
		<-release
	}))
	defer callback.Close()
	answer := sync.OnceFunc(func() { close(release) })
	defer answer()

	a := newApp(t, "--topic-check=off", "--timeout=5m", "--drain=5m")
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	const topic = "http://127.0.0.1:2/topic"
	form := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic}, "hub.callback": {callback.URL}}
	hub := "http://" + a.Addr() + "/"
	if status, _ := post(t, hub, "application/x-www-form-urlencoded", form.Encode(), ""); status != http.StatusAccepted {
		t.Fatalf("subscribing: %d", status)
	}
	<-verified
	link := fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, topic, a.HubURL())
	if status, _ := post(t, hub, "application/xml", notification(0, 1), link); status != http.StatusOK {
		t.Fatalf("publishing: %d", status)
	}
	<-delivering

	stopped := make(chan error, 1)
	go func() { stopped <- a.Stop(context.WithoutCancel(t.Context())) }()
	for {
		if status, _ := get(t, "http://"+a.AdminAddr()+"/readyz"); status == http.StatusServiceUnavailable {
			break
		}
	}
	for range 100 { // and not only until the first part has stopped
		status, wait := post(t, hub, "application/xml", notification(1, 2), link)
		if status != http.StatusServiceUnavailable || wait == "" {
			t.Errorf("a publish meanwhile: %d, Retry-After %q", status, wait)
		}
	}
	answer()
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
}
