package admin

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"
	"go.uber.org/zap"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// Topics is what the API reads of the journal. journal.Journal has it.
type Topics interface {
	Head(ctx context.Context, topic string) (journal.Head, error)
	Topics(ctx context.Context, partition int, after uuid.UUID, limit int) ([]journal.Head, error)
}

// Subscriptions is what the API reads of the subscriptions.
// subscriptions.Registry has it.
type Subscriptions interface {
	Get(ctx context.Context, id uuid.UUID) (subscriptions.Record, error)
	List(ctx context.Context, shard int, after uuid.UUID, limit int) ([]subscriptions.Record, error)
}

// Control carries out what the operator asks for. subscriptions.Service has it.
type Control interface {
	Retry(ctx context.Context, id uuid.UUID) (subscriptions.Record, error)
	Replay(ctx context.Context, id uuid.UUID, since time.Time) (n uint64, rec subscriptions.Record, err error)
	End(ctx context.Context, id uuid.UUID, reason, notice string) error
}

// Check is one condition of readiness; a nil Err: it holds.
type Check struct {
	Name string
	Err  error
}

// Options is what the handler works with. Topics, Subscriptions and Info are
// required. What it is given is called from many goroutines at once.
type Options struct {
	Topics        Topics
	Subscriptions Subscriptions
	Info          func(context.Context) Info
	// Control returns what carries changes out; nil as long as the hub starts,
	// which is answered with 503. Nil itself: there never is one.
	Control func() Control
	// Ready tells whether the hub can take requests, and comes back when its
	// context ends. Nil: always.
	Ready func(context.Context) []Check
	// Subscribers counts those who get a topic now; ok is false where that is
	// not known. Nil: it never is.
	Subscribers func(topic string) (n int, ok bool)
	// Metrics answers /metrics. Nil: there is no such path.
	Metrics http.Handler
	// Pprof serves profiles of the process at /debug/pprof/ (`--pprof`), where
	// there is a token.
	Pprof bool
	// Token is the bearer token that is asked for (`--admin-token-file`).
	// Empty: none is, and only the host names of this machine are answered.
	Token string
	Log   *zap.Logger      // nil: no log
	Now   func() time.Time // nil: time.Now
}

// readyTimeout is how long a readiness answer waits for its checks.
const readyTimeout = 5 * time.Second

// api is the handlers and what they share.
type api struct {
	Options
	routes []route
}

// route is a row of the table of paths.
type route struct {
	method, path string
	about        string // for the index
	handle       func(w http.ResponseWriter, r *http.Request) error
}

// New returns the operator's listener as a handler.
func New(o Options) http.Handler {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	a := &api{Options: o}
	a.routes = a.table()
	return secure(o.Token, a.router())
}

// table is all paths of the listener. An error that a handler returns becomes the
// answer (fail); it must not have written anything before.
func (a *api) table() []route {
	rs := []route{
		{http.MethodGet, "/", "this list", a.index},
		{http.MethodGet, "/livez", "200 as long as the process serves requests", a.livez},
		{http.MethodGet, "/readyz", "200 when the hub takes requests, else 503 and why; ?verbose", a.readyz},
		{http.MethodGet, "/api/v1/info", "version, addresses, store, nodes", a.info},
		{http.MethodGet, "/api/v1/topics", "topics; ?limit=&after=", a.listTopics},
		{http.MethodGet, "/api/v1/topics/{id}", "one topic", a.getTopic},
		{http.MethodGet, "/api/v1/subscriptions", "subscriptions; ?topic=&state=&host=&limit=&after=", a.listSubscriptions},
		{http.MethodGet, "/api/v1/subscriptions/{id}", "one subscription", a.getSubscription},
	}
	if a.Metrics != nil {
		rs = append(rs, route{http.MethodGet, "/metrics", "figures for Prometheus", func(w http.ResponseWriter, r *http.Request) error {
			a.Metrics.ServeHTTP(w, r)
			return nil
		}})
	}
	if a.Pprof && a.Token != "" {
		rs = append(rs, profiles()...)
	}
	return rs
}

// router serves the table. A path that is in it answers other methods with 405.
func (a *api) router() http.Handler {
	r := mux.NewRouter()
	byPath := map[string]map[string]route{}
	for _, rt := range a.routes {
		if byPath[rt.path] == nil {
			byPath[rt.path] = map[string]route{}
			r.Path(rt.path).Handler(a.methods(byPath[rt.path]))
		}
		byPath[rt.path][rt.method] = rt
	}
	r.NotFoundHandler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		writeProblem(w, notFound("There is nothing at %s; GET / lists what there is.", r.URL.Path))
	})
	return r
}

func (a *api) methods(of map[string]route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		rt, ok := of[method]
		if !ok {
			var allow []string
			for m := range of {
				allow = append(allow, m)
			}
			slices.Sort(allow)
			w.Header().Set("Allow", strings.Join(allow, ", "))
			writeProblem(w, &problem{http.StatusMethodNotAllowed, fmt.Sprintf("%s is not a method of %s; %s is.", r.Method, r.URL.Path, strings.Join(allow, " and "))})
			return
		}
		if err := rt.handle(w, r); err != nil {
			a.fail(w, r, err)
		}
	})
}

func (a *api) index(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, rt := range a.routes {
		if _, err := fmt.Fprintf(tw, "%s\t%s\t%s\n", rt.method, rt.path, rt.about); err != nil {
			return nil //nolint:nilerr // the reader has gone
		}
	}
	_ = tw.Flush() // the same
	return nil
}

// livez touches nothing: not the store, not a lock.
func (a *api) livez(w http.ResponseWriter, _ *http.Request) error {
	return writeText(w, http.StatusOK, "ok\n")
}

func (a *api) readyz(w http.ResponseWriter, r *http.Request) error {
	var checks []Check
	if a.Ready != nil {
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		checks = a.Ready(ctx)
	}
	status, last := http.StatusOK, "ok\n"
	var text strings.Builder
	for _, c := range checks {
		switch {
		case c.Err != nil:
			status, last = http.StatusServiceUnavailable, "not ready\n"
			fmt.Fprintf(&text, "[-] %s: %v\n", c.Name, c.Err)
		case r.URL.Query().Has("verbose"):
			fmt.Fprintf(&text, "[+] %s\n", c.Name)
		}
	}
	return writeText(w, status, text.String()+last)
}

func (a *api) info(w http.ResponseWriter, r *http.Request) error {
	return writeJSON(w, a.Info(r.Context()))
}

func writeText(w http.ResponseWriter, status int, text string) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // a reader that has gone needs no answer
	return nil
}
