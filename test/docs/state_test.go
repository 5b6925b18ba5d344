package docs

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/publisher"
	"github.com/rshub/rshub/publisher/source"
	"github.com/rshub/rshub/store/embedstore"
	"github.com/rshub/rshub/subscriber"
	"github.com/rshub/rshub/subscriber/destination"
)

// The state of all three commands lies in a folder that is published, under names that
// say nothing. None of it is published, though all names are.
func TestStateIsNotPublished(t *testing.T) {
	atRoot(t)
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ends := func(c io.Closer, err error) {
		t.Helper()
		must(err)
		t.Cleanup(func() { _ = c.Close() })
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	hub, err := embedstore.Open(at("one"), embedstore.Options{})
	ends(hub, err)
	p, err := publisher.Open(publisher.Options{Dir: at("two"), Topic: "https://example.org/t"})
	ends(p, err)
	sub, err := subscriber.Open(subscriber.Options{Dir: at("three"), Topic: "https://example.org/t", Callback: "https://example.com/c"})
	ends(sub, err)
	inside, err := destination.Open(destination.Options{Source: "https://example.org/", Dir: at("four")})
	ends(inside, err)
	apart, err := destination.Open(destination.Options{Source: "https://example.org/", Dir: at("five"), StateDir: at("six")})
	ends(apart, err)
	other, err := source.Open(source.Options{PublicURL: "https://example.org/", StateDir: at("seven"), Sets: []source.Set{{Folder: source.FolderOptions{Dir: t.TempDir()}}}})
	ends(other, err)
	must(os.WriteFile(at("four/resource"), nil, 0o600))
	must(os.WriteFile(at("five/resource"), nil, 0o600))

	s, err := source.Open(source.Options{
		PublicURL: "https://example.org/", StateDir: at("eight"),
		Sets: []source.Set{{Folder: source.FolderOptions{Dir: dir, Hidden: true, Ignore: []string{}, Settle: time.Nanosecond, Patience: time.Nanosecond}}},
	})
	ends(s, err)
	must(s.Build(t.Context()))
	state := 0
	must(filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		path, err := filepath.Rel(dir, name)
		want := http.StatusNotFound
		if filepath.Base(path) == "resource" {
			want = http.StatusOK
		} else {
			state++
		}
		got := httptest.NewRecorder()
		s.Handler().ServeHTTP(got, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/data/"+filepath.ToSlash(path), http.NoBody))
		if got.Code != want {
			err = errors.Join(err, errors.New(path+" answers "+http.StatusText(got.Code)))
		}
		return err
	}))
	got := httptest.NewRecorder()
	s.Handler().ServeHTTP(got, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/resourcelist.xml", http.NoBody))
	if n := strings.Count(got.Body.String(), "<url>"); n != 2 || state < 10 {
		t.Errorf("%d resources are listed beside %d files of state:\n%s", n, state, got.Body)
	}
}
