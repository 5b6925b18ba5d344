package examine

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(text))
	if err = errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// tarred is a tar archive with one file.
func tarred(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Name: "list.xml", Mode: 0o644, Size: int64(len(text))})
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func zipped(t *testing.T, files map[string]string) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, text := range files {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Documents of files, compressed or not, packages and notifications are checked by the
// rules of what they are.
func TestFilesAreChecked(t *testing.T) {
	const long = "https://example.org/data/a"
	list := xmlOf("urlset", upLink, `capability="resourcelist" at="2026-01-01" completed="2026-01-02"`, "<loc>"+long+"</loc>")
	manifest := func(entries ...string) string {
		return xmlOf("urlset", upLink, `capability="changedump-manifest" from="2026-01-01"`, entries...)
	}
	notification := func(capability, md string) string {
		return xmlOf("urlset", upLink, `capability="`+capability+`" from="2026-01-01" until="2026-01-02"`, "<loc>"+long+"</loc><rs:md "+md+"/>")
	}
	const entry = "<loc>" + long + `</loc><rs:md change="updated" path="/a" length="1"/>`
	for _, tc := range []struct {
		name, text, want string
		strict, valid    bool
	}{
		{"list.xml", list, "resourcelist at 2026-01-01T00:00:00Z completed 2026-01-02T00:00:00Z, 1 entry", false, true},
		{"LIST.XML.GZ", gzipped(t, list), "PASS", false, true},
		{"list.gz", list, "PASS", false, true},
		{"packed.xml", gzipped(t, list), "it is compressed with gzip, and neither its name", false, false},
		{"broken.gz", "\x1f\x8bno", "not gzip, though its name", false, false},
		{"short.gz", gzipped(t, strings.Repeat(list, 99))[:60], "not gzip from end to end", false, false},
		{"many.tar.gz", gzipped(t, tarred(t, list)), "it is a tar archive, compressed with gzip; extract it", false, false},
		{"many.tgz", gzipped(t, tarred(t, list)), "it is a tar archive, compressed with gzip; extract it", false, false},
		{"cut.tar.gz", gzipped(t, tarred(t, strings.Repeat(list, 99)))[:400], "it is a tar archive, compressed with gzip; extract it", false, false},
		{"many.tar", tarred(t, list), "it is a tar archive; extract it", false, false},
		{"list.xml.xz", "\xfd7zXZ\x00\x00\x04", "it is compressed with xz; extract it", false, false},
		{"sitemap.xml", strings.Replace(list, "<rs:md", "<rs:no", 1), "a sitemap without ResourceSync", false, true},
		{"page.html", `<html><head><link rel="resourcesync" href="https://example.org/cl.xml"></head></html>`, "its link to a Capability List leads to https://example.org/cl.xml", false, false},

		{"notification.xml", notification("change-notification", `change="updated" hash="x"`), "WARN", false, true},
		{"old.xml", notification("changelist-notification", `change="updated"`), "change-notification (by a former name) from", false, true},
		{"odd.xml", notification("change-notification", `change="updated" length="-1"`), "(bad document: DOC-56)", true, false},
		{"bad.xml", notification("change-notification", `change="moved"`), "(bad document: DOC-17)", false, false},

		{"good.zip", zipped(t, map[string]string{"manifest.xml": manifest(entry, "<loc>"+long+`</loc><rs:md change="deleted"/>`), "a": "a"}), "changedump-manifest from 2026-01-01T00:00:00Z, open, 2 entries", false, true},
		{"extra.zip", zipped(t, map[string]string{"manifest.xml": manifest(entry), "a": "a", "b": "b"}), `WARN`, false, true},
		{"strict.zip", zipped(t, map[string]string{"manifest.xml": manifest(entry), "a": "a", "b": "b"}), `FAIL`, true, false},
		{"length.zip", zipped(t, map[string]string{"manifest.xml": manifest(entry), "a": "ab"}), `.zip:3:1: "/a" has 2 bytes in the package; its manifest says 1 (bad package: DOC-56)`, false, false},
		{"patch.zip", zipped(t, map[string]string{"manifest.xml": manifest(strings.Replace(entry, "/>", `/><rs:ln rel="http://www.openarchives.org/rs/terms/patch" href="https://example.org/p" type="a/b" path="/p"/>`, 1)), "a": "a"}), `has no file "/p"`, false, false},
		{"none.zip", zipped(t, nil), "the package has no manifest.xml", false, false},
		{"bare.zip", zipped(t, map[string]string{"manifest.xml": manifest("<lastmod>2026</lastmod>")}), "lacks loc", false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), tc.name)
			if err := os.WriteFile(file, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			valid, found, err := examined(t, file, Options{Strict: tc.strict})
			if err != nil || valid != tc.valid || !strings.Contains(found, tc.want) {
				t.Errorf("%t, %v\n%s\ndoes not say\n%s", valid, err, found, tc.want)
			}
		})
	}
}

// Standard input is read as a file is, and errors of reading say of what.
func TestInputsThatCannotBeRead(t *testing.T) {
	in := Options{Stdin: strings.NewReader(xmlOf("urlset", upLink, `capability="resourcelist" at="2026-01-01"`))}
	if valid, found, err := examined(t, "-", in); !valid || err != nil {
		t.Errorf("%t, %v\n%s", valid, err, found)
	}
	broken := errors.New("broken pipe")
	if _, _, err := examined(t, "-", Options{Stdin: iotest.ErrReader(broken)}); !errors.Is(err, broken) || !strings.Contains(err.Error(), "reading -") {
		t.Errorf("standard input that breaks off: %v", err)
	}
	dir := t.TempDir()
	if _, _, err := examined(t, filepath.Join(dir, "none"), Options{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("no file: %v", err)
	}
	if _, _, err := examined(t, dir, Options{}); err == nil || !strings.Contains(err.Error(), "reading "+dir) {
		t.Errorf("a folder: %v", err)
	}
	if _, _, err := examined(t, filepath.Join(dir, "a\x00b"), Options{}); err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("no name of a file: %v", err)
	}
}
