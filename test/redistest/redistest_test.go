package redistest_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/test/redistest"
)

func TestStandaloneKeepsItsData(t *testing.T) {
	s := redistest.Standalone(t, redistest.Config("maxmemory", "64mb"))
	s.Do(t, "SET", "a", "1")
	s.Kill(t)
	if _, err := s.Try("PING"); err == nil {
		t.Fatal("it answers though it was killed")
	}
	s.Restart(t)
	if got := s.Do(t, "GET", "a"); got != "1" {
		t.Errorf("a is %v after a kill, want 1", got)
	}
	s.LoseTail(t, func() { s.Do(t, "SET", "a", "2") })
	if got := s.Do(t, "GET", "a"); got != "1" {
		t.Errorf("a is %v after its tail was lost, want 1", got)
	}
	if got := s.Do(t, "CONFIG", "GET", "maxmemory"); fmt.Sprint(got) != "[maxmemory 67108864]" {
		t.Errorf("the directive is %v", got)
	}
}

func TestFrozenServerAnswersWhenItGoesOn(t *testing.T) {
	s := redistest.Standalone(t)
	s.Freeze(t)
	conn, err := dial(t, s.Addr()) // the kernel still accepts connections
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = conn.Write([]byte("PING\r\n"))
	_ = conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	if n, _ := conn.Read(make([]byte, 1)); n != 0 {
		t.Error("a frozen server answered")
	}
	s.Continue(t)
	s.Do(t, "PING")
}

func dial(t *testing.T, addr string) (net.Conn, error) {
	return (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", addr)
}

func TestSharedServerIsTheSame(t *testing.T) {
	a, b := redistest.Standalone(t, redistest.Shared()), redistest.Standalone(t, redistest.Shared())
	if a != b {
		t.Error("two tests got two servers")
	}
	if c := redistest.Standalone(t, redistest.Shared(), redistest.Config("maxmemory", "64mb")); c == a {
		t.Error("other options, but the same server")
	}
}

func TestACLAndTLS(t *testing.T) {
	opts := []redistest.Option{redistest.TLS(), redistest.ACL("hub", "let me", "")}
	standalone := redistest.Standalone(t, opts...)
	if want := "rediss://hub:let%20me@" + standalone.Addr(); standalone.URL() != want {
		t.Errorf("the URL is %s, want %s", standalone.URL(), want)
	}
	standalone.Do(t, "SET", "a", "1")
	sentinel := redistest.Sentinel(t, opts...)
	sentinel.Master(t).Do(t, "SET", "a", "1")
	cluster := redistest.Cluster(t, opts...)
	owner, _ := cluster.Owner(t, cluster.Slot(t, "a"))
	owner.Do(t, "SET", "a", "1")
}

func TestSentinelPromotes(t *testing.T) {
	s := redistest.Sentinel(t)
	first := s.Master(t)
	first.Do(t, "SET", "a", "1")
	s.Failover(t)
	second := s.Master(t)
	if first == second || second.Do(t, "GET", "a") != "1" {
		t.Fatal("nothing was promoted, or something was lost")
	}
	s.LoseTail(t, func() { second.Do(t, "SET", "a", "2") })
	third := s.Master(t)
	if got := third.Do(t, "GET", "a"); third == second || got != "1" {
		t.Errorf("a is %v after the tail was lost, want 1", got)
	}
	if got := second.Do(t, "GET", "a"); got != "1" {
		t.Errorf("a is %v at the old master, which follows the new one; want 1", got)
	}
}

func TestClusterFailsOverAndMovesSlots(t *testing.T) {
	c := redistest.Cluster(t, redistest.Replicas(1))
	slot := c.Slot(t, "{p:1}")
	first, _ := c.Owner(t, slot)
	first.Do(t, "SET", "{p:1}a", "1")
	c.Failover(t, slot)
	second, _ := c.Owner(t, slot)
	if first == second || second.Do(t, "GET", "{p:1}a") != "1" {
		t.Fatal("nothing was promoted, or something was lost")
	}
	c.LoseTail(t, slot, func() { second.Do(t, "SET", "{p:1}a", "2") })
	third, _ := c.Owner(t, slot)
	if got := third.Do(t, "GET", "{p:1}a"); third == second || got != "1" {
		t.Errorf("{p:1}a is %v after the tail was lost, want 1", got)
	}
	to, _ := c.Owner(t, (slot+8192)%16384)
	c.MigrateSlot(t, slot, to)
	if owner, _ := c.Owner(t, slot); owner != to || to.Do(t, "GET", "{p:1}a") != "1" {
		t.Error("the slot has not moved with its keys")
	}
}

// A test binary that is killed leaves neither servers nor folders behind.
func TestServersDieWithTheBinary(t *testing.T) {
	if os.Getenv("REDISTEST_CHILD") != "" {
		s := redistest.Standalone(t, redistest.Shared())
		dir, _ := s.Do(t, "CONFIG", "GET", "dir").([]any)
		fmt.Printf("\nat %s in %s\n", s.Addr(), dir[1])
		time.Sleep(time.Minute)
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestServersDieWithTheBinary$", "-test.v")
	cmd.Env = append(os.Environ(), "REDISTEST_CHILD=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var addr, dir string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if n, _ := fmt.Sscanf(lines.Text(), "at %s in %s", &addr, &dir); n == 2 {
			break
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	deadline := time.Now().Add(30 * time.Second)
	for {
		conn, dialled := dial(t, addr)
		if dialled == nil {
			_ = conn.Close()
		}
		_, there := os.Stat(dir)
		if dialled != nil && os.IsNotExist(there) && strings.Contains(dir, "redistest-") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after 30 s the server %s answers (%v) or its folder %s is there (%v)", addr, dialled, dir, there)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
