package publisher

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rshub/rshub/internal/base/egress"
)

// The client of a publisher that was given none calls a hub on this machine, follows no
// redirect, uses no proxy of the environment and calls no metadata service.
func TestOwnClientIsGuarded(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the proxy was used") }))
	defer proxy.Close()
	t.Setenv("HTTP_PROXY", proxy.URL)
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer other.Close()
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		}
	}))
	defer hub.Close()
	n := Notification{Topic: "https://source.example/changes/", Body: []byte("<x/>")}
	p, err := Open(Options{Dir: t.TempDir(), Topic: n.Topic})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	for name, client := range map[string]Doer{"Post": nil, "Open": p.o.Client} {
		if _, err := Post(t.Context(), client, Hub{URL: hub.URL}, n); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var answer *RefusedError
		if _, err := Post(t.Context(), client, Hub{URL: hub.URL + "/moved"}, n); !errors.As(err, &answer) || answer.Status != http.StatusTemporaryRedirect {
			t.Errorf("%s: %v", name, err)
		}
		var refused *egress.RefusedError
		if _, err := Post(t.Context(), client, Hub{URL: "http://169.254.169.254/"}, n); !errors.As(err, &refused) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := Post(t.Context(), client, Hub{URL: "http://100.64.0.1/"}, n); err == nil || !strings.Contains(err.Error(), "unless another client is given") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
