package hub

import (
	"crypto/tls"
	"net/http"
	"strings"
	"testing"
)

// The hub is not called by itself, however its URL is written; its neighbours
// behind one proxy are.
func TestHubIsNoTopicAndNoCallback(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Auth.Open = true })
	for u, own := range map[string]bool{
		hubURL: true, "http://hub.example/websub/": true, "https://HUB.example.:443/websub": true, "https://hub.example/x/../%77ebsub//?a=b": true,
		"https://hub.example/": false, "https://hub.example/websub/changes": false, "https://hub.example:8443/websub/": false, "https://sub.hub.example/websub/": false,
	} {
		accepted, ok := http.StatusForbidden, http.StatusForbidden
		if !own {
			accepted, ok = http.StatusAccepted, http.StatusOK
		}
		for why, tc := range map[string]struct {
			req  *http.Request
			want int
		}{
			"subscribe":   {form("hub.mode", "subscribe", "hub.topic", topic, "hub.callback", u), accepted},
			"unsubscribe": {form("hub.mode", "unsubscribe", "hub.topic", topic, "hub.callback", u), accepted},
			"as a topic":  {form("hub.mode", "subscribe", "hub.topic", u, "hub.callback", callback), accepted},
			"ping":        {ping(u), accepted},
			"publish":     {publish(doc(0, 1, "a"), with("Link", link(u))), ok},
		} {
			rec := w.do(tc.req)
			if rec.Code != tc.want || own && !strings.Contains(rec.Body.String(), "this hub itself") {
				t.Errorf("%s %s: %d %s", why, u, rec.Code, rec.Body)
			}
		}
		// Whoever is subscribed for one by a hub of before can leave.
		if rec := w.do(form("hub.mode", "unsubscribe", "hub.topic", u, "hub.callback", callback)); rec.Code != http.StatusAccepted {
			t.Errorf("leaving %s: %d", u, rec.Code)
		}
	}
	if n := w.journal.stored(); n != 4 {
		t.Errorf("%d are stored", n)
	}
}

// With the switch on, signed deliveries go only to https callbacks. HUB-08
func TestRequireHTTPSCallbackForSecrets_HUB08(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.RequireHTTPSForSecrets = true })
	for _, tc := range []struct {
		callback, secret, mode string
		want                   int
	}{
		{"https://s.example/cb", "s", "subscribe", 202},
		{"HTTPS://s.example/cb", "s", "subscribe", 202},
		{"http://s.example/cb", "s", "subscribe", 403},
		{"http://s.example/https://", "s", "subscribe", 403},
		{"http://s.example/cb", "", "subscribe", 202},
		{"http://s.example/cb", "s", "unsubscribe", 202},
	} {
		r := form("hub.mode", tc.mode, "hub.topic", topic, "hub.callback", tc.callback, "hub.secret", tc.secret)
		if tc.secret == "" {
			r = form("hub.mode", tc.mode, "hub.topic", topic, "hub.callback", tc.callback)
		}
		r.TLS = &tls.ConnectionState{}
		if rec := w.do(r); rec.Code != tc.want || tc.want == 403 && !strings.Contains(rec.Body.String(), "https callback") {
			t.Errorf("%s to %s: %d %s", tc.mode, tc.callback, rec.Code, rec.Body)
		}
	}
}
