package resourcesync

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

// dumpManifest wraps url elements into the manifest of a package.
func dumpManifest(entries ...string) member {
	return member{name: manifestName, content: `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
<rs:ln rel="up" href="https://example.org/capabilitylist.xml"/><rs:md capability="resourcedump-manifest" at="2026-11-21T10:00:00Z"/>
` + strings.Join(entries, "\n") + `</urlset>`}
}

// dumpEntry is an entry of a manifest.
func dumpEntry(path, md string) string {
	return `<url><loc>https://example.org/a</loc><rs:md path="` + path + `" ` + md + `/></url>`
}

// readDump reads a package with all its bitstreams, and returns them by loc and
// href.
func readDump(r *bytes.Reader, o DumpReadOptions) (d *DumpReader, found []string, err error) {
	if d, err = NewDumpReader(r, r.Size(), o); err != nil {
		return nil, nil, err
	}
	take := func(what string, file io.ReadCloser, err error) error {
		if errors.Is(err, ErrNoBitstream) {
			found = append(found, what+" none")
			return nil
		}
		if err != nil {
			return err
		}
		b, err := io.ReadAll(file)
		found = append(found, fmt.Sprintf("%s %d %.3s", what, len(b), b))
		return errors.Join(err, file.Close())
	}
	for e, err := range d.Entries() {
		if err != nil {
			return d, found, err
		}
		file, err := d.Open(e)
		if err := take(e.Loc, file, err); err != nil {
			return d, found, err
		}
		for _, l := range e.Links {
			if l.Path == "" {
				continue
			}
			file, err := d.OpenLink(l)
			if err := take(l.Href, file, err); err != nil {
				return d, found, err
			}
		}
	}
	return d, found, nil
}

// DOC-43: what DumpWriter writes, DumpReader reads.
func TestDumpReader_DOC43(t *testing.T) {
	for _, o := range []DumpWriteOptions{{}, {Store: true, Algorithms: []Algorithm{}}} {
		d, found, err := readDump(bytes.NewReader(writeDump(t, o)), DumpReadOptions{Strict: true})
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"https://example.org/abc 3 abc", "https://example.org/none none", "https://example.org/patched 5000 lon", "https://example.org/patch 0 "}
		if !slices.Equal(found, want) {
			t.Errorf("%q, want %q", found, want)
		}
		h := d.Head()
		if h.Capability != ChangeDumpManifest || !h.From.Equal(dumpTime) || len(d.Missing())+len(d.Extra())+len(d.Tolerated()) != 0 {
			t.Errorf("%+v, missing %q, extra %q, tolerated %v", h, d.Missing(), d.Extra(), d.Tolerated())
		}
	}
}

// DOC-38: package and manifest must agree.
func TestManifestAndPackage_DOC38(t *testing.T) {
	r := pack(t, dumpManifest(dumpEntry("/x", ""), dumpEntry("/a/b", ""), dumpEntry("/x", "")), member{name: "a/b", content: "abc"}, member{name: "a/"}, member{name: "c"})
	d, err := NewDumpReader(r, r.Size(), DumpReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var errs []error
	for e, err := range d.Entries() {
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.Open(e)
		errs = append(errs, err)
	}
	if len(errs) != 3 || errs[1] != nil {
		t.Fatal(errs)
	}
	wantDumpError(t, errs[0], BadPackage, "DOC-38", `no file "/x"`)
	if missing, extra := d.Missing(), d.Extra(); !slices.Equal(missing, []string{"/x"}) || !slices.Equal(extra, []string{"c"}) {
		t.Errorf("missing %q, extra %q", missing, extra)
	}

	for _, tc := range []struct {
		name, rule string
		kind       ErrorKind
		members    []member
	}{
		{"no manifest", "DOC-38", BadPackage, []member{{name: "a"}}},
		{"manifest in a folder", "DOC-38", BadPackage, []member{{name: "a/manifest.xml", content: dumpManifest().content}}},
		{"folder for a manifest", "DOC-38", BadPackage, []member{{name: "manifest.xml/"}}},
		{"manifest of another kind", "DOC-38", BadDocument, []member{{name: manifestName, content: strings.Replace(dumpManifest().content, "-manifest", "", 1)}}},
		{"no XML", "XML", NotWellFormed, []member{{name: manifestName, content: "hello"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := readDump(pack(t, tc.members...), DumpReadOptions{})
			wantDumpError(t, err, tc.kind, tc.rule, "")
		})
	}
	_, _, err = readDump(pack(t, dumpManifest(dumpEntry("/a", ""), "<url/>"), member{name: "a"}), DumpReadOptions{})
	wantDumpError(t, err, BadDocument, "DOC-16", "loc")
	_, _, err = readDump(pack(t, dumpManifest(dumpEntry("/a", ""), dumpEntry("/a", "")), member{name: "a"}), DumpReadOptions{Limits: DumpLimits{Manifest: Limits{Entries: 1}}})
	wantDumpError(t, err, OverLimit, "DOC-60", "1 entries")
}

// DOC-57: the Python library writes paths without the slash at the beginning.
func TestPathsWithoutSlash_DOC57(t *testing.T) {
	members := []member{dumpManifest(dumpEntry("resources/a", "")), {name: "resources/a", content: "abc"}}
	d, found, err := readDump(pack(t, members...), DumpReadOptions{})
	if err != nil || len(found) != 1 || len(d.Missing())+len(d.Extra()) != 0 {
		t.Fatalf("%q, %v", found, err)
	}
	if all := d.Tolerated(); len(all) != 1 || d.TolerationCount() != 1 || all[0].Rule != "DOC-57" || !strings.Contains(all[0].Msg, "lacks the slash") {
		t.Errorf("tolerated %v", all)
	}
	_, _, err = readDump(pack(t, members...), DumpReadOptions{Strict: true})
	wantDumpError(t, err, BadDocument, "DOC-57", `"resources/a"`)
	d, found, err = readDump(pack(t, dumpManifest(dumpEntry("../a", "")), member{name: "a"}), DumpReadOptions{})
	if err != nil || !slices.Equal(found, []string{"https://example.org/a none"}) {
		t.Errorf("a path that climbs: %q, %v, missing %q", found, err, d.Missing())
	}
}

// DOC-55, DOC-56: a bitstream is compared with what its manifest says.
func TestBitstreamsAreVerified_DOC55_DOC56(t *testing.T) {
	abc := func(path string) member { return member{name: path, content: "abc"} }
	for _, tc := range []struct {
		name, md, rule, msg string
	}{
		{"nothing said", "", "", ""},
		{"right", `length="3" hash="` + abcSHA256 + "\n" + abcMD5 + `"`, "", ""},
		{"what cannot be told", `hash="md5:kAFQmDzST7DWlj99KOF/cg== crc32:0"`, "", ""},
		{"length", `length="4"`, "DOC-56", "has 3 bytes in the package; its manifest says 4"},
		{"one of two hashes", `hash="` + abcMD5 + " sha-256:" + strings.Repeat("0", 64) + `"`, "DOC-55", "sha-256:ba78"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, found, err := readDump(pack(t, dumpManifest(dumpEntry("/a", tc.md)), abc("a")), DumpReadOptions{})
			if tc.rule != "" {
				wantDumpError(t, err, BadPackage, tc.rule, tc.msg)
			} else if err != nil || len(found) != 1 {
				t.Errorf("%q, %v", found, err)
			}
		})
	}
}

// DOC-36: damage is seen when a file is read, and nothing more comes out than
// the directory declared.
func TestDamagedPackages_DOC36(t *testing.T) {
	damage := func(name string, change func(h *zip.FileHeader, content []byte)) *bytes.Reader {
		whole := writeDump(t, DumpWriteOptions{})
		z, err := zip.NewReader(bytes.NewReader(whole), int64(len(whole)))
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		for _, f := range z.File {
			raw, err := f.OpenRaw()
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(raw)
			if err != nil {
				t.Fatal(err)
			}
			h := f.FileHeader
			if f.Name == name {
				change(&h, content)
			}
			to, err := w.CreateRaw(&h)
			if err == nil {
				_, err = to.Write(content)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return bytes.NewReader(b.Bytes())
	}
	for name, tc := range map[string]struct {
		file   string
		change func(h *zip.FileHeader, content []byte)
	}{
		"checksum":                {"patches/p é&", func(h *zip.FileHeader, _ []byte) { h.CRC32 = 1 }},
		"deflated data":           {"resources/p", func(_ *zip.FileHeader, c []byte) { c[0] = 0xFF }},
		"the manifest's checksum": {manifestName, func(h *zip.FileHeader, _ []byte) { h.CRC32++ }},
		"broken off":              {"resources/p", func(h *zip.FileHeader, _ []byte) { h.CompressedSize64 -= 5 }},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := readDump(damage(tc.file, tc.change), DumpReadOptions{})
			wantDumpError(t, err, BadPackage, "DOC-36", "damaged")
		})
	}

	// A directory that says that it stands later than it does, and the files
	// with it: the first before the package.
	moved, err := io.ReadAll(pack(t, dumpManifest()))
	if err != nil {
		t.Fatal(err)
	}
	moved[len(moved)-6]++ // the offset is before the length of the comment
	_, _, err = readDump(bytes.NewReader(moved), DumpReadOptions{})
	wantDumpError(t, err, BadPackage, "DOC-36", "damaged")

	broken := errors.New("broken")
	whole := writeDump(t, DumpWriteOptions{})
	source := &breaking{bytes.NewReader(whole), nil}
	d, err := NewDumpReader(source, int64(len(whole)), DumpReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	file, err := d.Open(Entry{Path: "/resources/p"})
	if err != nil {
		t.Fatal(err)
	}
	source.err = broken
	if _, err = io.ReadAll(file); !errors.Is(err, broken) {
		t.Errorf("an error of the reader: %v", err)
	}

	// A bomb that declares less than it has.
	var bomb bytes.Buffer
	var b bytes.Buffer
	deflate, _ := flate.NewWriter(&b, flate.BestCompression)
	_, _ = deflate.Write(make([]byte, 1<<20))
	_ = deflate.Close()
	w := zip.NewWriter(&bomb)
	to, err := w.CreateRaw(&zip.FileHeader{Name: "a", Method: zip.Deflate, CompressedSize64: uint64(b.Len()), UncompressedSize64: 100})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = b.WriteTo(to)
	m := dumpManifest(dumpEntry("/a", ""))
	to, err = w.Create(m.name)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(to, m.content)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	_, found, err := readDump(bytes.NewReader(bomb.Bytes()), DumpReadOptions{})
	wantDumpError(t, err, BadPackage, "DOC-36", "damaged")
	if len(found) != 1 || !strings.HasPrefix(found[0], "https://example.org/a 0 ") {
		t.Errorf("a bomb gave %q", found)
	}
}

// breaking is a reader that fails once err is set.
type breaking struct {
	io.ReaderAt
	err error
}

func (b *breaking) ReadAt(p []byte, off int64) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	return b.ReaderAt.ReadAt(p, off)
}

// FuzzDumpReader: whatever the package is, nothing is given out beyond the limits,
// and what is wrong is an *Error.
func FuzzDumpReader(f *testing.F) {
	f.Add(writeDump(f, DumpWriteOptions{}))
	f.Add(writeDump(f, DumpWriteOptions{Store: true}))
	for _, members := range [][]member{
		{dumpManifest(dumpEntry("/a", "")), {name: "a", content: "abc"}, {name: "b/"}},
		{{name: "../a"}, dumpManifest()},
		{dumpManifest(dumpEntry("/a", abcMD5)), {name: "a", change: fileSizes(3, 1<<40), raw: true, content: "abc"}},
	} {
		r := pack(f, members...)
		b, err := io.ReadAll(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	limits := DumpLimits{Files: 10, FileBytes: 1 << 20, Bytes: 1 << 20}
	f.Fuzz(func(t *testing.T, doc []byte) {
		r, err := NewDumpReader(bytes.NewReader(doc), int64(len(doc)), DumpReadOptions{Limits: limits})
		if err != nil {
			wantAnError(t, doc, err)
			return
		}
		opened := map[string]bool{}
		total := int64(0)
		for e, err := range r.Entries() {
			if err != nil {
				wantAnError(t, doc, err)
				break
			}
			file, err := r.Open(e)
			if errors.Is(err, ErrNoBitstream) {
				continue
			}
			if err != nil {
				wantAnError(t, doc, err)
				continue
			}
			n, err := io.Copy(io.Discard, file)
			if err != nil {
				wantAnError(t, doc, err)
			} else if e.HasLength && n != e.Length {
				t.Fatalf("%q: %d bytes, and not %d", doc, n, e.Length)
			}
			if !opened[e.Path] {
				opened[e.Path] = true
				total += n
			}
		}
		if total > limits.Bytes || len(r.parcel.names) > limits.Files {
			t.Fatalf("%q: %d bytes, %d files", doc, total, len(r.parcel.names))
		}
	})
}

func wantAnError(t *testing.T, doc []byte, err error) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("%q: %v is no *Error", doc, err)
	}
}
