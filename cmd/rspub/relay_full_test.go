package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rshub/rshub/test/ports"
)

// The hub is away until the outbox has reached its limit. Then the relay refuses changes, and says
// so to the application over HTTP and by lines, in /readyz and in the metrics; a request that it
// recorded before still gets its answer. When the hub is back, it gets what was accepted, once each
// and in order, and the relay accepts changes again.
func TestRelayOfAFullOutbox(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var away atomic.Bool
	away.Store(true)
	var mu sync.Mutex
	var got []string
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if away.Load() {
			w.Header().Set("Retry-After", "1") // or it tries again ever later
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, part := range strings.Split(string(body), "<loc>https://example.org/")[1:] {
			name, _, _ := strings.Cut(part, "<")
			got = append(got, name)
		}
	}))
	defer hub.Close()
	listen, admin := ports.Addr(), ports.Addr()
	cmd := exec.CommandContext(t.Context(), "rspub", "relay", "--listen", listen, "--stdin", "--public-listen", "127.0.0.1:0", "--admin-listen", admin,
		"--hub", hub.URL+"/", "--dev", "--resource-url", "https://example.org/", "--state-dir", t.TempDir(), "--every", "10ms", "--outbox-limit", "4KiB")
	lines, err := cmd.StdinPipe()
	must(err)
	answers, err := cmd.StdoutPipe()
	must(err)
	must(cmd.Start())
	defer cmd.Wait()         //nolint:errcheck // it is killed
	defer cmd.Process.Kill() //nolint:errcheck // as above
	post := func(name string) (status int, after, text string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+listen+"/", strings.NewReader("change=updated&url=https://example.org/"+name))
		must(err)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Idempotency-Key", name)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, "", err.Error()
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		must(err)
		return resp.StatusCode, resp.Header.Get("Retry-After"), string(body)
	}
	eventually(t, func() error {
		if status, _, text := post("0"); status != http.StatusOK {
			return fmt.Errorf("%d %s", status, text)
		}
		return nil
	})
	var want []string
	full := func() bool {
		t.Helper()
		name := fmt.Sprint(len(want))
		status, after, text := post(name)
		switch status {
		case http.StatusOK:
			want = append(want, name)
			return false
		case http.StatusServiceUnavailable:
			if after == "" || !strings.Contains(text, "MaxStored") || !strings.Contains(text, "later") {
				t.Fatalf("Retry-After %q, %s", after, text)
			}
			return true
		}
		t.Fatal(status, text)
		return false
	}
	// What waits may become the newest notification, which does not count: it is full for good only
	// after a while.
	var since time.Time
	for end := time.Now().Add(time.Minute); since.IsZero() || time.Since(since) < time.Second; time.Sleep(time.Millisecond) {
		switch {
		case !full():
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		}
		if time.Now().After(end) {
			t.Fatalf("it is not full after %d changes", len(want))
		}
	}
	if status, _, text := post("0"); status != http.StatusOK {
		t.Errorf("what was recorded gets %d %s", status, text)
	}
	_, err = io.WriteString(lines, `{"id":"line","change":"updated","url":"https://example.org/line"}`+"\n")
	must(err)
	if line, err := bufio.NewReader(answers).ReadString('\n'); err != nil || !strings.Contains(line, `"id":"line"`) || !strings.Contains(line, "MaxStored") {
		t.Errorf("a line gets %s, %v", line, err)
	}
	if status, body := getFrom(t, admin, "/readyz?verbose"); status != http.StatusOK || !strings.Contains(body, "have reached --outbox-limit (4") {
		t.Errorf("/readyz, which has to be 200, so that the hub can fetch the topic: %d %s", status, body)
	}
	if _, body := getFrom(t, admin, "/metrics"); !strings.Contains(body, "rspub_outboxes_full 1") || !strings.Contains(body, `rspub_relay_requests_total{outcome="failed"}`) {
		t.Errorf("/metrics: %s", body)
	}

	away.Store(false)
	eventually(t, func() error {
		if full() {
			_, body := getFrom(t, admin, "/readyz?verbose")
			return fmt.Errorf("it is still full after %d changes: %s", len(want), body)
		}
		return nil
	})
	eventually(t, func() error {
		mu.Lock()
		defer mu.Unlock()
		if g, w := strings.Join(got, " "), strings.Join(want, " "); g != w {
			return fmt.Errorf("the hub has %s, and not %s", g, w)
		}
		return nil
	})
}
