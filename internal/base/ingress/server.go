package ingress

import (
	"crypto/tls"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/rshub/rshub/internal/base/quiet"
)

// The limits of a listener, as docs/operations.md has them.
const (
	// headerTime is how long the header of a request may take, and the handshake
	// of TLS before it.
	headerTime = 10 * time.Second
	// requestTime is how long a request may take to arrive, unless its handler gives it
	// more time.
	requestTime = 25 * time.Second
	idleTime    = 2 * time.Minute
	maxHeader   = 64 << 10 // bytes
	// limitedEvery is how often the log may say that there are too many connections.
	limitedEvery = time.Minute
	// errorsAtOnce is how many errors of connections may be logged at once, and errorsEvery
	// the time after which one more may be.
	errorsAtOnce = 100
	errorsEvery  = time.Second
)

// PublicTotal and PublicEach are how many connections a listener for strangers accepts, in
// all and from one network (an IPv4 address or an IPv6 /64).
const (
	PublicTotal = 4096
	PublicEach  = 256
)

// Options describe a server. Handler is required.
type Options struct {
	// Name is what the log calls the listener.
	Name    string
	Handler http.Handler
	// Broken answers if Handler panicked before it began an answer. Nil: a plain 500.
	Broken http.HandlerFunc
	// Total is how many connections there may be, PerNetwork of one network; 0: no
	// limit. Connections of Exempt, which are proxies, count in Total alone.
	Total, PerNetwork int
	Exempt            []netip.Prefix
	// Log gets errors of connections, and panics. Nil: they are discarded.
	Log *slog.Logger
}

// NewServer returns a server with the limits of this package, to be used as any other. It
// speaks HTTP/1.1 alone, on which every limit here is one of a connection.
func NewServer(o Options) *http.Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Broken == nil {
		o.Broken = func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "This server made a mistake.", http.StatusInternalServerError)
		}
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	gate := newGate(o)
	return &http.Server{
		Handler:                      &ingress{listener: o.Name, next: o.Handler, broken: o.Broken, log: o.Log},
		Protocols:                    protocols,
		DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout:            headerTime,
		ReadTimeout:                  requestTime,
		IdleTimeout:                  idleTime,
		MaxHeaderBytes:               maxHeader,
		ConnState:                    gate.state,
		ErrorLog:                     log.New(ErrorLog(o.Name, o.Log), "", 0),
	}
}

// Serve is server.Serve on l, with TLS if there is a certificate.
func Serve(server *http.Server, l net.Listener, c *Certificate) error {
	if c != nil {
		l = tls.NewListener(l, c.config())
	}
	return server.Serve(l)
}

// errorLine is how many bytes of a line are logged: a stranger may have written the rest.
const errorLine = 200

// errorLog writes what net/http says of connections, within a limit, since any stranger can
// make it say something.
type errorLog struct {
	log      *slog.Logger
	listener string
	quiet    *quiet.Limit
}

// ErrorLog is for package log to write to: what net/http says of the connections of a
// listener, as lines of log, within a limit. Goroutines may share it.
func ErrorLog(listener string, log *slog.Logger) io.Writer {
	return &errorLog{log: log, listener: listener, quiet: quiet.New(errorsEvery, errorsAtOnce)}
}

func (e *errorLog) Write(line []byte) (int, error) {
	if leftOut, ok := e.quiet.Line(time.Now(), ""); ok {
		text := strings.ToValidUTF8(string(line[:min(len(line), errorLine)]), "")
		e.log.Info(strings.TrimSpace(text), slog.String("event", "http_error"), slog.String("listener", e.listener), slog.Int("left_out", leftOut))
	}
	return len(line), nil
}
