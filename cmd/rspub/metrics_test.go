package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rshub/rshub/test/ports"
)

// getFrom returns the status and body of the operator's listener.
func getFrom(t *testing.T, admin, path string) (status int, body string) {
	t.Helper()
	resp, err := http.Get("http://" + admin + path) //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// Readiness and metrics show what happens: changes reach the hub, the hub is unavailable, the
// folder is unavailable.
func TestServeOperator(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "books")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	h, admin := newTestHub(t), ports.Addr()
	hub := h.URL + "/"
	p := start(t, "--dir", dir, "--state-dir", t.TempDir(), "--dev", "--hub", hub, "--settle", "10ms", "--every", "10ms", "--rescan", "100ms", "--admin-listen", admin)
	shows := func(path string, status int, lines ...string) {
		t.Helper()
		eventually(t, func() error {
			got, body := getFrom(t, admin, path)
			for _, line := range lines {
				if !regexp.MustCompile("(?m)^" + line + "$").MatchString(body) {
					return fmt.Errorf("%s answers %d without %q:\n%s", path, got, line, body)
				}
			}
			if got != status {
				return fmt.Errorf("%s answers %d:\n%s", path, got, body)
			}
			return nil
		})
	}
	of := func(name, more string) string { return regexp.QuoteMeta(fmt.Sprintf("%s{hub=%q%s} ", name, hub, more)) }
	_, first := getFrom(t, admin, "/metrics")
	shows("/livez", 200, "ok")
	shows("/readyz", 200, "ok")
	if code, out, errs := command(t, "", "health", "--admin-listen", admin); code != 0 || out != "rspub is ready.\n" || errs != "" {
		t.Errorf("health: %d, %q, %q", code, out, errs)
	}
	shows("/metrics", 200, "rspub_ready 1", "rspub_resources 0", `rspub_changes_total\{change="created"\} 0`, of("rspub_posts_total", `,outcome="refused"`)+"0")
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("A"), 0o600); err != nil {
		t.Fatal(err)
	}
	shows("/metrics", 200, "rspub_resources 1", `rspub_changes_total\{change="created"\} 1`, of("rspub_hub_pending_notifications", "")+"0",
		of("rspub_hub_accepted_timestamp_seconds", "")+`[1-9]\S+`, of("rspub_hub_topics", `,state="up_to_date"`)+"2", `rspub_scan_timestamp_seconds [1-9]\S+`)

	h.Close()
	if err := os.WriteFile(filepath.Join(dir, "b.txt"), []byte("B"), 0o600); err != nil {
		t.Fatal(err)
	}
	// The topic of framework notifications may have something to report too.
	shows("/metrics", 200, "rspub_ready 1", of("rspub_hub_pending_notifications", "")+"[1-9]", of("rspub_hub_topics", `,state="waiting"`)+"[12]",
		of("rspub_posts_total", `,outcome="unavailable"`)+"[1-9].*", of("rspub_hub_oldest_pending_seconds", "")+"0?[^0].*")
	shows("/readyz?verbose", 200, `\[\+\] hubs: .* is waiting with . notifications? for .*`)

	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	shows("/readyz", 503, `\[-\] sets: .+`, "not ready")
	shows("/metrics", 200, "rspub_ready 0", "rspub_sets_failing 1")
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	shows("/readyz", 200, "ok")
	_, last := getFrom(t, admin, "/metrics")
	if before, after := strings.Count(first, "\nrspub_"), strings.Count(last, "\nrspub_"); before != after || before < 50 {
		t.Errorf("%d lines at first, %d in the end", before, after)
	}
	p.stop()
}

// Without a hub, too, changes are counted.
func TestServeWithoutAHub(t *testing.T) {
	dir, admin := t.TempDir(), ports.Addr()
	p := start(t, "--dir", dir, "--state-dir", t.TempDir(), "--dev", "--settle", "10ms", "--rescan", "100ms", "--admin-listen", admin)
	eventually(t, func() error {
		if status, body := getFrom(t, admin, "/readyz"); status != http.StatusOK {
			return fmt.Errorf("/readyz answers %d: %s", status, body)
		}
		return nil
	})
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("A"), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		_, body := getFrom(t, admin, "/metrics")
		if !regexp.MustCompile(`(?m)^rspub_changes_total\{change="created"\} 1$`).MatchString(body) || !regexp.MustCompile(`(?m)^rspub_change_timestamp_seconds [1-9]`).MatchString(body) {
			return fmt.Errorf("the change is not in %s", body)
		}
		return nil
	})
	p.stop()
}
