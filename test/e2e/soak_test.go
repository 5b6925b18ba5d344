package e2e

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rshub/rshub/test/redistest"
)

var soakFlag = flag.Duration("soak", 0, "how long the faults of the soak happen; 0: there is no soak")

// The ladders of a soak are short, so that a run of minutes goes up and down all of them.
const (
	soakGiveUp = 15 * time.Second // --give-up
	soakRetry  = 2 * time.Second  // --retry-max
	soakLease  = 30 * time.Second // what Destinations ask for
)

// soak is the hubs of a nemesis, with a real Source and real Destinations.
type soak struct {
	*nemesis
	chain *chain
	// admins are the operator's listeners of Source and Destinations, by their names.
	admins map[string]string
	// disk is a small file system; empty: there is none.
	disk string
	// front is the address of the hubs for Sources and Destinations, and back that of callbacks.
	front, back string
	hosts       []*callbackHost
	hostNames   []string
	authority   *soakAuthority
	dns         *names // nil: noNames says why there are none
	noNames     string
	planned     []fault
	notHad      map[string]string // kinds of faults that this machine does not allow, with the reason
	changes     int               // of files
	usage       [2]map[string]usage
}

// Hubs, Sources, Destinations, callbacks and streams under each kind of fault, for as long as -soak says:
// a hub with its folder, and three hubs with a Redis Cluster. Nothing may be missing or out of order, and
// after that each program needs as much memory and as many descriptors and goroutines as before.
func TestSoak(t *testing.T) {
	if *soakFlag == 0 {
		t.Skip("it runs with -args -soak=10m, as make soak does")
	}
	if *seedFlag == 0 {
		*seedFlag = rand.Uint64()
	}
	if soakApart(t) {
		return
	}
	fmt.Printf("seed %d (repeat with make soak DURATION=%v SEED=%d)\n", *seedFlag, *soakFlag, *seedFlag)
	authority := newSoakAuthority(t)
	token := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(token, []byte(operatorToken), 0o600))
	// Sources, Destinations and the clients of this process trust the authority, and operators have the token.
	// t.Setenv does not allow parallel tests.
	must(t, os.Setenv("SSL_CERT_FILE", authority.file)) //nolint:usetesting // as said
	must(t, os.Setenv("RSHUB_ADMIN_TOKEN_FILE", token)) //nolint:usetesting // as said
	names, noNames := (*names)(nil), "no namespace to mount a resolv.conf in"
	if os.Getenv("E2E_NAMESPACE") != "" {
		var err error
		if names, err = serveNames(t); err != nil {
			noNames = err.Error()
		}
	}
	var all []*soak
	t.Run("with", func(t *testing.T) {
		for n, run := range []func(s *soak){(*soak).onFolder, (*soak).onCluster} {
			t.Run([]string{"a folder", "a Redis Cluster"}[n], func(t *testing.T) {
				s := newSoak(t, n+1, authority, names, noNames)
				all = append(all, s)
				t.Parallel()
				run(s)
			})
		}
	})
	text, complaints := report(all)
	fmt.Print(text)
	for _, c := range complaints {
		t.Error(c)
	}
}

func newSoak(t *testing.T, n int, authority *soakAuthority, names *names, noNames string) *soak {
	t.Helper()
	s := &soak{
		nemesis: newNemesis(t), chain: newChain(t), admins: map[string]string{}, notHad: map[string]string{},
		authority: authority, dns: names, noNames: noNames, front: fmt.Sprintf("127.0.%d.1", n), back: fmt.Sprintf("127.0.%d.2", n),
	}
	s.addHosts()
	s.rages = *soakFlag
	s.operator = http.Header{"Authorization": {"Bearer " + operatorToken}}
	s.calm = s.measure
	return s
}

// onFolder has one hub with its folder and a certificate.
func (s *soak) onFolder() {
	begin := s.inFront("https")
	h := s.prepareHub(s.settings()...)
	faults := append(s.hubFaults(), s.backupFault(), s.killedBackupFault(), s.hubCertificateFault(h))
	if err := s.mountDisk(); err == nil {
		h.dir = filepath.Join(s.disk, "hub")
		h.args = append(h.args, "--min-free-disk=16MiB")
		faults = append(faults, s.diskFault())
	} else {
		s.notHad[diskFull] = err.Error()
	}
	begin()
	s.runAll(faults)
}

// onCluster has three hubs with a Redis Cluster with replicas.
func (s *soak) onCluster() {
	begin := s.inFront("http")
	redis := redistest.Cluster(s.t, redistest.Replicas(1))
	for range 3 {
		s.prepareHub(append([]string{
			"--redis-url", redis.URL(), "--redis-prefix", nemesisPrefix, "--owner-lease", s.lease.String(), "--drain", nemesisDrain.String(),
		}, s.settings()...)...)
	}
	begin()
	s.runAll(slices.Concat(s.hubFaults(), s.clusterFaults(redis, nemesisPrefix), s.redisCutFault(redis), s.redisClockFault(redis)))
}

// settings are those of all hubs.
func (s *soak) settings() []string {
	return []string{
		"--give-up", soakGiveUp.String(), "--retry-max", soakRetry.String(), "--ca-file", s.authority.file,
		"--admin-token-file", os.Getenv("RSHUB_ADMIN_TOKEN_FILE"), "--pprof",
	}
}

// inFront chooses the one address that Sources and Destinations have for all hubs. What it returns starts
// the hubs, and passes connections on to them.
func (s *soak) inFront(scheme string) (begin func()) {
	l, err := new(net.ListenConfig).Listen(s.t.Context(), "tcp", s.front+":0")
	must(s.t, err)
	s.public = scheme + "://" + l.Addr().String() + "/"
	s.chain.hubURL = s.public
	return func() {
		var addrs []string
		for _, h := range s.hubs {
			h.start()
			addrs = append(addrs, h.addr)
		}
		forward(s.t, l, addrs...)
	}
}

// runAll starts Source and Destinations, changes files during the faults, and judges all.
func (s *soak) runAll(faults []fault) {
	t, c := s.t, s.chain
	changes := newChanger(c.folder, t.TempDir(), c.rnd(1))
	for range 40 {
		must(t, changes.write(changes.free([]string{".", "folder 0", "folder 1"})))
	}
	s.addEnds()
	c.publisher.start()
	c.awaitList()
	for _, p := range c.followers {
		p.start()
	}
	c.awaitCopies("the baseline", patience)
	s.planned = slices.Concat(faults, s.endFaults(), s.networkFaults(), s.hostFaults(), s.clockFault())

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.alter(ctx, changes) }()
	s.run(s.planned)
	cancel()
	must(t, <-done)
	must(t, changes.write("the last one.txt"))
	c.awaitCopies("what changed", patience)
	c.judge()
}

// addEnds makes a Source, a Destination that is called, and one that reads the stream of the hubs.
func (s *soak) addEnds() {
	t, c := s.t, s.chain
	state := func(name string) string {
		if s.disk != "" {
			return filepath.Join(s.disk, name)
		}
		return filepath.Join(t.TempDir(), name)
	}
	source := newSourceEnd(t, c.folder, state("source"), s.public, "--hidden", "--max-deleted=1")
	c.publisher, c.source = source.process, "http://"+source.addr+"/"
	s.admins["rspub"] = source.admin
	for n, more := range [][]string{{"--lease", soakLease.String()}, {"--via", "stream"}} {
		dir := state(fmt.Sprint("copy-", n))
		more = append(more, "--map", c.source+"data/=.", "--max-delete", "1000000", "--min-free-disk=16MiB")
		e := newCopyEnd(t, c.source, dir, more...)
		if n == 1 { // it needs no address
			e.args = slices.DeleteFunc(e.args[:len(e.args)-2], func(arg string) bool { return arg == "--listen" || arg == e.addr })
			e.ready = "operator_listening"
		}
		e.name = fmt.Sprint("rssub ", n)
		c.followers, c.copies = append(c.followers, e.process), append(c.copies, dir)
		s.admins[e.name] = e.admin
	}
}

// alter changes files until ctx ends.
func (s *soak) alter(ctx context.Context, changes *changer) error {
	pace := s.chain.rnd(2)
	for wait(ctx, time.Duration(pace.IntN(400))*time.Millisecond) {
		if err := changes.change(); err != nil {
			return err
		}
		s.changes++
	}
	return nil
}

// soakApart runs the test again with a network and mounts of its own, where that is allowed, and reports
// whether it did.
func soakApart(t *testing.T) bool {
	t.Helper()
	if os.Getenv("E2E_NAMESPACE") != "" {
		must(t, loopbackUp())
		return false
	}
	if err := namespace(t, "-mn", "true").Run(); err != nil {
		fmt.Printf("no namespaces here (unshare: %v)\n", err)
		return false
	}
	cmd := namespace(t, "-mn", append([]string{os.Args[0]}, os.Args[1:]...)...)
	cmd.Args = append(cmd.Args, fmt.Sprint("-seed=", *seedFlag))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
	return true
}
