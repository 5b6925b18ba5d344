package app

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// A hub accepts itself neither as a callback nor as a topic, by any of its addresses, and
// says why.
func TestHubDoesNotCallItself(t *testing.T) {
	a := newApp(t)
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Stop(t.Context()) }()
	const elsewhere = "http://127.0.0.1:2/"
	_, adminPort, _ := strings.Cut(a.AdminAddr(), ":")
	own := []string{a.HubURL(), a.HubURL() + "?x=1", "http://" + a.Addr() + "/", "http://" + a.Addr() + "/other", "http://localhost:" + adminPort + "/api/v1/info"}
	for _, u := range own {
		for why, form := range map[string]url.Values{
			"callback": {"hub.mode": {"subscribe"}, "hub.topic": {elsewhere}, "hub.callback": {u}},
			"leaving":  {"hub.mode": {"unsubscribe"}, "hub.topic": {elsewhere}, "hub.callback": {u}},
			"ping":     {"hub.mode": {"publish"}, "hub.url": {u}},
		} {
			status, body := postForm(t, a.HubURL(), form)
			if status != http.StatusForbidden || !strings.Contains(body, "this hub itself") {
				t.Errorf("%s %s: %d %s", why, u, status, body)
			}
		}
	}
	status, body := postForm(t, a.HubURL(), url.Values{"hub.mode": {"subscribe"}, "hub.topic": {a.HubURL()}, "hub.callback": {elsewhere}})
	if status != http.StatusForbidden || !strings.Contains(body, "this hub itself") {
		t.Errorf("subscribing to the hub: %d %s", status, body)
	}
	if status, body := postForm(t, a.HubURL(), url.Values{"hub.mode": {"subscribe"}, "hub.topic": {elsewhere}, "hub.callback": {elsewhere}}); status != http.StatusAccepted {
		t.Errorf("subscribing elsewhere: %d %s", status, body)
	}
}

func postForm(t *testing.T, hubURL string, form url.Values) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, hubURL, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}
