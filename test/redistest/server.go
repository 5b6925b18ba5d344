package redistest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rshub/rshub/test/ports"
)

// Standalone starts one server.
func Standalone(t testing.TB, opts ...Option) *Server {
	t.Helper()
	return lend(t, "standalone", opts, func(g *group) (*Server, error) { return g.data() })
}

// URL is the server's address as --redis-url of rshub accepts it.
func (s *Server) URL() string { return s.url("redis", "", s) }

// LoseTail lets write change the data, and then restarts the server with the data from
// before, as after a restored backup or a failover that lost the last writes.
func (s *Server) LoseTail(t testing.TB, write func()) {
	t.Helper()
	before := s.dir + ".before"
	if err := os.CopyFS(before, os.DirFS(s.dir)); err != nil {
		t.Fatal(err)
	}
	write()
	s.end()
	if err := errors.Join(os.RemoveAll(s.dir), os.Rename(before, s.dir)); err != nil {
		t.Fatal(err)
	}
	s.Restart(t)
}

// group is the servers of one test, with what they share.
type group struct {
	options
	Access
	dir string
	all []*Server
}

func newGroup(o options) (*group, error) {
	root, err := base()
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	dir, err := os.MkdirTemp(root.dir, "")
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	g := &group{options: o, dir: dir, Access: Access{User: o.user, Password: o.password}}
	if o.encrypted {
		err = g.certify(dir)
	}
	return g, err
}

func (g *group) end() {
	for _, s := range g.all {
		s.end()
	}
	_ = os.RemoveAll(g.dir)
}

// data starts a server that stores data, with further directives.
func (g *group) data(more ...[2]string) (*Server, error) {
	directives := [][2]string{
		{"appendonly", "yes"},
		{"appendfsync", "always"},
		{"save", `""`},
		{"repl-diskless-sync-delay", "0"},
		{"enable-debug-command", "local"},
		{"enable-module-command", "no"},
	}
	if g.user != "" {
		directives = append(directives,
			[2]string{"user", "default off"},
			[2]string{"user", fmt.Sprintf("%s on %q %s", g.user, ">"+g.password, g.rules)},
			[2]string{"user", fmt.Sprintf("%s on >%s ~* &* +@all", ownUser, ownPassword)},
			[2]string{"masteruser", ownUser},
			[2]string{"masterauth", ownPassword})
	}
	directives = append(directives, more...)
	return g.server(g.Access, append(directives, g.directives...))
}

// server starts a server. If another process uses the chosen port by now, it tries another
// port.
func (g *group) server(access Access, directives [][2]string, flags ...string) (*Server, error) {
	var err error
	for range 5 {
		s := &Server{Access: access, name: fmt.Sprintf("server %d", len(g.all)), port: ports.Free(), flags: flags}
		s.dir = filepath.Join(g.dir, fmt.Sprint(s.port))
		if err = s.configure(directives); err != nil {
			return nil, err
		}
		if err = s.start(); err == nil {
			g.all = append(g.all, s)
			return s, nil
		}
		if !strings.Contains(err.Error(), "in use") && !errors.Is(err, errEnded) {
			break
		}
	}
	return nil, err
}

// configure writes the server's redis.conf.
func (s *Server) configure(directives [][2]string) error {
	var b strings.Builder
	set := func(name, value string) { fmt.Fprintf(&b, "%s %s\n", name, value) }
	set("bind", "127.0.0.1")
	set("dir", s.dir)
	if s.tls == nil {
		set("port", fmt.Sprint(s.port))
	} else {
		set("port", "0")
		set("tls-port", fmt.Sprint(s.port))
		set("tls-cert-file", s.CAFile)
		set("tls-key-file", s.keyFile)
		set("tls-ca-cert-file", s.CAFile)
		set("tls-auth-clients", "no")
		set("tls-replication", "yes")
	}
	for _, d := range directives {
		set(d[0], d[1])
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	return os.WriteFile(filepath.Join(s.dir, "redis.conf"), []byte(b.String()), 0o600)
}
