package destination_test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"io"
	"testing"
)

// zipped is a package whose one file has any name and content.
func zipped(t testing.TB, s *source, name string, body []byte) string {
	t.Helper()
	return zippedManifest(t, document("urlset", "resourcedump-manifest", `<url><loc>`+s.URL+`/data/evil</loc><rs:md path="/`+name+`"/></url>`), file{name, body})
}

// file is one of a package.
type file struct {
	name string
	body []byte
}

// zippedManifest is a package of any manifest and files.
func zippedManifest(t testing.TB, manifest string, files ...file) string {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestSpeed) }) // for bombs
	for _, f := range append(files, file{"manifest.xml", []byte(manifest)}) {
		w, err := z.Create(f.name)
		if err == nil {
			_, err = w.Write(f.body)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
