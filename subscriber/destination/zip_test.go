package destination_test

import (
	"archive/zip"
	"bytes"
	"testing"
)

// zipped is a package whose one file has any name and content.
func zipped(t testing.TB, s *source, name string, body []byte) string {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for file, content := range map[string][]byte{
		"manifest.xml": []byte(document("urlset", "resourcedump-manifest", `<url><loc>`+s.URL+`/data/evil</loc><rs:md path="/`+name+`"/></url>`)),
		name:           body,
	} {
		w, err := z.Create(file)
		if err == nil {
			_, err = w.Write(content)
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
