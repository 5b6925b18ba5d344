package page

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"
	"time"
)

// A page in a browser reads the stream of a hub with EventSource, and goes on by itself where it was when
// the hub is killed and started again.
func TestEventSource(t *testing.T) {
	h := start(t)
	src := newSource(h, "https://example.org/changes/", 30)
	src.publish("https://example.org/a")
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprint(w, "<!doctype html><title>A page of another origin</title>")
	}))
	t.Cleanup(site.Close)
	b := open(t, true)
	b.visit(site.URL)
	ask[any](b, fmt.Sprintf(`globalThis.got = [], globalThis.opened = 0, globalThis.events = new EventSource(%q),
		events.onopen = () => opened++,
		events.addEventListener("notification", (e) => got.push(JSON.parse(e.data).until)),
		events.addEventListener("gap", (e) => got.push("gap " + e.data)), null`, h.public+"?hub.topic="+url.QueryEscape(src.topic)+"&after=earliest"))
	want := []string{src.until.Format(time.RFC3339)}
	arrived := func() {
		t.Helper()
		h.await(func() error {
			if got := ask[[]string](b, "got"); !slices.Equal(got, want) {
				return fmt.Errorf("the page has %q, want %q; the state is %d", got, want, ask[int](b, "events.readyState"))
			}
			return nil
		})
	}
	arrived()
	src.publish("https://example.org/b")
	want = append(want, src.until.Format(time.RFC3339))
	arrived()
	for range 2 {
		h.restart()
		h.ready()
		src.publish("https://example.org/c") // mostly before the page is back
		want = append(want, src.until.Format(time.RFC3339))
		arrived()
	}
	if n := ask[int](b, "opened"); n != 3 {
		t.Errorf("the stream was opened %d times", n)
	}
}
