package docs

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rshub/rshub/test/ports"
	"github.com/rshub/rshub/test/programs"
)

// built returns the path of a command, which it builds.
func built(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	if err := programs.Build(dir, name); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

// run starts a command with an operator's listener, and waits until it answers. It returns
// the address of that.
func run(t *testing.T, command string, args ...string) (admin string) {
	t.Helper()
	admin = ports.Addr()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(command, append(args, "--admin-listen", admin)...) //nolint:noctx // it is stopped below
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if text, _ := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("%s:\n%s", filepath.Base(command), text)
		}
	})
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		resp, err := http.Get("http://" + admin + "/livez") //nolint:noctx // a test
		if err == nil {
			_ = resp.Body.Close()
			return admin
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not answer: %v", command, err)
		}
	}
}

// startSource starts rspub on a new folder, with a hub that need not exist.
func startSource(t *testing.T, hub string) (url, admin string) {
	t.Helper()
	listen := ports.Addr()
	return "http://" + listen + "/", run(t, built(t, "rspub"), "serve", "--dir", t.TempDir(), "--state-dir", t.TempDir(), "--dev", "--listen", listen, "--public-url", "http://"+listen+"/", "--hub", hub, "--settle", "10ms")
}

// runSource returns the metrics of a relay, which has those of any Source and more.
func runSource(t *testing.T) string {
	t.Helper()
	return scraped(t, run(t, built(t, "rspub"), "relay", "--state-dir", t.TempDir(), "--dev", "--listen", ports.Addr(), "--public-listen", ports.Addr(), "--hub", "http://127.0.0.1:1/"))
}

// startDestination starts rssub on a new folder.
func startDestination(t *testing.T, source string) (admin string) {
	t.Helper()
	return run(t, built(t, "rssub"), "follow", source, "--dir", t.TempDir(), "--dev", "--listen", ports.Addr())
}

// runDestination returns the metrics of a Destination of many Sources, which has those of one
// and more. Its only Source has the name NAME.
func runDestination(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sources.yaml")
	if err := os.WriteFile(file, []byte("sources: [{name: NAME, url: http://"+ports.Addr()+"/}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return scraped(t, run(t, built(t, "rssub"), "follow", "--sources", file, "--dir", t.TempDir(), "--dev", "--listen", ports.Addr()))
}

// scraped is the answer of /metrics.
func scraped(t *testing.T, admin string) string {
	t.Helper()
	resp, err := http.Get("http://" + admin + "/metrics") //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
