package cli

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// wrongHub is a hub that does one thing wrong.
type wrongHub struct {
	t                                 *testing.T
	denies, silent, unsigned, changes bool
	callback, topic, secret           string
	sending                           sync.WaitGroup
}

func (h *wrongHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		h.t.Error(err)
	}
	if r.Header.Get("Content-Type") == "application/xml" {
		if !h.silent {
			h.sending.Go(func() { h.deliver(body) }) //nolint:contextcheck // the request that was answered does not end it
		}
		return
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		h.t.Error(err)
	}
	h.callback, h.topic, h.secret = form.Get("hub.callback"), form.Get("hub.topic"), form.Get("hub.secret")
	mode := "subscribe"
	if h.denies {
		mode = "denied"
	}
	asks := h.callback + "?" + url.Values{"hub.mode": {mode}, "hub.topic": {h.topic}, "hub.challenge": {"c"}, "hub.reason": {"full"}}.Encode()
	h.sending.Go(func() { h.send(http.MethodGet, asks, nil, "") }) //nolint:contextcheck // as above
	w.WriteHeader(http.StatusAccepted)
}

func (h *wrongHub) deliver(body []byte) {
	mac := hmac.New(sha256.New, []byte(h.secret))
	_, _ = mac.Write(body) // it never fails
	signature := "sha256=" + hex.EncodeToString(mac.Sum(nil))
	if h.unsigned {
		signature = ""
	}
	if h.changes {
		body = append(bytes.Clone(body), ' ')
	}
	h.send(http.MethodPost, h.callback, body, signature)
}

func (h *wrongHub) send(method, to string, body []byte, signature string) {
	req, err := http.NewRequestWithContext(h.t.Context(), method, to, bytes.NewReader(body))
	if err != nil {
		h.t.Error(err)
		return
	}
	req.Header.Set("X-Hub-Signature", signature)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		h.t.Error(err)
		return
	}
	_ = resp.Body.Close()
}

// What a hub does wrong is no success.
func TestTryNoticesWhatIsWrong(t *testing.T) {
	for says, h := range map[string]*wrongHub{
		"":                                 {},
		"denies the subscription: full":    {denies: true},
		"does not deliver it":              {silent: true},
		"the signature of the delivery":    {unsigned: true},
		"the hub delivered something else": {changes: true},
	} {
		t.Run(says, func(t *testing.T) {
			h.t = t
			hub := httptest.NewServer(h)
			defer hub.Close()
			var o *tryout
			own := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { o.ServeHTTP(w, r) }))
			defer own.Close()
			defer h.sending.Wait()
			o = newTryout("http://hub.example.org/", hub.URL, own.URL+"/x")
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if h.silent {
				time.AfterFunc(500*time.Millisecond, cancel)
			}
			_, err := o.run(ctx)
			if (err == nil) != (says == "") || says != "" && !strings.Contains(err.Error(), says) {
				t.Errorf("%v, want %q", err, says)
			}
		})
	}
}
