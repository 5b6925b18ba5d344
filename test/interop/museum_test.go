package interop

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rshub/rshub/test/ports"
)

var museumRows = []row{{
	"a museum behind nginx",
	"`rspub build --resource-url` into the web root, as from cron, of 2,000 pages and images, with the settings of publisher.md and gzip on: `rspub check`, `resync-sync` and `rssub sync` from the start, " +
		"after changes and, `rssub` alone, after the pages got shorter URLs; both audits find the copies in sync",
	museum,
}}

// site is a web site of pages and images.
type site struct {
	t     *testing.T
	dir   string
	files map[string]string // by path
	rules []string          // the flags for them
	url   string
	state string
}

func (s *site) write(path, content string) {
	s.t.Helper()
	name := filepath.Join(s.dir, filepath.FromSlash(path))
	must(s.t, os.MkdirAll(filepath.Dir(name), 0o755))
	must(s.t, os.WriteFile(name, []byte(content), 0o644))
	s.files[path] = content
}

// build is what cron runs.
func (s *site) build() {
	s.t.Helper()
	args := append([]string{"build", "--dir", s.dir, "--out", s.dir, "--state-dir", s.state, "--public-url", s.url, "--resource-url", s.url, "--settle", "1ns"}, s.rules...)
	if out := runs(s.t, s.dir, nil, command("rspub"), args...); strings.Contains(out, "resources_unlike_listed") || !strings.Contains(out, fmt.Sprint(len(s.files))+" resources,") {
		s.t.Fatalf("rspub build printed:\n%s", out)
	}
}

// same compares a copy with the site.
func (s *site) same(dir string, name func(path string) string) {
	s.t.Helper()
	want := make(map[string]string)
	for path, content := range s.files {
		want[name(path)] = content
	}
	have := tree(s.t, dir)
	maps.DeleteFunc(have, func(path, _ string) bool { return strings.HasPrefix(path, ".rssub/") })
	if !maps.Equal(want, have) {
		for path := range want {
			if have[path] != want[path] {
				s.t.Errorf("%s is not as in the site", path)
			}
			delete(have, path)
		}
		s.t.Fatalf("the copy has these besides: %v", slices.Sorted(maps.Keys(have)))
	}
}

func museum(t *testing.T, c *checks) string {
	py, env := python(t, resyncModules, *resyncDir)
	version := resyncVersion(t, py, env)
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		must(t, os.Chmod(d, 0o755))
	}
	addr := ports.Addr()
	_, port, _ := strings.Cut(addr, ":")
	s := &site{t: t, dir: dir, files: make(map[string]string), state: t.TempDir(), url: "http://localhost:" + port + "/"}
	s.write("index.html", "<h1>Museum</h1>")
	s.write("robots.txt", "User-agent: *\n")
	random := rand.New(rand.NewPCG(1, 2))
	image := func() string {
		b := make([]byte, 1000+random.IntN(2000))
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		return string(b)
	}
	for i := range 999 {
		s.write(fmt.Sprintf("works/%d/%d.html", i/100, i), fmt.Sprintf("<h1>Work %d</h1>%s", i, strings.Repeat("<p>A work of art.", 100)))
		s.write(fmt.Sprintf("images/%d.jpg", i), image())
	}
	startMuseum(t, dir, addr)
	s.build()
	c.ok("rspub build finds the files at their URLs as they are listed")
	compressed(t, c, s.url+"works/0/7.html", s.files["works/0/7.html"])
	if out := runs(t, dir, nil, command("rspub"), "check", "--dev", s.url); !strings.Contains(out, ", 0 failed;") {
		t.Fatalf("rspub check printed:\n%s", out)
	}
	c.ok("rspub check finds nothing that fails")

	at := t.TempDir()
	resync := func(args ...string) string {
		t.Helper()
		return runs(t, at, env, py, append([]string{inResync("resync-sync")}, append(args, s.url, "copy")...)...)
	}
	rssub := func(what string, args ...string) {
		t.Helper()
		runs(t, at, nil, command("rssub"), append([]string{what, s.url, "--dir", filepath.Join(at, "ours"), "--allow-cidr", "127.0.0.0/8", "--map", s.url + "=."}, args...)...)
	}
	asItIs := func(path string) string { return path }
	both := func(when string, args ...string) {
		t.Helper()
		resync(args...)
		s.same(filepath.Join(at, "copy"), asItIs)
		if out := resync("--audit", "--hash", "md5", "--hash", "sha-256"); !strings.Contains(out, "IN SYNC") || strings.Contains(out, "NOT IN SYNC") {
			t.Fatalf("--audit printed:\n%s", out)
		}
		c.ok("%s: resync-sync copies, and its audit says IN SYNC", when)
		rssub("sync")
		s.same(filepath.Join(at, "ours"), asItIs)
		rssub("audit")
		c.ok("%s: rssub sync copies, and its audit finds the copy in sync", when)
	}
	both("at first", "--baseline")

	for i := range 20 {
		s.write(fmt.Sprintf("works/0/%d.html", i), fmt.Sprintf("<h1>Work %d, restored</h1>", i))
		s.write(fmt.Sprintf("images/new-%d.jpg", i), image())
		gone := fmt.Sprintf("images/%d.jpg", 500+i)
		must(t, os.Remove(filepath.Join(dir, gone)))
		delete(s.files, gone)
	}
	s.build()
	both("after changes", "--incremental", "--delete")

	rules := filepath.Join(s.state, "rules.yaml")
	must(t, os.WriteFile(rules, []byte("address: {index: [index.html], drop: [.html]}\n"), 0o600))
	s.rules = []string{"--rules", rules}
	s.build()
	rssub("sync", "--max-delete", "100%")
	s.same(filepath.Join(at, "ours"), func(path string) string {
		if path == "index.html" {
			return "%-"
		}
		return strings.TrimSuffix(path, ".html")
	})
	rssub("audit")
	c.ok("with shorter URLs, rssub sync moves the pages, and its audit finds the copy in sync")
	return version
}

// startMuseum starts nginx with the settings of publisher.md.
func startMuseum(t *testing.T, root, addr string) {
	t.Helper()
	program := needs(t, "nginx")
	text, err := os.ReadFile("../../docs/publisher.md")
	must(t, err)
	m := regexp.MustCompile("(?s)```\n# nginx, which has the files itself\n(.*?)```\n").FindSubmatch(text)
	if m == nil {
		t.Fatal("publisher.md has no settings of nginx for files at their own URLs")
	}
	block := replace(t, string(m[1]), "listen 80;", "listen "+addr+";")
	block = replace(t, block, "root /srv/www;", "root "+root+";")
	block = replace(t, block, "server_name museum.example;", "server_name localhost;")
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o755))
	temp := ""
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temp += fmt.Sprintf("%s_temp_path %s;\n", kind, filepath.Join(dir, kind))
	}
	conf := filepath.Join(dir, "nginx.conf")
	must(t, os.WriteFile(conf, []byte("worker_processes 1;\npid "+dir+"/pid;\nerror_log stderr;\nevents {}\nhttp {\ninclude /etc/nginx/mime.types;\naccess_log off;\n"+temp+block+"}\n"), 0o600))
	p := start(t, dir, nil, program, "-c", conf, "-g", "daemon off;")
	p.listens(addr)
}

// compressed checks that a page comes with gzip to clients that ask for it.
func compressed(t *testing.T, c *checks, url, want string) {
	t.Helper()
	a := ask(t, client(nil, "127.0.0.1"), http.MethodGet, url, nil, "Accept-Encoding", "gzip").want(t, http.StatusOK)
	z, err := gzip.NewReader(bytes.NewReader(a.body))
	must(t, err)
	page, err := io.ReadAll(z)
	must(t, err)
	if a.header.Get("Content-Encoding") != "gzip" || string(page) != want {
		t.Fatalf("the page comes with %v", a.header)
	}
	c.ok("nginx compresses pages for clients that ask for it")
}
