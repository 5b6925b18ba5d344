package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/program/cli"
)

// tailHub is a Source and its hub. It answers the first question for a stream with the events, breaks
// that off, and answers the others as then does.
type tailHub struct {
	*httptest.Server
	mu      sync.Mutex // a request of the case before can still be there
	events  []string
	streams int
	then    func(http.ResponseWriter, *http.Request)
}

// answer has the hub answer so, once its stream with events was read.
func (h *tailHub) answer(then func(http.ResponseWriter, *http.Request), events ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.then, h.events = then, events
}

func newTailHub(t *testing.T) *tailHub {
	h := new(tailHub)
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *tailHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case r.URL.Path == "/topic":
		w.Header().Set("Link", fmt.Sprintf(`<%s/topic>; rel="self", <%[1]s/>; rel="hub"`, h.URL))
	case r.URL.Path != "/":
		http.NotFound(w, r)
	case h.streams > 0 || h.events == nil:
		h.then(w, r)
	default:
		h.streams++
		w.Header().Set("Content-Type", "text/event-stream")
		for i, e := range h.events {
			_, _ = fmt.Fprintf(w, "retry: 100\n%sid: p%d\n\n", e, i)
		}
	}
}

// event is a notification as a hub has it in its stream.
func (h *tailHub) event(mediaType, document string) string {
	data, _ := json.Marshal(map[string]any{
		"id": "01a1fde0-b7e1-783d-bab2-93400a88ebae", "topic": h.URL + "/topic", "from": "2026-01-01T00:00:00Z", "until": "2026-01-01T00:01:00Z", "received_at": "2026-01-01T00:02:00Z",
		"content_type": mediaType, "size": len(document), "sha256": fmt.Sprintf("%x", sha256.Sum256([]byte(document))), "document": document,
	})
	return "event: notification\ndata: " + string(data) + "\n"
}

// tail runs `rshub topic tail` on the topic of h.
func (h *tailHub) tail(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var stdout, stderr strings.Builder
	root := cli.Root("rshub", "x", "v", cli.Group("topic", "x", tailCommand()))
	root.SetContext(ctx)
	code = cli.Execute(root, append([]string{"topic", "tail", h.URL + "/topic", "--dev"}, args...), strings.NewReader(""), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func refuses(status int, problem, detail string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"type":"https://h/problems#%s","detail":%q}`, problem, detail)
	}
}

// Each notification is a line for people, with its first changes, or a line of JSON with all of them.
// The stream is read again where it ended.
func TestTailPrints(t *testing.T) {
	var changes strings.Builder
	for i := range shownChanges + 2 {
		_, _ = fmt.Fprintf(&changes, `<url><loc>http://s/%d</loc><rs:md change="created" datetime="2026-01-01T00:00:30Z"/></url>`, i)
	}
	for _, json := range []bool{false, true} {
		h := newTailHub(t)
		events := []string{
			h.event("application/xml", `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`+
				`<rs:md capability="change-notification" from="2026-01-01T00:00:00Z" until="2026-01-01T00:01:00Z"/>`+changes.String()+`</urlset>`),
			h.event("text/plain", "hello\nGAP forged"),
			fmt.Sprintf("event: gap\ndata: {\"topic\":%q,\"from\":\"2026-01-01T00:01:00Z\",\"until\":\"2026-01-01T00:02:00Z\",\"reason\":\"retention\"}\n", h.URL+"/topic"),
		}
		last := ""
		h.answer(func(w http.ResponseWriter, r *http.Request) {
			last = r.Header.Get("Last-Event-ID")
			refuses(404, "history-off", "It has none.")(w, r)
		}, events...)
		args := map[bool][]string{true: {"--json"}}[json]
		code, out, errs := h.tail(t, args...)
		if code != cli.ExitRefused || last != "p2" || !strings.Contains(errs, "Reading "+h.URL+"/topic from "+h.URL+"/.") || !strings.Contains(errs, "It has none.") {
			t.Errorf("%d after %q: %s", code, last, errs)
		}
		lines := strings.Split(out, "\n")
		want := []string{
			"2026-01-01T00:02:00Z  +7 ~0 -0  2026-01-01T00:00:00Z to 2026-01-01T00:01:00Z",
			"  created http://s/0", "  created http://s/1", "  created http://s/2", "  created http://s/3", "  created http://s/4", "  ... and 2 more",
			"2026-01-01T00:02:00Z  text/plain, 16 B",
			"GAP  2026-01-01T00:01:00Z to 2026-01-01T00:02:00Z  retention: the hub keeps them no longer", "",
		}
		if json {
			head := `{"topic":"` + h.URL + `/topic",`
			id := head + `"notification_id":"01a1fde0-b7e1-783d-bab2-93400a88ebae","from":"2026-01-01T00:00:00Z","until":"2026-01-01T00:01:00Z","received_at":"2026-01-01T00:02:00Z",`
			want = []string{
				id + `"changes":[`, id + `"media_type":"text/plain","content":"hello\nGAP forged"}`,
				head + `"from":"2026-01-01T00:01:00Z","until":"2026-01-01T00:02:00Z","gap":"retention"}`, "",
			}
			if n := strings.Count(lines[0], `"url":"http://s/`); n != shownChanges+2 {
				t.Errorf("%d changes: %s", n, lines[0])
			}
			lines[0] = lines[0][:min(len(lines[0]), len(want[0]))]
		}
		if strings.Join(lines, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
		}
	}
}

// A person reads what is wrong, and a script its exit code.
func TestTailExplains(t *testing.T) {
	h := newTailHub(t)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for says, c := range map[string]struct {
		then func(http.ResponseWriter, *http.Request)
		args []string
		code int
	}{
		"Give the token of a reader with --hub and --token-file": {refuses(401, "no-credential", "Known readers only."), nil, cli.ExitRefused},
		"is not that of a reader":                                {refuses(401, "wrong-credential", "The token is not that of a reader."), []string{"--hub", h.URL + "/", "--token-file", token}, cli.ExitRefused},
		"the token would go to http://192.0.2.1/ over plain":     {nil, []string{"--hub", "http://192.0.2.1/", "--token-file", token}, cli.ExitRefused},
		"the hub has no stream":                                  {refuses(406, "x", "No stream."), nil, cli.ExitRefused},
		"too many are open":                                      {refuses(429, "too-many-reads", "Too many: too many are open."), nil, cli.ExitRefused},
		"Is it the URL of a topic?":                              {nil, []string{h.URL + "/nothing"}, cli.ExitNotFound},
		"33 topics are too many; give at most 32":                {nil, strings.Split(strings.Repeat(h.URL+"/topic ", 32), " ")[:32], cli.ExitUsage},
	} {
		if c.then == nil {
			c.then = refuses(404, "unknown-topic", "Nothing.")
		}
		h.answer(c.then)
		if code, out, errs := h.tail(t, c.args...); code != c.code || !strings.Contains(errs, says) || out != "" || strings.Contains(errs, "secret") {
			t.Errorf("%d, want %d with %q: %s%s", code, c.code, says, out, errs)
		}
	}
}
