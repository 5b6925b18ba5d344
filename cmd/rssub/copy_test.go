package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/internal/program/cli"
)

// sitemap is a Source that is one list with hashes.
type sitemap struct {
	*httptest.Server
	mu    sync.Mutex
	files map[string]string
	empty bool
}

func newSitemap(t *testing.T) *sitemap {
	s := &sitemap{files: map[string]string{"/a.txt": "hello\n", "/b/c.txt": "there\n"}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if body, ok := s.files[r.URL.Path]; ok {
			_, _ = fmt.Fprint(w, body)
			return
		}
		if r.URL.Path != "/list.xml" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/xml")
		_, _ = fmt.Fprint(w, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="resourcelist" at="2026-01-01T00:00:00Z"/>`)
		for _, p := range []string{"/a.txt", "/b/c.txt", "/gone.txt"} {
			if _, ok := s.files[p]; !s.empty && (ok || p == "/gone.txt") {
				_, _ = fmt.Fprintf(w, `<url><loc>%s%s</loc><rs:md length="6"/></url>`, s.URL, p)
			}
		}
		_, _ = fmt.Fprint(w, `</urlset>`)
	}))
	t.Cleanup(s.Close)
	return s
}

// rssub runs the command and returns its exit code and what it printed.
func rssub(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(ctx, args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// A 404 for one resource does not stop the others. It is printed, and the exit code is 6 until
// the resource is there.
func TestSyncAndAudit(t *testing.T) {
	s, dir := newSitemap(t), filepath.Join(t.TempDir(), "copy")
	args := []string{s.URL + "/list.xml", "--dir", dir, "--dev", "--map", s.URL + "/=."}
	if code, out, errs := rssub(t.Context(), append([]string{"sync", "--dry-run"}, args...)...); code != cli.ExitOK || !strings.Contains(out, "(dry run: would be)") {
		t.Errorf("dry run: %d\n%s%s", code, out, errs)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("a dry run made the folder: %v", err)
	}
	if code, _, errs := rssub(t.Context(), append([]string{"audit"}, args...)...); code != cli.ExitNotFound || !strings.Contains(errs, "--dir") {
		t.Errorf("audit of nothing: %d %s", code, errs)
	}
	code, out, errs := rssub(t.Context(), append([]string{"sync"}, args...)...)
	if code != cli.ExitPartial || !strings.Contains(out, "gone.txt answered 404") || !strings.Contains(out, "copied") {
		t.Errorf("%d\n%s%s", code, out, errs)
	}
	if raw, err := os.ReadFile(filepath.Join(dir, "b/c.txt")); err != nil || string(raw) != "there\n" {
		t.Errorf("%q, %v", raw, err)
	}
	s.mu.Lock()
	s.files["/gone.txt"] = "again\n"
	s.mu.Unlock()
	code, out, errs = rssub(t.Context(), append([]string{"sync", "--json"}, args...)...)
	var report map[string]any
	if err := json.Unmarshal([]byte(out), &report); code != cli.ExitOK || err != nil || report["copied"] != 1.0 || report["failed"] != 0.0 {
		t.Errorf("%d %v\n%s%s", code, err, out, errs)
	}
	if code, out, errs = rssub(t.Context(), append([]string{"audit"}, args...)...); code != cli.ExitOK || !strings.Contains(out, "in sync") {
		t.Errorf("%d\n%s%s", code, out, errs)
	}
	if err := os.WriteFile(filepath.Join(dir, "stray"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "a.txt")); err != nil {
		t.Fatal(err)
	}
	if code, out, errs = rssub(t.Context(), append([]string{"audit"}, args...)...); code != cli.ExitPartial || !strings.Contains(out, "NOT in sync") || !strings.Contains(out, "stray") {
		t.Errorf("%d\n%s%s", code, out, errs)
	}
	if code, out, errs = rssub(t.Context(), append([]string{"audit", "--repair"}, args...)...); code != cli.ExitOK || !strings.Contains(out, "1 copied, 1 deleted") {
		t.Errorf("%d\n%s%s", code, out, errs)
	}
	s.mu.Lock()
	s.empty = true
	s.mu.Unlock()
	if code, out, errs = rssub(t.Context(), append([]string{"sync"}, args...)...); code != cli.ExitPartial || !strings.Contains(out, "is suddenly empty") {
		t.Errorf("%d\n%s%s", code, out, errs)
	}
	if code, out, errs = rssub(t.Context(), append([]string{"sync", "--max-delete", "100%"}, args...)...); code != cli.ExitOK || !strings.Contains(out, "deleted") {
		t.Errorf("%d\n%s%s", code, out, errs)
	}
	if _, err := os.Stat(filepath.Join(dir, "a.txt")); !os.IsNotExist(err) {
		t.Error(err)
	}
}

func TestCopyExitCodes(t *testing.T) {
	s := newSitemap(t)
	breaksOff := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/.well-known/resourcesync", "/list.xml":
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`)
		case "/silent":
			panic(http.ErrAbortHandler)
		default:
			http.NotFound(w, r)
		}
	}))
	defer breaksOff.Close()
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"sync", s.URL}, cli.ExitUsage, "dir"},
		{[]string{"sync", "--dir", "x"}, cli.ExitUsage, "which Source?"},
		{[]string{"sync", s.URL, "--dir", "DIR", "--dev", "--max-delete", "some"}, cli.ExitUsage, "write it like 100 or 25%"},
		{[]string{"sync", s.URL, "--dir", "DIR", "--dev", "--map", "nothing"}, cli.ExitUsage, "URL=FOLDER"},
		{[]string{"sync", s.URL, "--dir", "DIR", "--dev", "--baseline", "tape"}, cli.ExitUsage, "auto, list or dump"},
		{[]string{"sync", s.URL, "--dir", "DIR", "--dev", "--token-file", "h"}, cli.ExitUsage, "HOST=FILE"},
		{[]string{"sync", s.URL + "/nothing", "--dir", "DIR", "--dev"}, cli.ExitNotFound, "404"},
		{[]string{"sync", s.URL + "/list.xml", "--dir", "DIR"}, cli.ExitRefused, "--allow-cidr"},
		{[]string{"sync", "http://127.0.0.1:2/", "--dir", "DIR", "--dev"}, cli.ExitUnreachable, "127.0.0.1:2"},
		{[]string{"sync", breaksOff.URL, "--dir", "DIR", "--dev"}, cli.ExitUnreachable, "reading http"},
		{[]string{"sync", breaksOff.URL + "/list.xml", "--dir", "DIR", "--dev"}, cli.ExitUnreachable, "reading http"},
		{[]string{"sync", breaksOff.URL + "/silent", "--dir", "DIR", "--dev"}, cli.ExitUnreachable, "closed the connection before it answered"},
		{[]string{"follow", s.URL, "--dir", "DIR", "--listen", "127.0.0.1:0"}, cli.ExitUsage, "--callback-url"},
	} {
		for i := range c.args {
			if c.args[i] == "DIR" {
				c.args[i] = filepath.Join(t.TempDir(), "copy")
			}
		}
		code, _, errs := rssub(t.Context(), c.args...)
		if code != c.code || !strings.Contains(errs, c.says) {
			t.Errorf("%q exits %d, want %d:\n%s", c.args, code, c.code, errs)
		}
	}
}

// Resources for which there is no room are reported with the flag that limits them, and the exit
// code is 6.
func TestCopyWithoutRoom(t *testing.T) {
	s := newSitemap(t)
	for _, limit := range []string{"--max-total=5", "--min-free-disk=1152921504606846976"} {
		code, out, errs := rssub(t.Context(), "sync", s.URL+"/list.xml", "--dir", filepath.Join(t.TempDir(), "copy"), "--dev", limit)
		if name, _, _ := strings.Cut(limit, "="); code != cli.ExitPartial || !strings.Contains(out, "there is no room for it") || !strings.Contains(out, name) {
			t.Errorf("%s exits %d:\n%s%s", limit, code, out, errs)
		}
	}
	code, out, errs := rssub(t.Context(), "sync", s.URL+"/list.xml", "--dir", filepath.Join(t.TempDir(), "copy"), "--dev", "--max-total=0", "--min-free-disk=0")
	if strings.Contains(out, "there is no room") || code == cli.ExitUsage {
		t.Errorf("without limits it exits %d:\n%s%s", code, out, errs)
	}
}

// The status of a copy shows delayed deletions, resources that could not be fetched, and sets
// without a stream of changes. It can be asked for by the folder of the copy, too.
func TestStatusOfACopy(t *testing.T) {
	s, dir := newSitemap(t), filepath.Join(t.TempDir(), "copy")
	sync := []string{"sync", s.URL + "/list.xml", "--dir", dir, "--dev"}
	if code, out, errs := rssub(t.Context(), sync...); code != cli.ExitPartial {
		t.Fatalf("%d\n%s%s", code, out, errs)
	}
	status := func(want ...string) {
		t.Helper()
		code, out, errs := rssub(t.Context(), "status", "--dir", dir)
		for _, w := range want {
			if code != cli.ExitOK || !strings.Contains(out, w) {
				t.Errorf("%d, and no %q in\n%s%s", code, w, out, errs)
			}
		}
	}
	status("set             "+s.URL+"/list.xml\n", "baseline as of  2026-01-01T00:00:00Z\n", "failed          1 unavailable; tried again\n")
	s.mu.Lock()
	s.empty = true
	s.mu.Unlock()
	if code, out, errs := rssub(t.Context(), sync...); code != cli.ExitPartial || !strings.Contains(out, "not deleted") {
		t.Fatalf("%d\n%s%s", code, out, errs)
	}
	status("not deleted     2, delayed by --max-delete; if the Source is right, run sync with a larger --max-delete\n", "  held          "+s.URL+"/a.txt\n")
	// A resource that could not be fetched is not shown once no list names it any more.
	code, out, _ := rssub(t.Context(), "status", "--state-dir", filepath.Join(dir, ".rssub"), "--json")
	if code != cli.ExitOK || !strings.Contains(out, `"deletions_held": 2`) || !strings.Contains(out, `"failed": 0`) {
		t.Errorf("%d\n%s", code, out)
	}
}

// A status that cannot be read is a failure, and no copy that is not there. What can be read is printed all the same.
func TestStatusThatCannotBeRead(t *testing.T) {
	s, dir := newSitemap(t), filepath.Join(t.TempDir(), "copy")
	if code, out, errs := rssub(t.Context(), "sync", s.URL+"/list.xml", "--dir", dir, "--dev"); code != cli.ExitPartial {
		t.Fatalf("%d\n%s%s", code, out, errs)
	}
	status, set := filepath.Join(dir, ".rssub", "copy.json"), filepath.Join(dir, ".rssub", "set-1")
	if err := os.WriteFile(status, []byte("[{"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := status + " is damaged, and the next sync writes it anew"
	if code, out, errs := rssub(t.Context(), "status", "--dir", dir); code != cli.ExitFailure || !strings.Contains(errs, want) {
		t.Errorf("%d\n%s%s", code, out, errs)
	}
	if err := errors.Join(os.Mkdir(set, 0o700), os.WriteFile(filepath.Join(set, "status.json"), []byte("{}"), 0o600), os.WriteFile(filepath.Join(set, "set"), []byte("the set"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := rssub(t.Context(), "status", "--dir", dir, "--json"); code != cli.ExitFailure || !strings.Contains(errs, want) || !strings.Contains(out, `"the set"`) {
		t.Errorf("%d\n%s%s", code, out, errs)
	}
	if err := errors.Join(os.RemoveAll(set), os.Remove(status), os.Mkdir(status, 0o700)); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := rssub(t.Context(), "status", "--dir", dir); code != cli.ExitFailure || !strings.Contains(errs, "copy.json: is a directory") {
		t.Errorf("%d\n%s%s", code, out, errs)
	}
}

// Follow of a Source without a hub copies it, prints what it did, and ends with ctx.
func TestFollowWithoutHub(t *testing.T) {
	s, dir := newSitemap(t), filepath.Join(t.TempDir(), "copy")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out, errs printed
	copied := func() bool {
		return strings.Contains(out.String(), "copied b/c.txt 6 B") && strings.Contains(out.String(), "failed")
	}
	go func() {
		for ctx.Err() == nil && !copied() {
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
	}()
	args := []string{"follow", s.URL + "/list.xml", "--dir", dir, "--dev", "--listen", "127.0.0.1:0", "--map", s.URL + "/=."}
	code := run(ctx, args, strings.NewReader(""), &out, &errs)
	if code != cli.ExitOK || !copied() {
		t.Errorf("%d\n%s%s", code, out.String(), errs.String())
	}
}

// With --poll a Destination polls a Source even if the Source has a hub, and does not listen. The
// next poll finds the changes.
func TestFollowPolls(t *testing.T) {
	s, dir := newSitemap(t), filepath.Join(t.TempDir(), "copy")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out, errs printed
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, []string{"follow", s.URL + "/list.xml", "--dir", dir, "--dev", "--poll", "20ms", "--map", s.URL + "/=."}, strings.NewReader(""), &out, &errs)
	}()
	says := func(what string) {
		t.Helper()
		for !strings.Contains(out.String(), what) {
			if !clock.Sleep(ctx, 10*time.Millisecond) {
				t.Fatalf("no %q in\n%s%s", what, out.String(), errs.String())
			}
		}
	}
	says("copied b/c.txt 6 B")
	s.mu.Lock()
	s.files["/gone.txt"] = "found\n"
	s.mu.Unlock()
	says("copied gone.txt 6 B")
	cancel()
	if code := <-done; code != cli.ExitOK || !strings.Contains(errs.String(), "so the Source is asked for changes") || strings.Contains(errs.String(), "the callback listens") {
		t.Errorf("%d\n%s", code, errs.String())
	}
}

// printed is a buffer that can be read while it is written to.
type printed struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.buf.Write(b)
}

func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.buf.String()
}

func TestHelp(t *testing.T) {
	for _, name := range []string{"sync", "follow", "audit"} {
		code, out, _ := rssub(t.Context(), name, "-h")
		if code != cli.ExitOK || !strings.Contains(out, "Examples:") || !strings.Contains(out, "--max-delete") {
			t.Errorf("%s -h: %d\n%s", name, code, out)
		}
	}
}
