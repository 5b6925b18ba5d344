package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/rshub/rshub/internal/base/ingress"
	"github.com/rshub/rshub/internal/program/config"
)

// LocalFlags are the flags of a listener for programs on this machine: an address or a Unix
// socket.
type LocalFlags struct {
	at        addressFlags
	tokenFile string
}

// Add adds --listen, --token-file, --tls-cert and --tls-key. What says what is accepted there.
// Another command of the program has these flags for other things, so their settings begin with
// the name of the command.
func (f *LocalFlags) Add(flags *pflag.FlagSet, program, command, port, what string) {
	f.at.prefix = "--"
	flags.StringVar(&f.at.addr, "listen", "127.0.0.1:"+port, "`ADDR` at which "+what+", or unix:PATH for a Unix socket that only this user can open")
	flags.StringVar(&f.tokenFile, "token-file", "", "`FILE` with the bearer token that --listen demands, at least 16 characters, read again when it changes; required unless --listen is a loopback address or a socket")
	flags.StringVar(&f.at.cert, "tls-cert", "", "`FILE` with the certificate of --listen and its chain (PEM), read again when it changes; --listen then serves only https")
	flags.StringVar(&f.at.key, "tls-key", "", "`FILE` with the private key of --tls-cert (PEM), read again when it changes")
	for _, name := range []string{"listen", "token-file", "tls-cert", "tls-key"} {
		config.NameSetting(flags.Lookup(name), command+"-"+name, strings.ToUpper(program)+"_")
	}
}

// Check reports what is wrong with the flags.
func (f *LocalFlags) Check() error {
	if path, ok := strings.CutPrefix(f.at.addr, socketPrefix); ok && path == "" {
		return Fail(ExitUsage, "--listen: unix: lacks the path of the socket; write it like unix:/run/rspub/relay.sock")
	} else if ok {
		return nil
	}
	if strings.HasPrefix(f.at.addr, "/") || strings.HasPrefix(f.at.addr, ".") {
		return Fail(ExitUsage, "--listen: %[1]s is the path of a file; for a Unix socket write %[2]s%[1]s", f.at.addr, socketPrefix)
	}
	if err := checkListen("--listen", f.at.addr); err != nil {
		return err
	}
	if f.tokenFile != "" || config.IsLoopback(f.at.addr) {
		return nil
	}
	return Fail(ExitUsage, "--listen: %s can be reached from elsewhere, so it needs a token: name its file with --token-file, or keep the listener on this machine, with 127.0.0.1 or unix:PATH", f.at.addr)
}

// socket is the path of the Unix socket; empty: it is an address.
func (f *LocalFlags) socket() string {
	path, _ := strings.CutPrefix(f.at.addr, socketPrefix)
	if path == f.at.addr {
		return ""
	}
	return path
}

const socketPrefix = "unix:"

// Local is the server of LocalFlags.
type Local struct {
	port
	// Socket is the path of the Unix socket; empty: it has an address.
	Socket string
	// Failed receives an error if the server ends by itself.
	Failed chan error
	token  *Credential
}

// localTotal is how many connections a Local has.
const localTotal = 256

// Open reads the certificate and the token, and opens the address. Nothing is answered before
// Serve. Name is what the log calls the listener. An error has its exit code.
func (f *LocalFlags) Open(ctx context.Context, name string, log *slog.Logger) (*Local, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	s := &Local{
		Socket: f.socket(), Failed: make(chan error, 1),
		port: port{quit: func() {}, o: ingress.Options{Name: name, Total: localTotal, Log: log}},
	}
	var err error
	if s.token, err = readToken("--token-file", f.tokenFile, log); err != nil {
		return nil, err
	}
	if s.Socket == "" {
		if err = s.open(ctx, f.at); err == nil && s.token.name != "" && s.cert == nil && !config.IsLoopback(f.at.addr) {
			log.Warn("the token for this listener goes over the network unencrypted: give it a certificate with --tls-cert, or use a Unix socket", "event", "credential_in_clear", "listener", name)
		}
		return s, err
	}
	if f.at.cert != "" || f.at.key != "" {
		return nil, Fail(ExitUsage, "a Unix socket has no TLS: leave out --tls-cert and --tls-key")
	}
	s.Listener, err = listenSocket(ctx, s.Socket)
	return s, err
}

// Token returns what returns the token now; nil: none is needed.
func (s *Local) Token() func() string {
	if s.token.name == "" {
		return nil
	}
	return s.token.Get
}

// At is the address as a client of the same machine writes it: a URL, or unix: and the path.
func (s *Local) At() string {
	if s.Socket != "" {
		return socketPrefix + s.Socket
	}
	host, _, _ := net.SplitHostPort(s.Addr().String()) // always an address of TCP
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() || ip.IsLoopback() {
		host = "localhost"
	}
	return s.URL(host)
}

// Serve answers with a handler until Stop.
func (s *Local) Serve(ctx context.Context, h http.Handler) { s.serve(ctx, h, s.Failed) }

// Stop accepts no more requests, waits up to drain for those in progress, and removes the socket.
func (s *Local) Stop(ctx context.Context, drain time.Duration) { s.stop(ctx, drain) }

// listenSocket opens a Unix socket that only this user can open. One that nobody listens at any
// more is replaced.
func listenSocket(ctx context.Context, path string) (net.Listener, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, Fail(ExitFailure, "--listen: %w", err)
	case info.Mode().Type() != os.ModeSocket:
		return nil, Fail(ExitUsage, "--listen: %s is there and is no socket; give another path", path)
	default:
		conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
		if err == nil {
			_ = conn.Close() // it only asked whether anyone is there
		}
		if !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, os.ErrNotExist) {
			return nil, Fail(ExitFailure, "--listen: another program listens at %s; stop it, or give another path", path)
		}
	}
	l, err := socketAt(ctx, path)
	if err != nil {
		return nil, Fail(ExitFailure, "--listen: opening the socket %s: %w", path, err)
	}
	return l, nil
}

// socketAt makes the socket in a folder that nobody else can enter, and moves it to its path when
// nobody else can open it.
func socketAt(ctx context.Context, path string) (_ net.Listener, err error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".s")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.Remove(dir)) }()
	at := filepath.Join(dir, "s")
	l, err := new(net.ListenConfig).Listen(ctx, "unix", at)
	if err != nil {
		_ = os.Remove(at)
		return nil, fmt.Errorf("%w (a path may have about 90 bytes)", err)
	}
	s, _ := l.(*net.UnixListener)
	s.SetUnlinkOnClose(false)
	if err = os.Chmod(at, 0o600); err == nil {
		err = os.Rename(at, path)
	}
	if err != nil {
		_, _ = s.Close(), os.Remove(at)
		return nil, err
	}
	return &socket{s, path}, nil
}

// socket removes its file when it is closed.
type socket struct {
	*net.UnixListener
	path string
}

// Close removes the file first, so that a client that finds it is answered.
func (s *socket) Close() error {
	return errors.Join(os.Remove(s.path), s.UnixListener.Close())
}
