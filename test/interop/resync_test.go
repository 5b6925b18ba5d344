package interop

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/test/ports"
)

var resyncRows = []row{
	{"resync-sync", "`--baseline`, `--incremental`, also over rotations of the Change List, and `--audit` of what `rspub serve` publishes: the copy is the folder, byte by byte", resyncSync},
	{"resync-sync at a hub", "`--incremental --changelist-uri` with the changes since a time, from `rshub` and then from `rspub` itself: the copy is the folder, byte by byte", resyncAtHub},
	{"resync, the library", "reads the Source Description, Capability List, lists, dumps with the manifests of their packages, and archives of `rspub serve`", resyncLibrary},
	{"resync-build", "writes a Source's documents, which `rshub validate` accepts; `rssub sync` copies from them, follows the Change List, and `rssub audit` finds the copy in sync", resyncBuild},
	{"resync-simulator", "a Source that changes all the time: `rssub sync` copies it, follows its Change List, and `rssub audit` finds the copy in sync", resyncSimulator},
}

// python returns a Python with the modules that resync needs, and the variables with which it finds
// the checkouts.
func python(t *testing.T, modules string, checkouts ...string) (path string, env []string) {
	t.Helper()
	for i, dir := range checkouts {
		if dir == "" {
			t.Skip("there is no checkout: make interop RESYNC=FOLDER SIMULATOR=FOLDER")
		}
		abs, err := filepath.Abs(dir)
		must(t, err)
		checkouts[i] = abs
	}
	env = []string{"PYTHONPATH=" + strings.Join(checkouts, ":"), "PYTHONDONTWRITEBYTECODE=1"}
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if _, err := exec.LookPath(name); err != nil {
			continue
		}
		if code, _ := run(t, t.TempDir(), env, name, "-c", "import "+modules); code == 0 {
			return name, env
		}
	}
	t.Skip("there is no python3 with the modules " + modules)
	return "", nil
}

const resyncModules = "dateutil, defusedxml"

func resyncVersion(t *testing.T, py string, env []string) string {
	t.Helper()
	return strings.TrimSpace(runs(t, t.TempDir(), env, py, "-c", "import resync; print(resync.__version__)"))
}

func inResync(name string) string {
	abs, _ := filepath.Abs(filepath.Join(*resyncDir, name)) // fails only where there is no working directory
	return abs
}

func resyncSync(t *testing.T, c *checks) string {
	py, env := python(t, resyncModules, *resyncDir)
	version := resyncVersion(t, py, env)
	s := startSource(t, "", map[string]string{"one.txt": "one", "sub/two words.txt": "two", "gone.txt": "gone"}, "--rotate-at", "3")
	lists(t, http.DefaultClient, s.url+"resourcelist.xml", "one.txt", "two%20words.txt", "gone.txt")
	dir := t.TempDir()
	sync := func(args ...string) string {
		t.Helper()
		return runs(t, dir, env, py, append([]string{inResync("resync-sync")}, append(args, s.url, "copy")...)...)
	}
	same := func(when string) {
		t.Helper()
		want := tree(t, s.dir)
		have := tree(t, filepath.Join(dir, "copy", "data"))
		if fmt.Sprint(want) != fmt.Sprint(have) {
			t.Fatalf("%s: the copy has %v, and the folder %v", when, have, want)
		}
		c.ok("%s: the copy is the folder", when)
	}
	sync("--baseline")
	same("after the baseline")
	s.write(t, "one.txt", "one, changed")
	s.write(t, "three.txt", "three")
	must(t, os.Remove(filepath.Join(s.dir, "gone.txt")))
	s.changed(t, "one.txt", "three.txt", "gone.txt")
	sync("--incremental", "--delete")
	same("after changes")
	s.rotated(t)
	sync("--incremental", "--delete")
	same("after rotations of the Change List")
	if out := sync("--audit", "--hash", "md5", "--hash", "sha-256"); !strings.Contains(out, "IN SYNC") || strings.Contains(out, "NOT IN SYNC") {
		t.Fatalf("--audit printed:\n%s", out)
	}
	c.ok("--audit with hashes says IN SYNC")
	return version
}

// resyncAtHub has resync-sync read the changes since a time from a hub, and then from the topic of
// the Source. The client is as it is; only the address of the Change List is given.
func resyncAtHub(t *testing.T, c *checks) string {
	py, env := python(t, resyncModules, *resyncDir)
	version := resyncVersion(t, py, env)
	h := startHub(t, "")
	s := startSource(t, "", map[string]string{"one.txt": "one", "sub/two words.txt": "two", "gone.txt": "gone"}, "--hub", h.url)
	lists(t, http.DefaultClient, s.url+"resourcelist.xml", "one.txt", "two%20words.txt", "gone.txt")
	dir := t.TempDir()
	sync := func(args ...string) {
		t.Helper()
		runs(t, dir, env, py, append([]string{inResync("resync-sync")}, append(args, s.url, "copy")...)...)
	}
	sync("--baseline")
	since := "since=" + time.Now().UTC().Format(time.RFC3339Nano)
	for _, from := range []struct{ who, at string }{
		{"the hub", h.url + "?hub.topic=" + url.QueryEscape(s.url+"changes/") + "&" + since},
		{"the Source", s.url + "changes/?" + since},
	} {
		s.write(t, "one.txt", "one, changed for "+from.who)
		s.write(t, "for "+from.who+".txt", "new")
		gone := "gone.txt"
		if from.who == "the Source" {
			gone = "for the hub.txt"
		}
		must(t, os.Remove(filepath.Join(s.dir, gone)))
		lists(t, http.DefaultClient, from.at, url.PathEscape("for "+from.who+".txt"), "one.txt", `change="deleted"`, url.PathEscape(gone))
		time.Sleep(time.Second) // the client compares whole seconds
		sync("--incremental", "--delete", "--changelist-uri", from.at)
		want, have := tree(t, s.dir), tree(t, filepath.Join(dir, "copy", "data"))
		if fmt.Sprint(want) != fmt.Sprint(have) {
			t.Fatalf("from %s: the copy has %v, and the folder %v", from.who, have, want)
		}
		c.ok("from %s: the copy is the folder", from.who)
	}
	return version
}

// tree reads the files of a folder by their names; blanks are as in URLs.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[strings.ReplaceAll(name, " ", "%20")] = string(content)
		return err
	}))
	return files
}

func resyncLibrary(t *testing.T, c *checks) string {
	py, env := python(t, resyncModules, *resyncDir)
	version := resyncVersion(t, py, env)
	s := startSource(t, "", map[string]string{"one.txt": "one", "sub/two words.txt": "two"}, "--rotate-at", "3")
	lists(t, http.DefaultClient, s.url+"resourcelist.xml", "one.txt")
	s.rotated(t)
	for _, name := range []string{"resourcedump.xml", "changedump.xml", "resourcelist-archive.xml", "resourcedump-archive.xml", "changelist-archive.xml", "changedump-archive.xml"} {
		lists(t, http.DefaultClient, s.url+name, "<loc>")
	}
	out := runs(t, t.TempDir(), env, py, append([]string{here(t, "testdata/python/read.py"), s.url}, s.changeLists(t)...)...)
	for _, kind := range []string{
		"description 1", "capabilitylist ", "resourcelist ", "changelist ", "resourcedump ", "resourcedump-manifest ", "changedump ", "changedump-manifest ",
		"resourcelist-archive ", "resourcedump-archive ", "changelist-archive ", "changedump-archive ",
	} {
		if !regexp.MustCompile(`(?m)^` + kind).MatchString(out) {
			t.Fatalf("the library did not read %q; it read:\n%s", kind, out)
		}
		c.ok("it reads %s", kind)
	}
	return version
}

func here(t *testing.T, name string) string {
	t.Helper()
	abs, err := filepath.Abs(name)
	must(t, err)
	return abs
}

func resyncBuild(t *testing.T, c *checks) string {
	py, env := python(t, resyncModules, *resyncDir)
	version := resyncVersion(t, py, env)
	site, state := t.TempDir(), t.TempDir()
	srv := httptest.NewServer(http.FileServer(http.Dir(site)))
	t.Cleanup(srv.Close)
	write := func(name, content string) {
		t.Helper()
		name = filepath.Join(site, filepath.FromSlash(name))
		must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		must(t, os.WriteFile(name, []byte(content), 0o644))
	}
	build := func(args ...string) {
		t.Helper()
		runs(t, site, env, py, append([]string{inResync("resync-build")}, args...)...)
	}
	up := []string{"--capabilitylist-link", srv.URL + "/capabilitylist.xml", "--hash", "md5", "--hash", "sha-256"}
	mapping := srv.URL + "/data=data"
	write("data/one.txt", "one")
	write("data/with spaces.txt", "two")
	write("data/gone.txt", "gone")
	write(".well-known/readme", "")
	build(append(up, "--write-resourcelist", "--outfile", "resourcelist.xml", mapping)...)
	build("--write-changelist", "--empty", "--outfile", "changelist.xml", up[0], up[1])
	build("--write-capabilitylist", "resourcelist="+srv.URL+"/resourcelist.xml,changelist="+srv.URL+"/changelist.xml",
		"--sourcedescription-link", srv.URL+"/.well-known/resourcesync", "--outfile", "capabilitylist.xml")
	build("--write-sourcedescription", srv.URL+"/capabilitylist.xml", "--outfile", ".well-known/resourcesync")
	build("--write-resourcedump", "--outfile", "../"+filepath.Base(state)+"/dump", up[0], up[1], mapping)

	copied := filepath.Join(t.TempDir(), "copy")
	sync := func(what string) {
		t.Helper()
		runs(t, state, nil, command("rssub"), what, srv.URL+"/", "--dir", copied, "--allow-cidr", "127.0.0.0/8", "--map", srv.URL+"/data/=.")
	}
	valid := func(names ...string) {
		t.Helper()
		for _, name := range names {
			runs(t, site, nil, command("rshub"), "validate", name)
			c.ok("rshub validate accepts %s", name)
		}
	}
	valid("resourcelist.xml", "capabilitylist.xml", ".well-known/resourcesync")
	sync("sync")
	c.ok("rssub sync copies from its Resource List")
	runs(t, site, env, "cp", "resourcelist.xml", filepath.Join(state, "old.xml"))
	write("data/one.txt", "one, changed")
	write("data/three.txt", "three")
	must(t, os.Remove(filepath.Join(site, "data", "gone.txt")))
	build(append(up, "--write-changelist", "--reference", filepath.Join(state, "old.xml"), "--outfile", "changelist.xml", mapping)...)
	build(append(up, "--write-resourcelist", "--outfile", "resourcelist.xml", mapping)...)
	valid("changelist.xml")
	sync("sync")
	c.ok("rssub sync applies its Change List, with a blank in a name")
	sync("audit")
	c.ok("rssub audit finds the copy in sync")
	return version
}

func resyncSimulator(t *testing.T, c *checks) string {
	py, env := python(t, resyncModules+", tornado, yaml", *simulatorDir, *resyncDir)
	simulator, err := filepath.Abs(*simulatorDir)
	must(t, err)
	version := strings.TrimSpace(runs(t, t.TempDir(), env, py, "-c", "import simulator; print(simulator.__version__)"))
	addr := ports.Addr()
	_, port, _ := strings.Cut(addr, ":")
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(`source:
    name: interop
    number_of_resources: 50
    change_delay: 0.05
    event_types: [create, update, delete]
    average_payload: 1000
    max_events: 60
    stats_interval: 10
resource_list_builder:
    class: DynamicResourceListBuilder
    uri_path: resourcelist.xml
changememory:
    class: DynamicChangeList
    uri_path: changelist.xml
    max_changes: 1000
`), 0o600))
	p := start(t, dir, env, py, here(t, "testdata/python/run_simulator.py"), filepath.Join(simulator, "resync-simulator"),
		"--config-file", "config.yaml", "--log-config", filepath.Join(simulator, "config", "logging.yaml"), "--port", port)
	p.listens(addr)
	url := "http://localhost:" + port + "/"
	lists(t, http.DefaultClient, url+"changelist.xml", "<loc>")
	copied := filepath.Join(t.TempDir(), "copy")
	rssub := func(what string) {
		t.Helper()
		runs(t, dir, nil, command("rssub"), what, url, "--dir", copied, "--allow-cidr", "127.0.0.0/8", "--max-delete", "1000")
	}
	eventually(t, func() error { // while resources come and go, one may disappear before it is fetched
		code, out := run(t, dir, nil, command("rssub"), "sync", url, "--dir", copied, "--allow-cidr", "127.0.0.0/8", "--max-delete", "1000")
		if code != 0 {
			return fmt.Errorf("rssub sync ended with %d: %s", code, out)
		}
		return nil
	})
	c.ok("rssub sync copies while resources change")
	eventually(t, func() error {
		a, err := try(t.Context(), http.DefaultClient, http.MethodGet, url+"changelist.xml", nil)
		if err == nil && strings.Count(string(a.body), "<loc>") < 60 {
			err = fmt.Errorf("it has changed %d times", strings.Count(string(a.body), "<loc>"))
		}
		return err
	})
	rssub("sync")
	c.ok("rssub sync applies its Change List")
	rssub("audit")
	c.ok("rssub audit finds the copy in sync")
	return version
}
