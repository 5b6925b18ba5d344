package app

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/rshub/rshub/test/redistest"
)

// newCallbackAt starts a callback at a loopback address, which is a site. It confirms
// everything and sends the modes of the requests to modes.
func newCallbackAt(t *testing.T, address string, modes chan<- string) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address+":0")
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		modes <- r.URL.Query().Get("hub.mode")
		_, _ = io.WriteString(w, r.URL.Query().Get("hub.challenge"))
	})}}
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}

// The total limit, and those of each site and requester, count what is stored, on disk and in
// Redis. The counts are the same after a restart. Every request gets the same answer.
func TestMaxSubscriptions(t *testing.T) {
	const most = 4
	for name, store := range map[string][]string{
		"embedded": {"--data-dir=" + filepath.Join(t.TempDir(), "data")},
		"redis":    {"--redis-url=" + redistest.Standalone(t).URL(), "--redis-prefix=app-" + uuid.NewString()},
	} {
		t.Run(name, func(t *testing.T) {
			start := func() *metered {
				m := &metered{t: t, App: newApp(t, append(store, "--topic-check=off", "--trusted-proxy=127.0.0.0/8", fmt.Sprint("--max-subscriptions=", most))...)}
				if err := m.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				return m
			}
			modes := make(chan string, 10)
			ask := func(m *metered, callback, requester, want string) {
				t.Helper()
				form := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {meteredTopic}, "hub.callback": {callback}}
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+m.Addr()+"/", strings.NewReader(form.Encode()))
				if err != nil {
					t.Fatal(err)
				}
				req.Close = true
				req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				req.Header.Set("X-Forwarded-For", requester)
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if got := <-modes; got != want || resp.StatusCode != http.StatusAccepted {
					t.Errorf("the callback %s of %s was asked %q and not %q, the answer was %d %s", callback, requester, got, want, resp.StatusCode, body)
				}
			}
			stored := func(m *metered, want float64) {
				t.Helper()
				m.until("counting", func(now figures) string {
					if now["rshub_subscriptions_stored"] != want || now["rshub_subscriptions_stored_max"] != most {
						return fmt.Sprintf("%v of %v are stored", now["rshub_subscriptions_stored"], now["rshub_subscriptions_stored_max"])
					}
					return ""
				})
			}

			var callbacks []string
			for i := range most + 2 {
				callbacks = append(callbacks, newCallbackAt(t, fmt.Sprintf("127.0.0.%d", i+2), modes))
			}
			m := start()
			for i := range most - 1 {
				ask(m, callbacks[i], fmt.Sprint("192.0.2.", i), "subscribe")
				stored(m, float64(i+1))
			}
			if err := m.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			m = start()
			defer func() { _ = m.Stop(t.Context()) }()
			stored(m, most-1)
			ask(m, callbacks[most], "192.0.2.0", "denied")        // has a quarter
			ask(m, callbacks[0]+"/more", "192.0.2.100", "denied") // the site
			ask(m, callbacks[most-1], "192.0.2.101", "subscribe") // the last place
			stored(m, most)
			ask(m, callbacks[most+1], "192.0.2.102", "denied")    // one too many
			ask(m, callbacks[0], "192.0.2.103", "subscribe")      // a renewal
			ask(m, callbacks[0]+"/more", "192.0.2.104", "denied") // still
		})
	}
}
