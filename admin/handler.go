package admin

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"
	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// Topics reads the journal, and resets and removes topics. journal.Journal implements it.
type Topics interface {
	Head(ctx context.Context, topic string) (journal.Head, error)
	Topics(ctx context.Context, partition int, after uuid.UUID, limit int) ([]journal.Head, error)
	Find(ctx context.Context, id uuid.UUID) (topic string, e journal.Entry, err error)
	Read(ctx context.Context, topic string, after journal.Anchor, max int, maxBytes int64) ([]journal.Entry, error)
	Body(ctx context.Context, topic string, e journal.Entry) ([]byte, error)
	Reset(ctx context.Context, topic string, ifHead journal.Version) error
	journal.Remover
}

// Pings reads ping records. journal.Pings implements it.
type Pings interface {
	PingRecords(ctx context.Context, partition int, after uuid.UUID, limit int) ([]journal.PingRecord, error)
}

// Subscriptions reads subscriptions. subscriptions.Store implements it.
type Subscriptions interface {
	Get(ctx context.Context, id uuid.UUID) (subscriptions.Record, error)
	List(ctx context.Context, shard int, after uuid.UUID, limit int) ([]subscriptions.Record, error)
	Attempts(ctx context.Context, id uuid.UUID) ([]subscriptions.Attempt, error)
}

// Control changes subscriptions for the operator. subscriptions.Service implements it.
type Control interface {
	Retry(ctx context.Context, id uuid.UUID) (subscriptions.Record, error)
	Replay(since time.Time) func(ctx context.Context, id uuid.UUID) (n uint64, rec subscriptions.Record, err error)
	Pause(ctx context.Context, id uuid.UUID) (subscriptions.Record, error)
	Resume(ctx context.Context, id uuid.UUID) (subscriptions.Record, error)
	Verify(ctx context.Context, id uuid.UUID) (subscriptions.Verification, error)
	End(ctx context.Context, id uuid.UUID, reason, notice string) error
}

// Check is the result of one readiness check.
type Check struct {
	Name string
	// Holds says what is true if Err is nil.
	Holds string
	Err   error
}

// Options are what the handler works with. All functions are called from many goroutines at
// once.
type Options struct {
	// Topics, Subscriptions and Info are for the calls of the API. A program without Topics has
	// only the paths for probes and scrapers.
	Topics        Topics
	Subscriptions Subscriptions
	Info          func(context.Context) Info
	// Pings reads ping records. Nil: there are none.
	Pings Pings
	// Control returns the Control, or nil while the hub is starting: then changes are
	// answered with 503. If the function is nil, they always are.
	Control func() Control
	// Ready checks whether the hub can accept requests. It returns when its context ends.
	// Nil: always ready.
	Ready func(context.Context) []Check
	// Subscribers counts the active subscriptions of a topic. It returns false if the
	// number is unknown, for example because other hubs own some of them. Nil: always
	// unknown.
	Subscribers func(topic string) (n int, ok bool)
	// Fleet returns the state of all hubs on the store. Nil: there is no such call.
	Fleet func(context.Context) Now
	// Streams returns open streams of this hub whose ids are greater than after, by their ids, up to
	// most of them, of one topic if that is not empty; and whether there are more. Nil: there is no
	// such call.
	Streams func(topic string, after uint64, most int) (list []Stream, more bool)
	// Refusals returns what was refused in the last day, the latest first. Nil: there is no
	// such call.
	Refusals func(context.Context) ([]Refused, error)
	// Publishers returns who may publish, in the order of their names. Nil: there is no such
	// call.
	Publishers func(context.Context) Publishers
	// Settings returns the settings of the hub, in the order of its help. Nil: there is no
	// such call.
	Settings func() []Setting
	// Answers returns what a callback answered to its latest failed deliveries, as far as this
	// hub knows. Nil: it knows nothing.
	Answers func(id uuid.UUID) []Answer
	// Tried returns why the last try to verify the request for a subscription failed, and when the
	// next one is due, as far as this hub knows. Nil: it knows nothing.
	Tried func(id uuid.UUID) (failure string, next time.Time)
	// Pauses returns why subscriptions of a topic wait. Nil: unknown.
	Pauses func(topic string) []Pause
	// Metrics answers /metrics. Nil: there is no such path.
	Metrics http.Handler
	// Pprof serves profiles of the process at /debug/pprof/ (`--pprof`), if there is a
	// token.
	Pprof bool
	// Token returns the bearer token that requests need (`--admin-token-file`). A reload may
	// change it. Nil: requests need none, and have to use a host name of this machine.
	Token func() string
	// ReaderToken returns the token of Reader (`--admin-readonly-token-file`). Nil: there is
	// none.
	ReaderToken func() string
	// People says how a proxy names the people whom it logged in (`--admin-auth-header`). Nil: only
	// tokens count.
	People *People
	// Page returns the handler for the paths below PagePath. It uses api for everything that
	// it shows and does. Nil: there is no page.
	Page func(api http.Handler) http.Handler
	// Links makes links for subscribers (`--subscriber-pages`). Nil: there are none.
	Links *Links
	// Hosts are the host names that browsers may use besides those of this machine
	// (`--allow-host`).
	Hosts []string
	// Refused is called with each request that was refused before its handler ran. It must
	// not block. Nil: it is not called.
	Refused func(Refusal)
	// Reload reads files again, and returns the result for each. Nil: there is no such call.
	Reload func() []Reloaded
	// Backup makes a backup of the hub, until its context ends. The caller closes its Content.
	// Nil: there is no such call.
	Backup func(context.Context) (*Backup, error)
	// Upgrades finishes an upgrade of the store's format. Nil: there are no such calls.
	Upgrades *Upgrades
	Log      *zap.Logger      // nil: no log
	Now      func() time.Time // nil: time.Now
}

// api has the table of paths. The calls about one thing are a type each, below.
type api struct {
	Options
	routes        []route
	topics        *topicCalls
	subscriptions *subscriptionCalls
	notifications *notificationCalls
}

type (
	// topicCalls are the calls about topics.
	topicCalls struct{ *Options }
	// subscriptionCalls are the calls about subscriptions.
	subscriptionCalls struct{ *Options }
	// notificationCalls are the calls about notifications.
	notificationCalls struct {
		*Options
		topics    *topicCalls
		counts    *counter
		documents *semaphore.Weighted // bytes of documents in memory
	}
)

// route is a row of the table of paths.
type route struct {
	method, path string
	about        string // for the index
	// params are the parameters of the query; any other is refused. Nil: the handler checks
	// them.
	params []string
	handle func(w http.ResponseWriter, r *http.Request) error
}

// none is for a call without parameters, and paging has those of a list.
var (
	none   = []string{}
	paging = []string{"limit", "after"}
)

// whenItTakesEffect is WhenItTakesEffect in the description of a route.
const whenItTakesEffect = "; it takes effect at once, or within 5 seconds if another hub delivers to it"

// text describes a route and its parameters.
func (rt *route) text() string {
	if len(rt.params) == 0 {
		return rt.about
	}
	return rt.about + "; ?" + strings.Join(rt.params, "=&") + "="
}

// New returns the operator's listener as a handler.
func New(o Options) http.Handler {
	return newAPI(o).handler()
}

func newAPI(o Options) *api {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	o.Log = o.Log.Named("admin")
	if o.Now == nil {
		o.Now = time.Now
	}
	a := &api{Options: o}
	a.topics, a.subscriptions = &topicCalls{&a.Options}, &subscriptionCalls{&a.Options}
	a.notifications = &notificationCalls{Options: &a.Options, topics: a.topics, documents: semaphore.NewWeighted(documentsBytes)}
	a.notifications.counts = newCounter(a.notifications.count, o.Now)
	a.routes = a.table()
	return a
}

func (a *api) handler() http.Handler { return newSecure(a.Options, a.router()) }

// table returns all paths of the listener. If a handler returns an error, that becomes the
// answer (fail), and the handler must not have written anything.
func (a *api) table() []route {
	rs := []route{
		{http.MethodGet, "/", "this list", nil, a.index},
		{http.MethodGet, "/livez", "200 as long as the process serves requests", nil, a.livez},
		{http.MethodGet, "/readyz", "200 if this server accepts requests, else 503 and why; ?verbose also lists the checks that pass", nil, a.readyz},
	}
	if a.Topics != nil {
		rs = append(rs, a.calls()...)
	}
	if a.Fleet != nil {
		rs = append(rs, route{http.MethodGet, "/api/v1/now", "how all hubs are: readiness, rates, what fails and lags, what is lost next, recent events", none, a.now})
	}
	if a.Streams != nil {
		rs = append(rs, route{http.MethodGet, "/api/v1/streams", "the streams that readers have open at this hub, the oldest first, and how many each hub has", append([]string{"topic"}, paging...), a.listStreams})
	}
	if a.Refusals != nil {
		rs = append(rs, route{http.MethodGet, "/api/v1/refusals", "what was refused in the last 24 hours, the latest first, with the sentence that the requester got", append([]string{"topic", "kind"}, paging...), a.listRefusals})
	}
	if a.Publishers != nil {
		rs = append(rs, route{http.MethodGet, "/api/v1/publishers", "who may publish, and how often they did", none, a.listPublishers})
	}
	if a.Settings != nil {
		rs = append(rs, route{http.MethodGet, "/api/v1/settings", "the settings of this hub, and where each comes from", none, a.listSettings})
	}
	if a.Metrics != nil {
		rs = append(rs, route{http.MethodGet, "/metrics", "figures for Prometheus", nil, serving(a.Metrics.ServeHTTP)})
	}
	if a.Reload != nil {
		rs = append(rs, route{http.MethodPost, "/api/v1/reload", "read the publishers with their secrets, the operator's token and the certificate again; 422 where one is no good, and stays as it was", none, a.change("reload", a.reload)})
	}
	if a.Backup != nil {
		rs = append(rs, route{http.MethodPost, "/api/v1/backup", "a backup of the topics with their notifications, and of the subscriptions: JSON lines for rshub restore; the hub writes it to its disk first", none, a.logged("backup", a.makeBackup)})
	}
	if a.Upgrades != nil {
		rs = append(rs,
			route{http.MethodGet, "/api/v1/upgrade", "in which format the hubs write the store", none, a.showUpgrade},
			route{http.MethodPost, "/api/v1/upgrade", "finish an upgrade: the hubs write the newest format, and older versions can't open the store any more; 409 while a hub of an older version is live", none, a.logged("upgrade", a.finishUpgrade)})
	}
	if a.Pprof && a.Token != nil {
		rs = append(rs, profiles()...)
	}
	return rs
}

// calls returns the paths of the API that every hub has.
func (a *api) calls() []route {
	return []route{
		{http.MethodGet, "/api/openapi.json", "these calls as OpenAPI 3.1", none, describe},
		{http.MethodGet, "/api/v1/info", "version, addresses, store, nodes", none, a.info},
		{http.MethodGet, "/api/v1/topics", "topics", paging, a.topics.listTopics},
		{http.MethodGet, "/api/v1/topics/{id}", "one topic", none, a.topics.getTopic},
		{http.MethodGet, "/api/v1/topics/{id}/notifications", "its retained notifications, oldest first, or ?order=newest first; ?at= selects the one whose interval that instant is in", append([]string{"since", "at", "order"}, paging...), a.notifications.listNotifications},
		{http.MethodPost, "/api/v1/topics/{id}/reset", "let its next notification start anywhere", none, a.change("reset", a.topics.resetTopic)},
		{http.MethodDelete, "/api/v1/topics/{id}", "delete it with its journal; 409 if it has active subscriptions, which ?force=true ends; 202: repeat the request to continue", []string{"force"}, a.change("remove", a.topics.removeTopic)},

		{http.MethodGet, "/api/v1/subscriptions", "subscriptions", append([]string{"topic", "state", "host"}, paging...), a.subscriptions.listSubscriptions},
		{http.MethodPost, "/api/v1/subscriptions", `do {"action": "retry", "replay", "pause", "resume" or "end"} with all that the query selects; "since" goes with "replay"; 202: go on with ?after= and "next"`, []string{"topic", "state", "host", "after"}, a.change("many", a.subscriptions.changeMany)},
		{http.MethodGet, "/api/v1/subscriptions/count", "how many that would be; ended ones do not count", []string{"topic", "state", "host", "after"}, a.subscriptions.countMany},
		{http.MethodGet, "/api/v1/subscriptions/{id}", "one subscription", none, a.subscriptions.getSubscription},
		{http.MethodGet, "/api/v1/subscriptions/{id}/attempts", "its failed deliveries and the first success after each, the latest 50, oldest first", paging, a.subscriptions.listAttempts},
		{http.MethodGet, "/api/v1/subscriptions/{id}/gaps", "the intervals that it did not get and why, those of its topic included", paging, a.subscriptions.listGaps},
		{http.MethodPost, "/api/v1/subscriptions/{id}/retry", "try what waits now: a delivery or a verification" + whenItTakesEffect, none, a.change("retry", a.subscriptions.ofSubscription(a.subscriptions.retry))},
		{http.MethodPost, "/api/v1/subscriptions/{id}/replay", `deliver again what is retained and ends after {"since": datetime}` + whenItTakesEffect, none, a.change("replay", a.subscriptions.ofSubscription(a.subscriptions.replay))},
		{http.MethodPost, "/api/v1/subscriptions/{id}/pause", "keep everything from it until it is resumed; its lease and retention go on" + whenItTakesEffect, none, a.change("pause", a.subscriptions.ofSubscription(a.subscriptions.pause))},
		{http.MethodPost, "/api/v1/subscriptions/{id}/resume", "let it continue where it was paused" + whenItTakesEffect, none, a.change("resume", a.subscriptions.ofSubscription(a.subscriptions.resume))},
		{http.MethodPost, "/api/v1/subscriptions/{id}/verify", "ask its callback again whether it wants the topic, and show the answer; it changes nothing", none, a.change("verify", a.subscriptions.ofSubscription(a.subscriptions.verify))},
		{http.MethodPost, "/api/v1/subscriptions/{id}/link", "make a link to its page for its subscriber, which is good for 7 days", none, a.change("link", a.subscriptions.ofSubscription(a.subscriptions.makeLink))},
		{http.MethodDelete, "/api/v1/subscriptions/{id}/link", "end all links to it", none, a.change("unlink", a.subscriptions.ofSubscription(a.subscriptions.revokeLinks))},
		{http.MethodDelete, "/api/v1/subscriptions/{id}", "end it, and notify its callback" + whenItTakesEffect, none, a.change("end", a.subscriptions.ofSubscription(a.subscriptions.endSubscription))},

		{http.MethodGet, "/api/v1/notifications/{id}", "one notification, and to how many subscriptions it was delivered; that reads every subscription, unless ?count=false", []string{"count"}, a.notifications.getNotification},
		{http.MethodGet, "/api/v1/notifications/{id}/document", "its document as it was published", none, a.notifications.getDocument},
		{http.MethodGet, "/api/v1/notifications/{id}/subscriptions", "the subscriptions that it was delivered to (?outcome=delivered), that wait for it (pending) and that it was passed over for (skipped)", append([]string{"outcome"}, paging...), a.notifications.listReceivers},
	}
}

// router serves the table. A path that is in it answers other methods with 405.
func (a *api) router() http.Handler {
	r := mux.NewRouter().SkipClean(true) // else //x redirects to /x, perhaps outside the prefix of a proxy
	byPath := map[string]map[string]route{}
	for _, rt := range a.routes {
		if byPath[rt.path] == nil {
			byPath[rt.path] = map[string]route{}
		}
		byPath[rt.path][rt.method] = rt
	}
	for _, rt := range a.routes { // in the order of the table: the first that matches answers
		if of := byPath[rt.path]; of != nil {
			r.Path(rt.path).Handler(a.methods(of))
			delete(byPath, rt.path)
		}
	}
	if a.Page != nil {
		r.PathPrefix(PagePath).Handler(a.Page(r))
		r.Path(strings.TrimSuffix(PagePath, "/")).Handler(http.RedirectHandler(PagePath, http.StatusMovedPermanently))
	}
	r.NotFoundHandler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		writeProblem(w, notFound("There is nothing at %s; GET / lists what there is.", r.URL.Path))
	})
	return r
}

// methods serves one path. HEAD is answered as GET, without the body.
func (a *api) methods(of map[string]route) http.Handler {
	allow := slices.Sorted(maps.Keys(of))
	if _, ok := of[http.MethodGet]; ok {
		allow = slices.Sorted(slices.Values(append(allow, http.MethodHead)))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		rt, ok := of[method]
		if !ok {
			w.Header().Set("Allow", strings.Join(allow, ", "))
			writeProblem(w, refuse(http.StatusMethodNotAllowed, "%s is not a method of %s; %s is.", r.Method, r.URL.Path, strings.Join(allow, " or ")))
			return
		}
		err := checkQuery(r.URL.RawQuery, rt.params)
		if err == nil {
			err = rt.handle(w, r)
		}
		if err != nil {
			a.fail(w, r, err)
		}
	})
}
