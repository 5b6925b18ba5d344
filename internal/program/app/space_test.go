package app

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// A disk with less free space than --min-free-disk: publishes and requests get 503,
// renewals alike, and readiness names it; deliveries go on, and their cursors are
// stored.
func TestMinFreeDisk(t *testing.T) {
	var refuse atomic.Bool
	var delivered atomic.Int32
	refuse.Store(true)
	callback := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet:
			_, _ = io.WriteString(w, r.URL.Query().Get("hub.challenge"))
		case refuse.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			delivered.Add(1)
		}
	}))
	defer callback.Close()
	dir := filepath.Join(t.TempDir(), "data")
	start := func(minFree string) *metered {
		m := &metered{t: t, App: newApp(t, "--topic-check=off", "--retry-first=100ms", "--retry-max=100ms", "--data-dir="+dir, "--min-free-disk="+minFree)}
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		return m
	}
	stop := func(m *metered) {
		if err := m.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	m := start("0")
	m.subscribe(callback.URL)
	m.publish(0, 1, http.StatusOK)()
	m.moves("a callback that refuses", func() {}, `rshub_deliveries_total{code="5xx",outcome="retry"}`)
	if f := m.figures(); f["rshub_store_free_min_bytes"] != 0 || f["rshub_store_free_bytes"] <= 0 {
		t.Errorf("%v bytes free, at least %v", f["rshub_store_free_bytes"], f["rshub_store_free_min_bytes"])
	}
	stop(m)

	m = start("4194304TiB")
	if f := m.figures(); f["rshub_store_free_min_bytes"] != 1<<62 {
		t.Errorf("at least %v bytes free", f["rshub_store_free_min_bytes"])
	}
	m.publish(1, 2, http.StatusServiceUnavailable)()
	m.form(http.StatusServiceUnavailable, "mode", "subscribe", "callback", callback.URL)()
	m.form(http.StatusServiceUnavailable, "mode", "subscribe", "callback", callback.URL+"/new")()
	m.form(http.StatusServiceUnavailable, "mode", "publish")()
	if code, body := get(t, "http://"+m.AdminAddr()+"/readyz?verbose"); code != http.StatusServiceUnavailable {
		t.Errorf("ready: %s", body)
	}
	refuse.Store(false)
	m.until("a delivery", func(figures) string {
		if delivered.Load() == 0 {
			return "none came"
		}
		return ""
	})
	stop(m)

	m = start("0") // the cursor was stored
	defer stop(m)
	m.publish(1, 2, http.StatusOK)()
	m.until("the next delivery", func(figures) string {
		if delivered.Load() < 2 {
			return "none came"
		}
		return ""
	})
	if n := delivered.Load(); n != 2 {
		t.Errorf("%d deliveries of two notifications", n)
	}
}
