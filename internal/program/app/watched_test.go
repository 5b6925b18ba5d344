package app

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rshub/rshub/internal/program/config"
	"github.com/rshub/rshub/websub"
)

func put(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A few seconds after files change, the hub uses their new content by itself: the publishers, the
// secrets that they name, even for the first time, and the operator's token. A mistake is logged once
// and changes nothing.
func TestFilesAreWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		at := func(name string) string { return filepath.Join(dir, name) }
		put(t, at("token"), "the-first-token-of-all")
		core, logs := observer.New(zapcore.InfoLevel)
		cfg := config.Config{PublishersFile: at("publishers.yaml"), AdminTokenFile: at("token"), AdminToken: "the-first-token-of-all"}
		a, err := New(cfg, zap.New(core), "test")
		if err != nil {
			t.Fatal(err)
		}
		a.stops.background(t.Context(), "files", a.reloads.watch, make(chan error, 1))
		defer func() { _ = a.stops.stop(context.WithoutCancel(t.Context()), zap.NewNop()) }()
		// within is the time in which the docs say that a change is in force.
		within := func(events ...string) {
			t.Helper()
			time.Sleep(5 * time.Second)
			synctest.Wait()
			var got []string
			for _, line := range logs.TakeAll() {
				got = append(got, fmt.Sprint(line.ContextMap()["event"]))
			}
			if fmt.Sprint(got) != fmt.Sprint(events) {
				t.Errorf("the log has %v, want %v", got, events)
			}
			time.Sleep(time.Minute)
			if n := logs.Len(); n != 0 {
				t.Errorf("%d more lines", n)
			}
		}
		signs := func(secret string, want bool) {
			t.Helper()
			_, err := a.publishers.live.BySignature(websub.SHA256.Sign(secret, []byte("x")), []byte("x"), "https://example.org/", func() error { return nil })
			if (err == nil) != want {
				t.Errorf("signed with %s: %v", secret, err)
			}
		}
		within() // nothing changed

		put(t, at("publishers.yaml"), fmt.Sprintf("publishers:\n- {name: alice, topics: '*', token_sha256: %x}\n", sha256.Sum256([]byte("one"))))
		within("reloaded")
		if _, err := a.publishers.live.ByToken("one", "https://example.org/"); err != nil {
			t.Error(err)
		}
		put(t, at("publishers.yaml"), "publishers:\n- {name: bob, topics: '*', hmac_secret_file: bob.secret}\n")
		within("reload_failed") // there is no such file yet
		put(t, at("bob.secret"), "shh")
		within("reloaded")
		signs("shh", true)
		put(t, at("bob.secret"), "another")
		within("reloaded")
		signs("shh", false)
		signs("another", true)
		if err := os.Remove(at("bob.secret")); err != nil {
			t.Fatal(err)
		}
		within("reload_failed")
		signs("another", true)

		put(t, at("token"), "the-second-token-of-all\n")
		within("token_reloaded")
		if got := a.token.get(); got != "the-second-token-of-all" {
			t.Errorf("the operator's token is %q", got)
		}
		put(t, at("token"), "")
		within("token_reload_failed")
		if got := a.token.get(); got != "the-second-token-of-all" {
			t.Errorf("the operator's token is %q", got)
		}
	})
}

// Reload reads everything at once and returns the result of each part. From then on the listener needs
// the new token.
func TestReloadOfAll(t *testing.T) {
	dir := t.TempDir()
	f := newFiles(t, newPair(t, 1, nextYear()))
	token := filepath.Join(dir, "token")
	put(t, token, "the-first-token-of-all")
	a := newApp(t, "--tls-cert="+f.cert, "--tls-key="+f.key, "--admin-token-file="+token)
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Stop(context.WithoutCancel(t.Context())) }()
	reload := func(token string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+a.AdminAddr()+"/api/v1/reload", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		return fetch(t, req)
	}
	put(t, token, "the-second-token-of-all")
	f.put(t, newPair(t, 2, nextYear()))
	put(t, a.cfg.PublishersFile, "publishers:\n- {name: alice, topics: '*', token_sha256: "+strings.Repeat("ab", 32)+"}\n")
	status, body := reload("the-first-token-of-all")
	if status != http.StatusOK || serialOf(a.public.certificate) != 2 {
		t.Errorf("%d, certificate %d", status, serialOf(a.public.certificate))
	}
	for _, part := range []string{`"1 in force; added alice"`, `"operator's token"`, `"another one than before"`, `"good until `, a.cfg.PublishersFile} {
		if !strings.Contains(body, part) {
			t.Errorf("%s is missing in %s", part, body)
		}
	}
	if status, _ := reload("the-first-token-of-all"); status != http.StatusUnauthorized {
		t.Errorf("with the old token: %d", status)
	}
	f.put(t, newPair(t, 3, time.Now().Add(-time.Hour)))
	put(t, a.cfg.PublishersFile, "publishers:\n- {name: alice}\n")
	status, body = reload("the-second-token-of-all")
	if status != http.StatusUnprocessableEntity || serialOf(a.public.certificate) != 2 {
		t.Errorf("%d, certificate %d", status, serialOf(a.public.certificate))
	}
	for _, part := range []string{"has neither topics nor reads", "has run out", "Read again: operator's token."} {
		if !strings.Contains(body, part) {
			t.Errorf("%s is missing in %s", part, body)
		}
	}
	_, figures := get(t, "http://"+a.AdminAddr()+"/metrics")
	for what, success := range map[string]int{"publishers": 0, "certificate": 0, "admin_token": 1, "admin_certificate": 1, "admin_readonly_token": 1} {
		if line := fmt.Sprintf("rshub_reload_success{what=%q} %d\n", what, success); !strings.Contains(figures, line) {
			t.Errorf("there is no line %s", line)
		}
	}
	if strings.Contains(figures, `rshub_reload_timestamp_seconds{what="admin_token"} 0`) || !strings.Contains(figures, `rshub_reload_timestamp_seconds{what="admin_certificate"} 0`) ||
		strings.Contains(figures, `rshub_certificate_not_after_timestamp_seconds{listener="public"} 0`) {
		t.Error("the times of reloads and certificates are wrong")
	}
}
