package cli

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rshub/rshub/test/scripts"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"rshub": func() { os.Exit(Execute(Group("rshub", "", Validate()), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// The scripts tell what `rshub validate` does. The files of a script are at $URL
// as well, with @URL@ in them standing for it.
func TestValidateScripts(t *testing.T) {
	setup := func(e *testscript.Env) error {
		s := httptest.NewUnstartedServer(nil)
		s.Config.Handler = folder(e.WorkDir, "http://"+s.Listener.Addr().String())
		s.Start()
		e.Defer(s.Close)
		e.Setenv("URL", s.URL)
		return nil
	}
	scripts.Run(t, "testdata/validate", setup, map[string]scripts.Command{"here": here})
}

// folder serves a folder as some servers do: "/name.gz" is "/name" compressed,
// below /encoded/ with a Content-Encoding and below /undone/ decompressed again;
// /redirect/name leads to /name, /elsewhere to no URL of the web, and /status/503
// answers that.
func folder(dir, base string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status/{code}", func(w http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.PathValue("code"))
		w.WriteHeader(code)
	})
	mux.HandleFunc("GET /elsewhere", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "file:///etc/passwd")
		w.WriteHeader(http.StatusFound)
	})
	mux.HandleFunc("GET /redirect/{name...}", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/"+r.PathValue("name"), http.StatusFound)
	})
	mux.HandleFunc("GET /{name...}", func(w http.ResponseWriter, r *http.Request) {
		name, encoded := strings.CutPrefix(r.PathValue("name"), "encoded/")
		name, undone := strings.CutPrefix(name, "undone/")
		plain, packed := strings.CutSuffix(name, ".gz")
		body, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(plain)))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		body = bytes.ReplaceAll(body, []byte("@URL@"), []byte(base))
		if encoded {
			w.Header().Set("Content-Encoding", "gzip")
		}
		if encoded || packed && !undone {
			z := gzip.NewWriter(w)
			_, _ = z.Write(body)
			_ = z.Close()
			return
		}
		_, _ = w.Write(body)
	})
	return mux
}

// here puts the address of the server into a file.
func here(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		text := strings.ReplaceAll(ts.ReadFile(name), "@URL@", ts.Getenv("URL"))
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o600))
	}
}
