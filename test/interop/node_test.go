package interop

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rshub/rshub/test/ports"
)

var nodeRows = []row{
	{"pubsubhubbub", "subscribes at `rshub` with a secret, confirms, gets a notification whose signature it checks, unsubscribes, and gets none any more; a topic that the hub refuses is reported", pubsubhubbub},
	{"sitemap", "reads the Resource List, Change List, Resource Dump and an index of `rspub serve`", parser("sitemap")},
	{"sitemapper", "fetches the same from `rspub serve`, and from an index all lists that it names", parser("sitemapper")},
	{"fast-xml-parser", "validates and reads the same, `rs:md` included", parser("fast-xml-parser")},
}

// modules installs the packages of testdata/npm once, in the versions of the lock file, and returns
// the folder of the programs.
var modules = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(bin, "npm")
	if err := os.CopyFS(dir, os.DirFS("testdata/npm")); err != nil {
		return "", err
	}
	return dir, nil
})

func npm(t *testing.T, name string) (dir, version string) {
	t.Helper()
	needs(t, "node")
	needs(t, "npm")
	dir, err := modules()
	must(t, err)
	if _, err := os.Stat(filepath.Join(dir, "node_modules")); err != nil {
		env := []string{"HOME=" + os.Getenv("HOME")} // npm's settings and cache
		code, out := run(t, dir, env, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
		if code != 0 {
			_ = os.RemoveAll(filepath.Join(dir, "node_modules"))
			t.Skipf("npm ci ended with %d: %s", code, tail(out))
		}
	}
	var manifest struct{ Version string }
	b, err := os.ReadFile(filepath.Join(dir, "node_modules", name, "package.json"))
	must(t, err)
	must(t, json.Unmarshal(b, &manifest))
	return dir, manifest.Version
}

func pubsubhubbub(t *testing.T, c *checks) string {
	dir, version := npm(t, "pubsubhubbub")
	h := startHub(t, "", "--topic-deny", "http://localhost:8000/secret/*")
	_, port, _ := strings.Cut(ports.Addr(), ":")
	subscribe := func(topic, port string) (*process, func(string)) {
		t.Helper()
		in, w, err := os.Pipe()
		must(t, err)
		t.Cleanup(func() { _ = in.Close(); _ = w.Close() })
		p := startWithInput(t, in, dir, nil, "node", "subscriber.mjs", h.url, topic, port, "s3cret")
		p.says(`{"event":"listen"}`)
		return p, func(line string) { _, err := io.WriteString(w, line+"\n"); must(t, err) }
	}
	p, do := subscribe(topic, port)
	do("subscribe")
	p.says(`{"event":"subscribe answered"`)
	c.ok("the hub takes its request")
	p.says(fmt.Sprintf(`{"event":"subscribe","topic":%q}`, topic))
	h.active(t, 1)
	c.ok("it confirms, and the subscription is active")

	var next intervals
	body := next.next(3, 10)
	h.publish(t, http.DefaultClient, h.url, bytes.NewReader(body)).want(t, http.StatusOK)
	p.says(fmt.Sprintf(`"sha256":"%x"`, sha256.Sum256(body)))
	c.ok("it gets the published bytes, and finds the signature right")
	body = next.next(20_000, 50)
	h.publish(t, http.DefaultClient, h.url, bytes.NewReader(body)).want(t, http.StatusOK)
	p.says(fmt.Sprintf(`"sha256":"%x"`, sha256.Sum256(body)))
	c.ok("it gets %d bytes", len(body))

	do("unsubscribe")
	p.says(fmt.Sprintf(`{"event":"unsubscribe","topic":%q}`, topic))
	h.active(t, 0)
	c.ok("it confirms that it unsubscribed")
	h.publish(t, http.DefaultClient, h.url, bytes.NewReader(next.next(1, 10))).want(t, http.StatusOK)
	if n := strings.Count(p.out.String(), `"event":"feed"`); n != 2 {
		t.Fatalf("it got %d notifications, want 2", n)
	}
	c.ok("it gets nothing more")

	_, port, _ = strings.Cut(ports.Addr(), ":")
	p, do = subscribe("http://localhost:8000/secret/", port)
	do("subscribe")
	p.says("Invalid response status 403")
	c.ok("a topic that the hub refuses is reported to the program")
	return version
}

// parser runs a parser of sitemaps over the documents of a Source, and compares what it found with
// their content.
func parser(name string) func(*testing.T, *checks) string {
	return func(t *testing.T, c *checks) string {
		dir, version := npm(t, name)
		s := startSource(t, "", map[string]string{"one.txt": "one", "sub/two words & more.txt": "two", "ü.txt": "three"}, "--rotate-at", "3")
		lists(t, http.DefaultClient, s.url+"resourcelist.xml", "one.txt")
		s.rotated(t)
		lists(t, http.DefaultClient, s.url+"resourcedump.xml", "<loc>")
		index := s.changeListIndex(t)
		urls := append(s.changeLists(t), s.url+"resourcelist.xml", s.url+"resourcedump.xml")
		out := runs(t, dir, nil, "node", append([]string{"sitemaps.mjs", name, index}, urls...)...)
		found := make(map[string][]string)
		for line := range strings.Lines(out) {
			var one struct {
				URL  string
				Locs []string
			}
			if json.Unmarshal([]byte(line), &one) == nil {
				found[one.URL] = one.Locs
			}
		}
		for _, url := range append(urls, index) {
			want := locs(t, url)
			if url == index && name == "sitemapper" { // it goes on to the lists that the index names
				var all []string
				for _, part := range want {
					all = append(all, locs(t, part)...)
				}
				want = all
			}
			have := found[url]
			slices.Sort(want)
			slices.Sort(have)
			if len(want) == 0 || !slices.Equal(want, have) {
				t.Fatalf("%s has %q, and the parser found %q; it printed\n%s", url, want, have, tail(out))
			}
			c.ok("%s: %d entries", url, len(have))
		}
		return version
	}
}
