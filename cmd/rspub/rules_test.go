package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The rules are read again when the file changes. If they are wrong then, those of before
// stay in force, and the log names the line. The file is no resource.
func TestServeReadsRulesAgain(t *testing.T) {
	dir := t.TempDir()
	rules := filepath.Join(dir, "rules.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(rules+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(rules+".new", rules); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("A"), 0o600); err != nil {
		t.Fatal(err)
	}
	write("resources:\n- {for: '*', collection: 'https://example.org/one'}\n")
	p := start(t, "--dir", dir, "--state-dir", t.TempDir(), "--dev", "--rules", rules, "--settle", "10ms", "--list-every", "10ms", "--ignore", "*.new")
	listed := func(path string, want ...string) {
		t.Helper()
		eventually(t, func() error {
			resp, err := http.Get(p.url + path) //nolint:noctx // of a test
			if err != nil {
				return err
			}
			defer func() { _ = resp.Body.Close() }()
			body, _ := io.ReadAll(resp.Body) // what is missing is not found
			for _, s := range want {
				if !strings.Contains(string(body), s) {
					return fmt.Errorf("%s lacks %s\n%s", path, s, body)
				}
			}
			return nil
		})
	}
	listed("resourcelist.xml", "a.txt</loc>", `href="https://example.org/one"`)
	write("resources:\n- {for: '*', collection: 'https://example.org/two'}\n")
	listed("changelist.xml", `change="updated"`, `href="https://example.org/two"`)
	listed("resourcelist.xml", `href="https://example.org/two"`)
	write("resources:\n- {for: '*', colection: 'https://example.org/three'}\n")
	p.said("rules.yaml:2: there is no setting")
	if _, out, _ := command(t, "", "check", "--dev", p.url); !strings.Contains(out, "1 entry of 1 fetched") {
		t.Errorf("there is more than one resource:\n%s", out)
	}
	p.stop()
}

// At the start rspub compares what the URLs of resources answer with the files.
func TestServeChecksResources(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("A"), 0o600); err != nil {
		t.Fatal(err)
	}
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "B") }))
	defer other.Close()
	p := start(t, "--dir", dir, "--state-dir", t.TempDir(), "--dev", "--resource-url", other.URL, "--settle", "10ms")
	p.said("a.txt has other bytes than the file")
	p.stop()

	files := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer files.Close()
	p = start(t, "--dir", dir, "--state-dir", t.TempDir(), "--dev", "--resource-url", files.URL, "--settle", "10ms", "--list-every", "10ms")
	eventually(t, func() error {
		if code, out, errs := command(t, "", "check", "--dev", p.url); code != 0 || !strings.Contains(out, "1 entry of 1 fetched, and as the list says") {
			return fmt.Errorf("check exits %d\n%s%s", code, out, errs)
		}
		return nil
	})
	if log := p.stop(); strings.Contains(log, "resources_unlike_listed") {
		t.Error(log)
	}
}
