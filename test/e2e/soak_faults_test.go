package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/test/redistest"
)

// callbacksFail are the reasons of gaps that a fault between hubs and callbacks may cause.
var callbacksFail = []string{journal.GapGaveUp}

// endFaults are those of the processes of Source and Destinations.
func (s *soak) endFaults() []fault {
	some := func() *process { return pick(s.rnd, s.chain.all()) }
	return []fault{
		{name: "Source or Destination killed", kind: killed, begin: func() func() {
			p := some()
			p.kill()
			return p.start
		}},
		{name: "Source or Destination frozen", kind: frozen, begin: func() func() {
			p := some()
			must(s.t, p.cmd.Process.Signal(syscall.SIGSTOP))
			return func() { must(s.t, p.cmd.Process.Signal(syscall.SIGCONT)) }
		}},
	}
}

const diskSize = 2 << 30

// mountDisk mounts a file system that can be filled.
func (s *soak) mountDisk() error {
	mount := s.t.TempDir()
	if os.Getenv("E2E_NAMESPACE") == "" {
		return fmt.Errorf("no namespace to mount a small file system in")
	}
	if err := syscall.Mount("tmpfs", mount, "tmpfs", 0, fmt.Sprint("size=", diskSize)); err != nil {
		return fmt.Errorf("a small file system cannot be mounted: %w", err)
	}
	s.t.Cleanup(func() { _ = syscall.Unmount(mount, syscall.MNT_DETACH) })
	s.disk = mount
	return nil
}

// diskFault makes the disk of hub, Source and Destinations so small that it is full to the last byte, or
// that less is free than they leave.
func (s *soak) diskFault() fault {
	resize := func(size int64) error {
		return syscall.Mount("tmpfs", s.disk, "tmpfs", syscall.MS_REMOUNT, fmt.Sprint("size=", size))
	}
	return fault{name: "disk full", kind: diskFull, begin: func() func() {
		room := int64(s.rnd.IntN(2)) * 8 << 20
		eventually(s.t, time.Minute, func() error {
			var fs syscall.Statfs_t
			must(s.t, syscall.Statfs(s.disk, &fs))
			return resize(int64(fs.Blocks-fs.Bfree)*fs.Bsize + room) // which fails if more was written meanwhile
		})
		return func() { must(s.t, resize(diskSize)) }
	}}
}

// networkFaults cut what is between hubs and callbacks, or between the hubs and all others. Packets to an
// address have no route then; those from it pass.
func (s *soak) networkFaults() []fault {
	cut := func(addr string) func() func() {
		return func() func() {
			route := func(what string) { must(s.t, ip("route", what, "unreachable", addr, "table", "local")) }
			route("add")
			return func() { route("del") }
		}
	}
	if os.Getenv("E2E_NAMESPACE") == "" {
		s.notHad[networkCut] = "no network namespace"
		return nil
	}
	return []fault{
		{name: "network cut in front of hubs", kind: networkCut, begin: cut(s.front)},
		{name: "network cut before callbacks", kind: networkCut, gaps: callbacksFail, begin: cut(s.back)},
	}
}

func ip(args ...string) error {
	//nolint:noctx // it takes a moment
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %v: %w\n%s", args, err, out)
	}
	return nil
}

// redisCutFault cuts what comes to the ports of one server of a Cluster, or of all, from hubs and from
// replicas. The servers still see each other, so none is promoted.
func (s *soak) redisCutFault(c *redistest.Nodes) []fault {
	if os.Getenv("E2E_NAMESPACE") == "" {
		s.notHad[redisCut] = "no network namespace"
		return nil
	}
	// The rule that all others come behind is moved, so that others come before it.
	const first = "10"
	must(s.t, ip("rule", "add", "pref", "100", "lookup", "local"))
	must(s.t, ip("rule", "del", "pref", "0"))
	return []fault{{name: "hubs cut from Redis", kind: redisCut, begin: func() func() {
		servers := c.Servers()
		if s.rnd.IntN(2) == 0 {
			servers = []*redistest.Server{pick(s.rnd, servers)}
		}
		for _, r := range servers {
			_, port, err := net.SplitHostPort(r.Addr())
			must(s.t, err)
			must(s.t, ip("rule", "add", "pref", first, "ipproto", "tcp", "dport", port, "unreachable"))
		}
		time.Sleep(s.between(0, 8*time.Second))
		return func() {
			for range servers {
				must(s.t, ip("rule", "del", "pref", first))
			}
			c.AwaitCalm(s.t)
		}
	}}}
}

// hubCertificateFault gives a hub a certificate, and renews it while the hub runs. For a while the two files
// do not belong together.
func (s *soak) hubCertificateFault(h *hub) fault {
	cert, key := filepath.Join(s.t.TempDir(), "cert.pem"), filepath.Join(s.t.TempDir(), "key.pem")
	h.secure, h.args = true, append(h.args, "--tls-cert", cert, "--tls-key", key)
	renew := func(between time.Duration) *x509.Certificate {
		issued := s.authority.issue(s.t, 24*time.Hour, "hub.example", s.front, "127.0.0.1")
		private, err := x509.MarshalPKCS8PrivateKey(issued.PrivateKey)
		must(s.t, err)
		must(s.t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: issued.Certificate[0]}), 0o600))
		time.Sleep(between)
		must(s.t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
		parsed, err := x509.ParseCertificate(issued.Certificate[0])
		must(s.t, err)
		return parsed
	}
	renew(0)
	return fault{name: "certificate of the hub renewed", kind: hubRenewed, ofHub: true, begin: func() func() {
		renewed := renew(s.between(0, 8*time.Second)) // at times longer than the hub takes to look
		return func() {
			eventually(s.t, time.Minute, func() error {
				conn, err := new(tls.Dialer).DialContext(s.t.Context(), "tcp", h.addr)
				if err != nil {
					return err
				}
				defer func() { _ = conn.Close() }()
				got := conn.(*tls.Conn).ConnectionState().PeerCertificates[0] //nolint:errcheck // what a tls.Dialer returns
				if !got.Equal(renewed) {
					return fmt.Errorf("the hub has a certificate from %v, and the newest one is from %v", got.SerialNumber, renewed.SerialNumber)
				}
				return nil
			})
		}
	}}
}

const (
	canStepClock = runtime.GOOS == "linux" && runtime.GOARCH == "amd64"
	noClock      = "the clock of one process can be set only on Linux with amd64"
)

// clockFault sets the clock that a hub sees, for less than the two hours that a step has to last.
func (s *soak) clockFault() []fault {
	if !canStepClock {
		s.notHad[hubClock] = noClock
		return nil
	}
	return []fault{{name: "clock of a hub set", kind: hubClock, ofHub: true, begin: func() func() {
		h := s.someHub()
		by := s.between(-time.Hour, 90*time.Minute)
		s.t.Logf("by %v", by.Round(time.Second))
		stepClock(s.t, h.cmd.Process.Pid, by)
		return func() { stepClock(s.t, h.cmd.Process.Pid, 0) }
	}}}
}

// redisClockFault sets the clock of one server of a Cluster, or of all. libfaketime could do it as well, but
// that of Debian 12 does not start with a redis-server that has jemalloc.
func (s *soak) redisClockFault(c *redistest.Nodes) []fault {
	if !canStepClock {
		s.notHad[redisClock] = noClock
		return nil
	}
	return []fault{{name: "clock of Redis set", kind: redisClock, loses: true, begin: func() func() {
		servers := c.Servers()
		if s.rnd.IntN(2) == 0 {
			servers = []*redistest.Server{pick(s.rnd, servers)}
		}
		by := s.between(-time.Hour, 90*time.Minute)
		s.t.Logf("of %d by %v", len(servers), by.Round(time.Second))
		set := func(by time.Duration) {
			for _, r := range servers {
				stepClock(s.t, r.PID(), by)
			}
		}
		set(by)
		now, _ := servers[0].Do(s.t, "TIME").([]any)
		if is, err := strconv.ParseInt(fmt.Sprint(now[0]), 10, 64); err != nil || time.Until(time.Unix(is, 0).Add(-by)).Abs() > 5*time.Second {
			s.t.Errorf("the clock of Redis says %v (%v), want it to be %v ahead", now, err, by)
		}
		time.Sleep(s.between(0, 3*time.Second))
		return func() {
			set(0)
			if by > 0 {
				forgetFuture(s.t, servers)
			}
			c.AwaitCalm(s.t)
		}
	}}}
}

// forgetFuture restarts servers of a Cluster whose clock was ahead, as their operator has to. Redis compares times
// of before with those of after. Until its clock is there again, such a server does not notice that another one is dead, and
// one that was in a minority calls the Cluster down after the next failover, whatever the others say.
func forgetFuture(t *testing.T, servers []*redistest.Server) {
	t.Helper()
	time.Sleep(redistest.Dead / 4) // the hubs see it go back
	for _, r := range servers {
		r.Restart(t)
	}
}
