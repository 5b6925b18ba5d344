package examine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

const fuzzHost = "http://source.example"

// shelf answers requests with documents in memory, as the client of an examination.
type shelf struct {
	files    map[string][]byte
	packed   bool // HTTP says that all is compressed
	requests int
}

func (s *shelf) Do(r *http.Request) (*http.Response, error) {
	s.requests++
	a := &http.Response{StatusCode: http.StatusNotFound, Status: "404 Not Found", Header: make(http.Header)}
	body, found := s.files[r.URL.Path]
	if found && r.URL.Host == "source.example" {
		a.StatusCode, a.Status = http.StatusOK, "200 OK"
	}
	if s.packed {
		a.Header.Set("Content-Encoding", "gzip")
	}
	a.Body = io.NopCloser(bytes.NewReader(body))
	return a, nil
}

// fuzzSeed are the documents of a small Source.
func fuzzSeed(tb testing.TB) (description, capabilities, index, list, dump, pack []byte) {
	tb.Helper()
	urlset := func(root, head string, entries ...string) []byte {
		return fmt.Appendf(nil, `<%s xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`+"\n%s\n%s\n</%s>\n",
			root, head, strings.ReplaceAll(strings.Join(entries, "\n"), "@", fuzzHost), root)
	}
	const up = `<rs:ln rel="up" href="` + fuzzHost + `/cl.xml"/>`
	description = urlset("urlset", `<rs:md capability="description"/>`, `<url><loc>@/cl.xml</loc></url>`)
	capabilities = urlset("urlset", `<rs:ln rel="up" href="/.well-known/resourcesync"/><rs:md capability="capabilitylist"/>`,
		`<url><loc>@/index.xml</loc><rs:md capability="changelist"/></url>`,
		`<url><loc>@/dump.xml</loc><rs:md capability="resourcedump"/></url>`,
		`<url><loc>@/changes/</loc><rs:md capability="change-notification"/><rs:ln rel="hub" href="https://hub.example/"/></url>`)
	index = urlset("sitemapindex", up+`<rs:md capability="changelist" from="2025-01-01T00:00:00Z"/>`, `<sitemap><loc>@/list.xml</loc><rs:md from="2025-01-01T00:00:00Z"/></sitemap>`)
	list = urlset("urlset", up+`<rs:ln rel="index" href="`+fuzzHost+`/index.xml"/><rs:md capability="changelist" from="2025-01-01T00:00:00Z"/>`,
		`<url><loc>@/a</loc><rs:md change="updated" datetime="2025-01-02T00:00:00Z" hash="md5:0cc175b9c0f1b6a831c399e269772661" length="1"/></url>`)
	dump = urlset("urlset", up+`<rs:md capability="resourcedump" at="2025-01-01T00:00:00Z"/>`, `<url><loc>@/pack.zip</loc></url>`)
	var b bytes.Buffer
	h := resourcesync.Head{Capability: resourcesync.ResourceDumpManifest, At: time.Unix(1735689600, 0).UTC(), Links: []resourcesync.Link{{Rel: "up", Href: fuzzHost + "/cl.xml"}}}
	w, err := resourcesync.NewDumpWriter(&b, h, resourcesync.DumpWriteOptions{Store: true})
	if err == nil {
		err = w.Write(resourcesync.Entry{Loc: fuzzHost + "/a", Path: "/a"}, strings.NewReader("a"))
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		tb.Fatal(err)
	}
	return description, capabilities, index, list, dump, b.Bytes()
}

// Whatever bytes a Source serves, both front ends end, without too many requests, and
// say the same of each document.
func FuzzSource(f *testing.F) {
	description, capabilities, index, list, dump, pack := fuzzSeed(f)
	f.Add(description, capabilities, index, list, dump, pack, false)
	f.Add(description, capabilities, index, list, dump, pack, true)
	f.Add(capabilities, description, list, index, pack, dump, false)
	f.Add(index, index, index, index, index, index, false)
	f.Add(description, bytes.ReplaceAll(capabilities, []byte("/dump.xml"), []byte("/cl.xml")), index, []byte("<html><head><link rel=resourcesync href=/cl.xml>"), dump, pack[:len(pack)/2], false)
	f.Fuzz(func(t *testing.T, description, capabilities, index, list, dump, pack []byte, packed bool) {
		s := &shelf{packed: packed, files: map[string][]byte{
			wellKnown: description, "/cl.xml": capabilities, "/index.xml": index, "/list.xml": list, "/dump.xml": dump, "/pack.zip": pack, "/a": []byte("a"), "/changes/": nil,
		}}
		o := Options{Client: s, Follow: true, MaxDocuments: 12, MaxPackage: 1 << 16, Sample: 2}
		one := make(map[string]string)
		_, err := CheckDocument(t.Context(), fuzzHost+wellKnown, o, func(d *Document) error {
			sound(t, d)
			text, err := json.Marshal(d)
			one[d.File] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if s.requests > 12 {
			t.Errorf("CheckDocument made %d requests", s.requests)
		}
		s.requests = 0
		x := newSourceCheck(o, func(Finding) {})
		other := make(map[string]string)
		x.examination.report = func(d *Document) error {
			text, err := json.Marshal(d)
			other[d.File] = string(text)
			return err
		}
		// Discovery asks for 2 documents more, and one conditionally; each list has 2 samples.
		if r, err := x.run(t.Context(), fuzzHost); err == nil && r.Failed+r.Warned+len(other) == 0 {
			t.Error("CheckSource found nothing, and does not say so")
		}
		if most := 12 + 3 + 2*12 + 2*maxChannels; s.requests > most {
			t.Errorf("CheckSource made %d requests; at most %d", s.requests, most)
		}
		if _, begun := other[fuzzHost+wellKnown]; !begun {
			return // it is no Source Description, so it does not begin there
		}
		for name, text := range one {
			if other[name] != text {
				t.Errorf("%s:\n%s\n%s", name, text, other[name])
			}
		}
		if len(one) != len(other) {
			t.Errorf("%d documents, and %d", len(one), len(other))
		}
	})
}

// sound checks what is true of every document that was checked.
func sound(t *testing.T, d *Document) {
	t.Helper()
	valid := true
	for _, f := range d.Findings {
		valid = valid && f.Level != Fail
		if f.Level == Pass || f.Rule == "" || f.Message == "" || f.Line < 0 || (f.Line == 0) != (f.Column == 0) {
			t.Errorf("%s: %+v", d.File, f)
		}
	}
	if valid != d.Valid || len(d.Findings) > maxFindings+1 {
		t.Errorf("%s: valid %t, %d findings", d.File, d.Valid, len(d.Findings))
	}
	if n := len(d.All("")); n == 0 {
		t.Errorf("%s: no line", d.File)
	}
}
