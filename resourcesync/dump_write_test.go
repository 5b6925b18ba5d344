package resourcesync

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

var dumpTime = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

func dumpHead(capability string) Head {
	h := Head{Capability: capability, Links: []Link{{Rel: "up", Href: "https://example.org/capabilitylist.xml"}}}
	if capability == ChangeDumpManifest {
		h.From, h.Until = dumpTime, dumpTime.Add(time.Hour)
	} else {
		h.At = dumpTime
	}
	return h
}

// dumpedChanges is a Change Dump's content: an entry and its bitstreams.
var dumpedChanges = []struct {
	entry      Entry
	bitstreams []string
}{
	{Entry{Loc: "https://example.org/abc", Change: Created, Datetime: dumpTime.Add(time.Minute), Path: "/resources/abc", Type: "text/plain"}, []string{"abc"}},
	{Entry{Loc: "https://example.org/none", Change: Deleted, Datetime: dumpTime.Add(2 * time.Minute)}, nil},
	{Entry{
		Loc: "https://example.org/patched", Change: Updated, Datetime: dumpTime.Add(3 * time.Minute), Path: "/resources/p", LastMod: dumpTime.Add(-time.Hour),
		Links: []Link{
			{Rel: "canonical", Href: "https://example.org/canonical"},
			{Rel: patchRel, Href: "https://example.org/patch", Path: "/patches/p é&", Type: "application/json-patch+json"},
		},
	}, []string{strings.Repeat("long ", 1_000), ""}},
}

// writeDump writes the changes as a package.
func writeDump(t testing.TB, o DumpWriteOptions) []byte {
	t.Helper()
	var b bytes.Buffer
	d, err := NewDumpWriter(&b, dumpHead(ChangeDumpManifest), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range dumpedChanges {
		var from []io.Reader
		for _, text := range c.bitstreams {
			from = append(from, iotest.HalfReader(strings.NewReader(text)))
		}
		if err := d.Write(c.entry, from...); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(d.Close(), d.Close()); err != nil {
		t.Fatal(err)
	}
	if l := dumpedChanges[2].entry.Links[1]; l.Hash != "" || l.HasLength {
		t.Errorf("the caller's link was filled in: %+v", l)
	}
	if d.Size() != int64(b.Len()) {
		t.Errorf("%d bytes, said to be %d", b.Len(), d.Size())
	}
	return b.Bytes()
}

// DOC-43: what archive/zip finds in a package that was written.
func TestDumpWriter_DOC43(t *testing.T) {
	whole := writeDump(t, DumpWriteOptions{})
	z, err := zip.NewReader(bytes.NewReader(whole), int64(len(whole)))
	if err != nil {
		t.Fatal(err)
	}
	content := map[string]string{}
	var order []string
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
		content[f.Name] = string(b)
		order = append(order, f.Name)
		want := map[string]time.Time{
			"resources/abc": dumpedChanges[0].entry.Datetime, "resources/p": dumpedChanges[2].entry.LastMod, "patches/p é&": dumpedChanges[2].entry.LastMod, manifestName: dumpTime,
		}[f.Name]
		if !f.Modified.Equal(want) {
			t.Errorf("%s: modified %v, want %v", f.Name, f.Modified, want)
		}
	}
	manifest := content[manifestName]
	delete(content, manifestName)
	if want := map[string]string{"resources/abc": "abc", "resources/p": dumpedChanges[2].bitstreams[0], "patches/p é&": ""}; !maps.Equal(content, want) {
		t.Errorf("%q", slices.Sorted(maps.Keys(content)))
	}
	if !slices.Equal(order, []string{"resources/abc", "resources/p", "patches/p é&", manifestName}) {
		t.Errorf("the order of files is %q", order)
	}
	for _, part := range []string{
		`capability="changedump-manifest"`, `hash="` + abcMD5 + " " + abcSHA256 + `"`, `length="3"`, `length="5000"`, `length="0"`, `path="/patches/p é&amp;"`,
		`hash="md5:d41d8cd98f00b204e9800998ecf8427e `, // of nothing
	} {
		if !strings.Contains(manifest, part) {
			t.Errorf("the manifest lacks %s:\n%s", part, manifest)
		}
	}
	if n := strings.Count(manifest, "hash="); n != 3 {
		t.Errorf("the manifest has %d hashes, want 3:\n%s", n, manifest)
	}
}

// The same content makes the same bytes, with and without compression.
func TestDumpsAreDeterministic(t *testing.T) {
	packed, stored := writeDump(t, DumpWriteOptions{}), writeDump(t, DumpWriteOptions{Store: true, Algorithms: []Algorithm{SHA512}})
	if !bytes.Equal(packed, writeDump(t, DumpWriteOptions{})) || !bytes.Equal(stored, writeDump(t, DumpWriteOptions{Store: true, Algorithms: []Algorithm{SHA512}})) {
		t.Error("the second package differs from the first")
	}
	if len(packed) > 4_000 || len(stored) < 5_000 {
		t.Errorf("%d bytes deflated, %d stored", len(packed), len(stored))
	}
}

// What is refused before it is written leaves the package as it was.
func TestDumpWriterRefuses_DOC38_DOC57(t *testing.T) {
	var b bytes.Buffer
	for _, h := range []Head{dumpHead(ResourceDump), dumpHead(ChangeNotification), {}} {
		_, err := NewDumpWriter(&b, h, DumpWriteOptions{})
		wantDumpError(t, err, BadDocument, "DOC-38", "the capability is")
	}
	_, err := NewDumpWriter(&b, Head{Capability: ResourceDumpManifest}, DumpWriteOptions{})
	wantDumpError(t, err, BadDocument, "DOC-38", "at")
	d, err := NewDumpWriter(&b, dumpHead(ResourceDumpManifest), DumpWriteOptions{MaxEntries: 2})
	if err != nil {
		t.Fatal(err)
	}
	entry := func(path string, links ...Link) Entry {
		return Entry{Loc: "https://example.org/a", Path: path, Links: links}
	}
	patch := Link{Rel: patchRel, Href: "https://example.org/p", Path: "/a", Type: "text/plain"}
	body := func() io.Reader { return strings.NewReader("abc") }
	if err := d.Write(entry("/a"), body()); err != nil {
		t.Fatal(err)
	}
	size := d.Size()
	for _, tc := range []struct {
		name  string
		entry Entry
		rule  string
		msg   string
	}{
		{"of another file", entry("/a"), "DOC-57", "of another file"},
		{"the manifest's", entry("/manifest.xml"), "DOC-57", "of another file"},
		{"no slash", entry("b"), "DOC-57", "begin with a slash"},
		{"climbs", entry("/../b"), "DOC-57", "climbs"},
		{"a folder", entry("/b/"), "DOC-57", "path"},
		{"the root", entry("/"), "DOC-57", "path"},
		{"backslash", entry(`/b\c`), "DOC-57", "backslash"},
		{"a change", Entry{Loc: "https://example.org/a", Path: "/b", Change: Created}, "DOC-38", "change"},
		{"relative loc", Entry{Loc: "a", Path: "/b"}, "DOC-16", "loc"},
	} {
		wantDumpError(t, d.Write(tc.entry, body()), BadDocument, tc.rule, tc.msg)
	}
	wantDumpError(t, d.Write(Entry{Loc: "https://example.org/a", Path: "/b", Encoding: "\x00"}, body()), NotWellFormed, "XML", "U+0000")
	wantDumpError(t, d.Write(entry("")), BadDocument, "DOC-38", "path")
	wantDumpError(t, d.Write(entry("/b", Link{Rel: patchRel, Href: "https://example.org/p", Path: "/b"}), body(), body()), BadDocument, "DOC-57", "of another file")
	wantDumpError(t, d.Write(entry("/b", patch), body(), body()), BadDocument, "DOC-57", "of another file")
	if err := d.Write(entry("/b")); err == nil || !strings.Contains(err.Error(), "1 paths, but 0 bitstreams") {
		t.Errorf("no bitstream: %v", err)
	}
	if d.Size() != size {
		t.Errorf("%d bytes were written", d.Size()-size)
	}
	if err := d.Write(entry("/b"), body()); err != nil {
		t.Error(err)
	}
	if err := d.Write(entry("/c"), body()); !errors.Is(err, ErrFull) {
		t.Errorf("one more than MaxEntries: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if err := d.Write(entry("/c"), body()); err == nil {
		t.Error("a closed package took an entry")
	}
	z, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil || len(z.File) != 3 {
		t.Fatalf("%v, %d files", err, len(z.File))
	}
}

// DOC-55, DOC-56: a bitstream that is not what its entry says ends the package.
func TestDumpWriterVerifies_DOC55_DOC56(t *testing.T) {
	broken := errors.New("broken")
	for _, tc := range []struct {
		name      string
		entry     Entry
		from      io.Reader
		rule, msg string
	}{
		{"right", Entry{HasLength: true, Length: 3, Hash: strings.ToUpper(abcSHA1) + " crc32:1"}, strings.NewReader("abc"), "", ""},
		{"length", Entry{HasLength: true, Length: 4}, strings.NewReader("abc"), "DOC-56", "has 3 bytes; its entry says 4"},
		{"length 0", Entry{HasLength: true}, strings.NewReader("abc"), "DOC-56", "has 3 bytes; its entry says 0"},
		{"hash", Entry{Hash: abcSHA1}, strings.NewReader("abd"), "DOC-55", "its hashes are"},
		{"broken", Entry{}, iotest.ErrReader(broken), "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var b bytes.Buffer
			d, err := NewDumpWriter(&b, dumpHead(ResourceDumpManifest), DumpWriteOptions{})
			if err != nil {
				t.Fatal(err)
			}
			tc.entry.Loc, tc.entry.Path = "https://example.org/abc", "/abc"
			err = d.Write(tc.entry, tc.from)
			switch {
			case tc.rule != "":
				wantDumpError(t, err, BadPackage, tc.rule, tc.msg)
			case tc.name == "broken" && !errors.Is(err, broken), tc.name == "right" && err != nil:
				t.Error(err)
			}
			if err := d.Close(); (err == nil) != (tc.name == "right") {
				t.Errorf("closed with %v", err)
			}
		})
	}
}

// flow is a long bitstream that looks at each step how far the other side is.
type flow struct {
	left, step int
	look       func(given int)
	given      int
}

func (f *flow) Read(p []byte) (int, error) {
	f.look(f.given)
	n := min(f.step, f.left, len(p))
	f.left -= n
	f.given += n
	for i := range p[:n] {
		p[i] = byte((f.given + i) * 7919 >> 3)
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// A bitstream is passed on while it is read, in both directions.
func TestDumpsAreStreams(t *testing.T) {
	const size, slack = 16 << 20, 256 << 10
	var b bytes.Buffer
	d, err := NewDumpWriter(&b, dumpHead(ResourceDumpManifest), DumpWriteOptions{Store: true})
	if err != nil {
		t.Fatal(err)
	}
	from := &flow{left: size, step: 32 << 10, look: func(given int) {
		if int64(given) > d.Size()+slack {
			t.Fatalf("%d bytes were read and %d written", given, d.Size())
		}
	}}
	if err := errors.Join(d.Write(Entry{Loc: "https://example.org/a", Path: "/a"}, from), d.Close()); err != nil {
		t.Fatal(err)
	}
	c := &counting{r: bytes.NewReader(b.Bytes())}
	r, err := NewDumpReader(c, int64(b.Len()), DumpReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range r.Entries() {
		if err != nil {
			t.Fatal(err)
		}
		file, err := r.Open(e)
		if err != nil {
			t.Fatal(err)
		}
		c.n = 0
		buf := make([]byte, 4<<10)
		for done := int64(0); ; {
			n, err := file.Read(buf)
			if done += int64(n); c.n > done+slack {
				t.Fatalf("%d bytes were read from the package, and %d of the bitstream", c.n, done)
			}
			if errors.Is(err, io.EOF) && done == size {
				break
			}
			if err != nil {
				t.Fatalf("after %d bytes: %v", done, err)
			}
		}
	}
}
