package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A second hub on the folder of a running one says so and ends.
func TestFolderIsLocked(t *testing.T) {
	h := startHub(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "serve", "--dev", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir", h.dir)
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), h.dir) {
		t.Errorf("a second hub on %s: %v\n%s", h.dir, err, out)
	}
}

// Disk full: publishes get 503 and readiness says why, nothing is corrupted,
// and it works again when there is room. It needs a small file system of its
// own, as root or in a user namespace, and fails where neither can be had.
func TestDiskFull(t *testing.T) {
	if os.Getenv("E2E_NAMESPACE") == "" {
		inNamespace(t)
		return
	}
	mount := t.TempDir()
	if err := syscall.Mount("tmpfs", mount, "tmpfs", 0, "size=320m"); err != nil {
		t.Fatalf("a small file system cannot be mounted: %v", err)
	}
	defer func() { _ = syscall.Unmount(mount, syscall.MNT_DETACH) }()

	subscriber := newReceiver(t, 1)
	h := newHub(t, "--retry-first=100ms")
	h.dir = filepath.Join(mount, "data")
	h.start()
	src := newSource("http://" + h.addr + "/topic")
	h.subscribe(src.topic, subscriber.url(0, "/cb")).want(t, http.StatusAccepted)
	h.active(1)
	told := &history{callbacks: []string{"/cb"}}
	told.accepted = append(told.accepted, h.accepted(src.topic, src.next(0)).ID)

	filler := filepath.Join(mount, "filler")
	for name, size := range map[string]int{"under the high water mark": 100 << 20, "to the last byte": 400 << 20} {
		fill(t, filler, size)
		refused := src.next(0)
		eventually(t, time.Minute, func() error {
			a := h.publish(src.topic, refused)
			if a.status == http.StatusOK {
				told.accepted = append(told.accepted, decodeReceipt(t, a).ID)
				refused = src.next(0)
			}
			if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
				return fmt.Errorf("disk full (%s): answered %d %q", name, a.status, a.body)
			}
			return nil
		})
		eventually(t, time.Minute, func() error {
			a := do(t, http.MethodGet, "http://"+h.admin+"/readyz?verbose", nil, nil)
			if a.status != http.StatusServiceUnavailable || !strings.Contains(string(a.body), "free") {
				return fmt.Errorf("disk full (%s): readiness %d %q", name, a.status, a.body)
			}
			return nil
		})
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		r, err := h.publishUntilAccepted(ctx, src.topic, refused)
		cancel()
		if err != nil {
			t.Fatalf("not working again after there is room (%s): %v\n%s", name, err, h.log)
		}
		told.accepted = append(told.accepted, r.ID)
	}
	h.kill()
	h.start()
	told.accepted = append(told.accepted, h.accepted(src.topic, src.next(0)).ID)
	eventually(t, time.Minute, func() error { return told.missing(subscriber.got()) })
}

// inNamespace runs the test again where it may mount: directly as root, else in
// a user namespace.
func inNamespace(t *testing.T, more ...string) {
	t.Helper()
	args := append([]string{os.Args[0], "-test.run=^" + t.Name() + "$", "-test.v"}, more...)
	kinds := ""
	if os.Geteuid() != 0 {
		kinds = "-m"
	}
	out, err := namespace(t, kinds, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// namespace is a command in new namespaces of these kinds, as unshare calls them, and of users where root's
// rights are missing. No kinds: it runs as it is.
func namespace(t *testing.T, kinds string, args ...string) *exec.Cmd {
	t.Helper()
	if kinds != "" && os.Geteuid() != 0 {
		kinds += "Ur"
	}
	if kinds != "" {
		args = append([]string{"unshare", kinds}, args...)
	}
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "E2E_NAMESPACE=1")
	return cmd
}

// fill writes a file of up to size bytes, as far as there is room.
func fill(t *testing.T, path string, size int) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	block := make([]byte, 1<<20)
	for written := 0; written < size; written += len(block) {
		if _, err := f.Write(block); err != nil {
			for _, err := f.Write(block[:4096]); err == nil; _, err = f.Write(block[:4096]) {
				continue
			}
			return
		}
	}
}
