package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/websub"
)

// oldHub is a topic and its hub, which signs with SHA-1, and delivers one notification
// as often as it is not accepted.
func oldHub(t *testing.T) *httptest.Server {
	const note = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">` +
		`<rs:md capability="change-notification" from="2026-01-01T00:00:00Z" until="2026-01-01T00:00:01Z"/>` +
		`<url><loc>http://source.example/a</loc><rs:md change="updated" datetime="2026-01-01T00:00:01Z"/></url></urlset>`
	ctx := t.Context()
	send := func(req *http.Request, err error) int {
		if err != nil {
			return 0
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	deliver := func(callback, topic, secret string) {
		to := websub.AppendQuery(callback, websub.Param{Name: websub.ParamMode, Value: "subscribe"}, websub.Param{Name: websub.ParamTopic, Value: topic},
			websub.Param{Name: websub.ParamChallenge, Value: "abc"})
		send(http.NewRequestWithContext(ctx, http.MethodGet, to, nil))
		for ctx.Err() == nil {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, callback, strings.NewReader(note))
			if err == nil {
				req.Header.Set("Content-Type", "application/xml")
				req.Header.Set(websub.HeaderSignature, websub.SHA1.Sign(secret, []byte(note)))
			}
			if send(req, err)/100 == 2 {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	mux := http.NewServeMux()
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	mux.HandleFunc("/topic", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", `<`+s.URL+`/topic>; rel="self", <`+s.URL+`/hub>; rel="hub"`)
	})
	mux.HandleFunc("/hub", func(w http.ResponseWriter, r *http.Request) {
		callback, topic, secret := r.PostFormValue(websub.ParamCallback), r.PostFormValue(websub.ParamTopic), r.PostFormValue(websub.ParamSecret)
		w.WriteHeader(http.StatusAccepted)
		go deliver(callback, topic, secret)
	})
	return s
}

// Deliveries signed with SHA-1 are accepted with --min-signature sha1. Without it the log and the
// status say which flag accepts them.
func TestMinSignature(t *testing.T) {
	const reason = "weak signature: the hub signs with sha1, and --min-signature is sha256"
	for name, c := range map[string]struct {
		flags   []string
		printed string // on stdout or stderr, in the end
	}{
		"as it is":        {nil, reason},
		"sha1 is allowed": {[]string{"--min-signature", "sha1"}, `"url":"http://source.example/a"`},
	} {
		t.Run(name, func(t *testing.T) {
			hub, dir := oldHub(t), filepath.Join(t.TempDir(), "state")
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			var out, errs printed
			go func() {
				for ctx.Err() == nil && !strings.Contains(out.String()+errs.String(), c.printed) {
					time.Sleep(10 * time.Millisecond)
				}
				cancel()
			}()
			args := append([]string{"listen", "--topic", hub.URL + "/topic", "--dev", "--listen", "127.0.0.1:0", "--state-dir", dir, "--hold-for", "10ms"}, c.flags...)
			if code := run(ctx, args, strings.NewReader(""), &out, &errs); code != cli.ExitOK || !strings.Contains(out.String()+errs.String(), c.printed) {
				t.Fatalf("%d\n%s%s", code, out.String(), errs.String())
			}
			code, status, _ := rssub(t.Context(), "status", "--state-dir", dir)
			if code != cli.ExitOK || strings.Contains(status, reason) != (c.flags == nil) {
				t.Errorf("%d\n%s", code, status)
			}
		})
	}
}
