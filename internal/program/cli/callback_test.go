package cli

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/rshub/rshub/websub"
)

// trial starts a callback and returns how to call it and what it printed.
func trial(t *testing.T, secret string, status int) (call func(method, query, body string, header ...string) (int, string), printed func() string) {
	t.Helper()
	var out bytes.Buffer
	c := &callback{secret: secret, status: status, out: &out}
	call = func(method, query, body string, header ...string) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), method, "http://c.example/cb?"+query, strings.NewReader(body))
		for i := 0; i+1 < len(header); i += 2 {
			r.Header.Add(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	return call, func() string { defer out.Reset(); return out.String() }
}

func TestCallbackConfirms(t *testing.T) {
	call, printed := trial(t, "", 204)
	q := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {"https://t.example/\x1b["}, "hub.challenge": {"<c>"}, "hub.lease_seconds": {"300"}}
	if code, body := call("GET", q.Encode(), ""); code != 200 || body != "<c>" {
		t.Errorf("answered %d %q", code, body)
	}
	if got := printed(); !strings.Contains(got, "confirmed: subscribe https://t.example/\\u001b[ for 300 s at /cb\n") {
		t.Errorf("printed %q", got)
	}
	if code, _ := call("GET", "hub.mode=denied&hub.topic=t&hub.reason=no", ""); code != 200 || !strings.Contains(printed(), "denied: t, because: no") {
		t.Errorf("a denial: %d", code)
	}
	if code, _ := call("GET", "", ""); code != 404 {
		t.Errorf("a visitor: %d", code)
	}
	if code, _ := call("PUT", "", ""); code != 405 {
		t.Errorf("PUT: %d", code)
	}
}

func TestCallbackShowsDeliveries(t *testing.T) {
	call, printed := trial(t, "s3cret", 503)
	body := "<a>\n\t<b/>\n</a>\n"
	if code, _ := call("POST", "x=1", body, "Webhook-Id", "id-1", "X-Hub-Signature", websub.SHA256.Sign("s3cret", []byte(body))); code != 503 {
		t.Errorf("answered %d", code)
	}
	got := printed()
	for _, part := range []string{"delivered: POST /cb?x=1, 15 B, answered 503\n", "  Webhook-Id: id-1\n", " (right)\n", "  | <a>\n  |     <b/>\n  | </a>\n"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is missing in\n%s", part, got)
		}
	}
	call("POST", "", body, "X-Hub-Signature", websub.SHA256.Sign("other", []byte(body)))
	if got := printed(); !strings.Contains(got, "(WRONG: ") {
		t.Error(got)
	}
	call("POST", "", strings.Repeat("x", 5000))
	if got := printed(); !strings.Contains(got, "not signed, though") || !strings.Contains(got, "... 3.9 KiB more") || len(got) > 2000 {
		t.Error(got)
	}
	call, printed = trial(t, "", 204)
	call("POST", "", body, "X-Hub-Signature", "sha256=00")
	if got := printed(); !strings.Contains(got, "not checked: no --secret") {
		t.Error(got)
	}
}

func TestCallbackServesUntilTold(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w := io.Pipe()
	ended := make(chan error, 1)
	c := &callback{status: 204, out: io.Discard}
	go func() { ended <- c.serve(ctx, "127.0.0.1:0", w) }()
	line := make([]byte, 200)
	n, err := r.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	where := strings.Fields(string(line[:n]))[3]
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, where, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != 204 {
		t.Errorf("answered %d", resp.StatusCode)
	}
	if err := c.serve(ctx, strings.TrimSuffix(strings.TrimPrefix(where, "http://"), "/"), io.Discard); err == nil || !strings.Contains(err.Error(), "--listen") {
		t.Errorf("listening twice: %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
