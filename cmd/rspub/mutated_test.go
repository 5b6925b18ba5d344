package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/rshub/rshub/internal/engine/examine"
	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/resourcesync"
)

// mutated serves a good Source with one defect planted in it.
type mutated struct {
	*httptest.Server
	files  map[string]string
	status map[string]int         // of paths that do not answer 200
	header map[string]http.Header // of answers
	gzip   map[string]bool        // paths whose content is compressed
	zips   atomic.Int32           // requests for packages
}

// newMutated returns a Source without a defect.
func newMutated(t *testing.T) *mutated {
	t.Helper()
	good, err := txtar.ParseFile("testdata/good.txtar")
	if err != nil {
		t.Fatal(err)
	}
	m := &mutated{files: make(map[string]string), status: make(map[string]int), header: make(map[string]http.Header), gzip: make(map[string]bool)}
	m.Server = httptest.NewServer(http.HandlerFunc(m.answer))
	t.Cleanup(m.Close)
	for _, f := range good.Files {
		m.files["/"+f.Name] = string(f.Data)
	}
	day := func(n int) time.Time { return time.Date(2025, 1, n, 0, 0, 0, 0, time.UTC) }
	m.files["/dump.zip"] = m.pack(t, resourcesync.Head{Capability: resourcesync.ResourceDumpManifest, At: day(10)}, "")
	for i, name := range []string{"/changes-1.zip", "/changes-2.zip"} {
		m.files[name] = m.pack(t, resourcesync.Head{Capability: resourcesync.ChangeDumpManifest, From: day(i + 1), Until: day(i + 2)}, resourcesync.Updated)
	}
	bytesOf := regexp.MustCompile(`@BYTES (\S+)@`)
	for name, text := range m.files {
		if strings.HasSuffix(name, ".zip") {
			continue
		}
		text = strings.ReplaceAll(text, "@URL@", m.URL)
		m.files[name] = bytesOf.ReplaceAllStringFunc(text, func(s string) string {
			of := m.files["/"+bytesOf.FindStringSubmatch(s)[1]]
			return fmt.Sprintf(`length="%d" hash="sha-256:%x"`, len(of), sha256.Sum256([]byte(of)))
		})
	}
	return m
}

// pack writes a package of the two resources.
func (m *mutated) pack(t *testing.T, h resourcesync.Head, change resourcesync.ChangeType) string {
	t.Helper()
	var b bytes.Buffer
	h.Links = []resourcesync.Link{{Rel: "up", Href: m.URL + "/capabilitylist.xml"}}
	w, err := resourcesync.NewDumpWriter(&b, h, resourcesync.DumpWriteOptions{Store: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/data/a.txt", "/data/b.txt"} {
		e := resourcesync.Entry{Loc: m.URL + name, Path: name, Change: change, LastMod: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)}
		if err := w.Write(e, strings.NewReader(m.files[name])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func (m *mutated) answer(w http.ResponseWriter, r *http.Request) {
	media := "application/xml"
	switch {
	case strings.HasSuffix(r.URL.Path, ".zip"):
		media = "application/zip"
		m.zips.Add(1)
	case strings.HasSuffix(r.URL.Path, ".txt"):
		media = "text/plain"
	}
	w.Header().Set("Content-Type", media)
	body, found := m.files[r.URL.Path]
	switch r.URL.Path {
	case "/changes/":
		w.Header().Set("Link", fmt.Sprintf(`<%s/changes/>; rel="self", <%s/hub/>; rel="hub"`, m.URL, m.URL))
		found = true
	case "/hub/":
		found = true
	}
	maps.Copy(w.Header(), m.header[r.URL.Path])
	switch code := m.status[r.URL.Path]; {
	case code != 0:
		w.WriteHeader(code)
	case !found:
		http.NotFound(w, r)
	default:
		if m.gzip[r.URL.Path] {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			_, _ = io.WriteString(z, body)
			_ = z.Close()
			body = b.String()
		}
		w.Header().Set("ETag", fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(body))))
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(body))
	}
}

// line is a finding as both commands report it: level, path of the document, place, rule
// and words.
func line(base, file string, f examine.Finding) string {
	return fmt.Sprintf("%s %s:%d:%d %s: %s", f.Level, strings.TrimPrefix(file, base), f.Line, f.Column, f.Rule, strings.ReplaceAll(f.Message, base, ""))
}

// validated returns what `rshub validate --follow` finds.
func (m *mutated) validated(t *testing.T, more ...string) (code int, found []string) {
	t.Helper()
	var out, errs bytes.Buffer
	root := cli.Group("rshub", "", cli.Validate())
	root.SetContext(t.Context())
	code = cli.Execute(root, append([]string{"validate", "--follow", "--dev", "--pause", "0s", "--json", m.URL + "/.well-known/resourcesync"}, more...), strings.NewReader(""), &out, &errs)
	for d := json.NewDecoder(&out); ; {
		var doc examine.Document
		if err := d.Decode(&doc); err != nil {
			if err != io.EOF {
				t.Fatal(err)
			}
			return code, found
		}
		for _, f := range doc.Findings {
			found = append(found, line(m.URL, doc.File, f))
		}
	}
}

// checked returns what `rspub check` finds, about documents and about everything else.
func (m *mutated) checked(t *testing.T, more ...string) (code int, found, other []string) {
	t.Helper()
	code, out, _ := command(t, "", append([]string{"check", "--dev", "--json", m.URL}, more...)...)
	for d := json.NewDecoder(strings.NewReader(out)); ; {
		var f examine.Finding
		if err := d.Decode(&f); err != nil {
			if err != io.EOF {
				t.Fatal(err)
			}
			return code, found, other
		}
		switch s := line(m.URL, f.URL, f); {
		case f.Level == examine.Pass, f.Level == "": // the last line has sums
		case f.Line > 0 || f.Kind != "" || f.Check == "dump":
			found = append(found, s)
		default:
			other = append(other, s)
		}
	}
}

// A Source without a defect passes both commands, also if its URLs, compression or order are
// unusual but mean the same.
func TestGoodSourcePassesBoth(t *testing.T) {
	for name, change := range map[string]func(*mutated){
		"as it is": func(*mutated) {},
		"another way to write a URL": func(m *mutated) {
			upper := strings.Replace(m.URL, "http://", "HTTP://", 1)
			for name, text := range m.files {
				for _, rel := range []string{"up", "index"} {
					text = strings.ReplaceAll(text, `rel="`+rel+`" href="`+m.URL, `rel="`+rel+`" href="`+upper)
				}
				m.files[name] = text
			}
		},
		"relative links": func(m *mutated) {
			for name, text := range m.files {
				m.files[name] = strings.ReplaceAll(text, `rel="up" href="`+m.URL, `rel="up" href="`)
			}
		},
		"compressed, as HTTP says": func(m *mutated) {
			m.gzip["/changelist-1.xml"], m.header["/changelist-1.xml"] = true, http.Header{"Content-Encoding": {"gzip"}}
		},
		"HTTP says so of what is not compressed": func(m *mutated) {
			m.header["/changelist-1.xml"] = http.Header{"Content-Encoding": {"gzip"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMutated(t)
			change(m)
			if code, found := m.validated(t); code != 0 || len(found) > 0 {
				t.Errorf("rshub validate exits %d: %q", code, found)
			}
			if code, found, other := m.checked(t); code != 0 || len(found)+len(other) > 0 {
				t.Errorf("rspub check exits %d: %q, %q", code, found, other)
			}
		})
	}
}

// At most one package of each dump is fetched, and none that is too large.
func TestPackagesAreBounded(t *testing.T) {
	for _, c := range []struct {
		size  string
		zips  int32
		warns int
	}{{"64MiB", 3, 0}, {"1KiB", 3, 0}, {"100", 0, 3}, {"0", 0, 0}} {
		m := newMutated(t)
		code, found := m.validated(t, "--max-package", c.size)
		if code != 0 || len(found) != c.warns || m.zips.Swap(0) != c.zips {
			t.Errorf("rshub validate --max-package %s exits %d: %q", c.size, code, found)
		}
		code, _, other := m.checked(t, "--max-package", c.size)
		if code != 0 || len(other) != c.warns || m.zips.Load() != c.zips {
			t.Errorf("rspub check --max-package %s exits %d: %q", c.size, code, other)
		}
	}
	// Only the bytes of the package say how large it is.
	m := newMutated(t)
	for name, text := range m.files {
		m.files[name] = regexp.MustCompile(` length="\d+"`).ReplaceAllString(text, "")
	}
	if code, found := m.validated(t, "--max-package", "100"); code != 0 || len(found) != 3 || m.zips.Load() != 3 || !strings.Contains(found[0], "larger than 100 B and was not checked") {
		t.Errorf("rshub validate exits %d: %q", code, found)
	}
}

// Each defect is found by both commands, with the same rule at the same place.
func TestMutatedSources(t *testing.T) {
	for _, c := range mutations {
		t.Run(c.name, func(t *testing.T) {
			m := newMutated(t)
			if c.old != "" {
				before := m.files[c.file]
				m.files[c.file] = strings.Replace(before, strings.ReplaceAll(c.old, "@URL@", m.URL), strings.ReplaceAll(c.with, "@URL@", m.URL), 1)
				if m.files[c.file] == before {
					t.Fatalf("%s has no %q", c.file, c.old)
				}
			}
			if c.do != nil {
				c.do(m)
			}
			want := c.want
			if at := strings.ReplaceAll(c.at, "@URL@", m.URL); at != "" {
				before, _, found := strings.Cut(m.files[c.file], at)
				if !found {
					t.Fatalf("%s has no %q", c.file, at)
				}
				column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
				want = strings.Replace(want, "@", fmt.Sprintf("%d:%d", strings.Count(before, "\n")+1, column), 1)
			}
			planted := func(s string) bool { return strings.HasPrefix(s, want) }
			code, validated := m.validated(t)
			codeToo, checked, other := m.checked(t)
			slices.Sort(validated)
			slices.Sort(checked)
			if !slices.ContainsFunc(validated, planted) {
				t.Errorf("rshub validate does not find %q", want)
			}
			if !slices.ContainsFunc(checked, planted) {
				t.Errorf("rspub check does not find %q", want)
			}
			if !slices.Equal(validated, checked) {
				t.Error("they disagree")
			}
			fails := func(s string) bool { return strings.HasPrefix(s, "FAIL") }
			if slices.ContainsFunc(validated, fails) != (code == 1) || slices.ContainsFunc(append(other, checked...), fails) != (codeToo == 1) {
				t.Errorf("rshub validate exits %d, and rspub check %d", code, codeToo)
			}
			if t.Failed() {
				t.Logf("rshub validate: %q\nrspub check: %q\nand %q", validated, checked, other)
			}
		})
	}
	if len(mutations) < 60 {
		t.Errorf("%d mutations", len(mutations))
	}
}
