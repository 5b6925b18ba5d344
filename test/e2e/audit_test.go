package e2e

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An audit of a copy that is mounted read-only, as a snapshot or a backup is, reads it and writes nothing, wherever
// its state is.
func TestAuditOfReadOnlyCopy(t *testing.T) {
	if err := namespace(t, "-m", "true").Run(); err != nil {
		t.Skipf("no namespaces here (unshare: %v)", err)
	}
	const body = "the body"
	source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		document := func(capability, entry string) {
			w.Header().Set("Content-Type", "application/xml")
			_, _ = fmt.Fprintf(w, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
<rs:md capability="%s" at="2026-01-01T00:00:00Z"/>%s</urlset>`, capability, strings.ReplaceAll(entry, "URL", "http://"+r.Host))
		}
		switch r.URL.Path {
		case "/capabilitylist.xml":
			document("capabilitylist", `<url><loc>URL/resourcelist.xml</loc><rs:md capability="resourcelist"/></url>`)
		case "/resourcelist.xml":
			document("resourcelist", fmt.Sprintf(`<url><loc>URL/a.txt</loc><rs:md hash="sha-256:%x" length="%d"/></url>`, sha256.Sum256([]byte(body)), len(body)))
		case "/a.txt":
			_, _ = fmt.Fprint(w, body)
		default:
			http.NotFound(w, r)
		}
	}))
	defer source.Close()
	for name, state := range map[string]string{"with its state": "", "its state elsewhere": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			rssub := func(what string) []string {
				args := []string{command("rssub"), what, source.URL + "/capabilitylist.xml", "--dir", dir, "--map", source.URL + "/=.", "--dev"}
				if state != "" {
					args = append(args, "--state-dir", state)
				}
				return args
			}
			if code, out := run(t, rssub("sync")...); code != 0 {
				t.Fatalf("sync ended with %d:\n%s", code, out)
			}
			audit := func(want int, says string) {
				t.Helper()
				script := `mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"`
				cmd := namespace(t, "-m", append([]string{"sh", "-c", script, "sh", dir}, rssub("audit")...)...)
				out, _ := cmd.CombinedOutput() // the exit code says it
				if code := cmd.ProcessState.ExitCode(); code != want || !strings.Contains(string(out), says) {
					t.Errorf("the audit ended with %d, want %d and %q:\n%s", code, want, says, out)
				}
			}
			audit(0, "equal")
			must(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("the bodx"), 0o600))
			audit(6, "differing")
		})
	}
}
