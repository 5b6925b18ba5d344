package ports_test

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"testing"

	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/test/ports"
)

func TestEachCallerHasAnother(t *testing.T) {
	seen := map[int]bool{}
	for range 200 {
		port := ports.Free()
		if seen[port] {
			t.Fatalf("%d was given twice", port)
		}
		seen[port] = true
	}
}

func listen(t *testing.T, port int) (net.Listener, error) {
	return new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}

func TestWhatIsTakenIsNotGiven(t *testing.T) {
	l, err := listen(t, ports.Free())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	for range 1000 { // once around
		if got := ports.Addr(); got == l.Addr().String() {
			t.Fatalf("%s was given while somebody listened there", got)
		}
	}
}

// A hub calls whatever port a test is given.
func TestPortsCanBeCalled(t *testing.T) {
	client, err := egress.New(egress.Options{Allow: egress.DevAllow()})
	if err != nil {
		t.Fatal(err)
	}
	for port := 10240; port < 32768; port++ {
		if err := client.CheckLiteral(fmt.Sprintf("http://127.0.0.1:%d/", port)); (err != nil) != slices.Contains(ports.NotCalled, port) {
			t.Errorf("%d: %v", port, err)
		}
	}
}

// No other binary can get the block of this one, from which all its ports are.
func TestBlockIsLocked(t *testing.T) {
	const first, size = 10240, 512
	from := func() int { return ports.Free() / size * size }
	if l, err := listen(t, from()); err == nil {
		_ = l.Close()
		t.Errorf("nobody listens on %d, the first port of the block", from())
	}
	for range 600 {
		if port := ports.Free(); port < first || port%size == 0 || port/size*size != from() {
			t.Fatalf("%d is not of the block from %d on", port, from())
		}
	}
}
