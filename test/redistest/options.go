package redistest

import (
	"fmt"
	"sync"
	"testing"
)

// Option changes how servers are started.
type Option func(*options)

type options struct {
	directives [][2]string
	encrypted  bool
	user       string
	password   string
	rules      string
	replicas   int
	shared     bool
	steady     bool
}

// Config sets a directive of redis.conf for every data server, for example
// Config("appendfsync", "everysec"). By default, a server has an append-only file that it
// flushes at every write, and neither snapshots nor eviction.
func Config(directive, value string) Option {
	return func(o *options) { o.directives = append(o.directives, [2]string{directive, value}) }
}

// TLS makes the servers accept only TLS. Their certificate is in [Access.CAFile].
func TLS() Option { return func(o *options) { o.encrypted = true } }

// ACL disables the default user and creates one with the given rules. The URLs have its name
// and password. Empty rules are "~* &* +@all".
func ACL(user, password, rules string) Option {
	return func(o *options) {
		o.user, o.password, o.rules = user, password, rules
		if rules == "" {
			o.rules = "~* &* +@all"
		}
	}
}

// Replicas gives every master of a Cluster n replicas.
func Replicas(n int) Option { return func(o *options) { o.replicas = n } }

// Shared uses the same servers as other tests of this binary with the same options, and
// leaves them running. Such tests choose distinct prefixes and do not disturb the servers.
// So Shared implies [Steady].
func Shared() Option { return func(o *options) { o.shared, o.steady = true, true } }

// Steady says that the test does not disturb the servers. A server that does not answer for
// as long as [Dead] then does not count as dead: the machine is only busy.
func Steady() Option { return func(o *options) { o.steady = true } }

var shared = struct {
	sync.Mutex
	running map[string]any
}{running: map[string]any{}}

// lend gives the test the servers that start starts. Unless they are shared, they end with
// the test.
func lend[T interface{ Servers() []*Server }](t testing.TB, kind string, opts []Option, start func(*group) (T, error)) T {
	t.Helper()
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	g, err := newGroup(o)
	if err != nil {
		t.Fatal(err)
	}
	if !o.shared {
		t.Cleanup(g.end)
		return must(t, start, g)
	}
	shared.Lock()
	defer shared.Unlock()
	key := kind + fmt.Sprint(o)
	if running, ok := shared.running[key].(T); ok {
		return running
	}
	running := must(t, start, g)
	shared.running[key] = running
	return running
}

func must[T any](t testing.TB, start func(*group) (T, error), g *group) T {
	t.Helper()
	started, err := start(g)
	if err != nil {
		g.end()
		t.Fatal(err)
	}
	return started
}
