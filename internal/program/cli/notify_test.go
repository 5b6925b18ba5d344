package cli

import (
	"net"
	"path/filepath"
	"testing"
	"time"
)

// A program that ends at once has told the service manager that it stops.
func TestNotifyTellsTheEnd(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = manager.Close() }()
	t.Setenv("NOTIFY_SOCKET", socket)
	stopping := Notify(t.Context())
	stopping()
	stopping()
	if err := manager.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	for _, want := range []string{"READY=1", "STOPPING=1"} {
		if n, err := manager.Read(buf); err != nil || string(buf[:n]) != want {
			t.Errorf("%q, %v, want %s", buf[:n], err, want)
		}
	}
}
