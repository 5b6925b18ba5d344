package cli

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"
)

// A program that ends at once has told the service manager that it stops.
func TestNotifyTellsTheEnd(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = manager.Close() }()
	raw, err := manager.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("NOTIFY_SOCKET", socket)
	stopping := Notify(t.Context())
	stopping()
	var told []string // by now
	err = raw.Read(func(fd uintptr) bool {
		for buf := make([]byte, 100); ; {
			n, _, err := syscall.Recvfrom(int(fd), buf, syscall.MSG_DONTWAIT)
			if err != nil {
				return true
			}
			told = append(told, string(buf[:n]))
		}
	})
	if err != nil || len(told) != 2 || told[0] != "READY=1" || told[1] != "STOPPING=1" {
		t.Errorf("%q, %v", told, err)
	}
	stopping()
}
