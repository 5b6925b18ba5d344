package telemetry

import (
	"net/http"
	"runtime"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/hub"
	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// Metrics counts what a hub does, for Prometheus. No label is a URL, a host or an
// id: each has a few values that are known beforehand, and all of them are there
// from the start with 0, so that a rate over the first failure is right.
//
// The methods that count may be called from many goroutines, never wait, and
// allocate nothing.
type Metrics struct {
	registry *prometheus.Registry
	live     map[string][]prometheus.Metric // of registry, by name
	machine  machine
	page     page // what registry holds, as text

	publishes       counters[string]
	publishTime     prometheus.Histogram
	publishedBytes  prometheus.Counter
	requests        [2]counters[string] // subscribe, unsubscribe
	pings, fetches  counters[string]
	gaps, gapCounts counters[string]
	damaged         prometheus.Counter
	crossSite       prometheus.Counter
	operator        counters[admin.Refusal]

	attempts       [len(outcomes)][len(answerCodes)]prometheus.Counter // nil: cannot be
	exchangeTime   prometheus.Histogram
	latency        prometheus.Histogram
	deliveredBytes prometheus.Counter

	verifications, ends counters[string]
	refused             counters[egress.Refusal]

	operations [operationCount]timed

	scraping sync.Mutex // one scrape at a time
	ask      func() Now
	now      Now // the answer at the last scrape; scraping guards it
}

// NewMetrics returns the metrics of a hub of a version that has done nothing yet.
func NewMetrics(version string, from Sources) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), live: make(map[string][]prometheus.Metric), ask: from.Now}
	m.registerRequests()
	m.registerAttempts()
	m.registerSubscriptions()
	m.registerStore()
	m.registerGauges(prometheus.Labels{"version": version, "goversion": runtime.Version()}, from.LossAfter)
	m.page = newPage(m.registry, m.live)
	m.machine = newMachine(from.Space)
	return m
}

// register adds a collector all of whose metrics are there already.
func (m *Metrics) register(name string, c prometheus.Collector) {
	m.registry.MustRegister(c)
	found := make(chan prometheus.Metric)
	go func() {
		defer close(found)
		c.Collect(found)
	}()
	for metric := range found {
		m.live[name] = append(m.live[name], metric)
	}
}

// counters are the counters of a family by the value of their label.
type counters[L ~string] map[L]prometheus.Counter

// one counts one of a label value. One that was not known beforehand, which tests
// rule out, is left out rather than added.
func (c counters[L]) one(label L) {
	if counter, ok := c[label]; ok {
		counter.Inc()
	}
}

// family registers counters that differ in one label.
func family[L ~string](m *Metrics, name, help, label string, values ...L) counters[L] {
	return familyOf(m, name, help, label, nil, values...)
}

// familyOf is family with labels that all of them have.
func familyOf[L ~string](m *Metrics, name, help, label string, fixed prometheus.Labels, values ...L) counters[L] {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: fixed}, []string{label})
	out := make(counters[L], len(values))
	for _, v := range values {
		out[v] = vec.WithLabelValues(string(v))
	}
	m.register(name, vec)
	return out
}

func (m *Metrics) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	m.register(name, c)
	return c
}

func (m *Metrics) histogram(name, help string, buckets ...float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	m.register(name, h)
	return h
}

// How a request that is no publish ended: the log and the API say more.
const (
	requestAccepted    = "accepted"
	requestRefused     = "refused"     // 4xx
	requestLimited     = "limited"     // 429
	requestUnavailable = "unavailable" // 5xx
)

// requestOutcome puts the status of an answer into one of these.
func requestOutcome(status int) string {
	switch {
	case status < http.StatusBadRequest:
		return requestAccepted
	case status == http.StatusTooManyRequests:
		return requestLimited
	case status < http.StatusInternalServerError:
		return requestRefused
	default:
		return requestUnavailable
	}
}

func (m *Metrics) registerRequests() {
	m.publishes = family(m, "rshub_publishes_total",
		"Publishes by outcome: accepted, duplicate, or the problem that they were refused with.", "outcome", hub.PublishOutcomes()...)
	m.publishTime = m.histogram("rshub_publish_duration_seconds",
		"Time from the header of a publish to its answer, the body and the topic check included.",
		.001, .005, .02, .1, .5, 2, 10, 60)
	m.publishedBytes = m.counter("rshub_published_bytes_total", "Bytes of the bodies of accepted publishes and fetches.")
	all := []string{requestAccepted, requestRefused, requestLimited, requestUnavailable}
	for i, mode := range []string{hub.EventSubscribe, hub.EventUnsubscribe} {
		m.requests[i] = familyOf(m, "rshub_subscription_requests_total",
			"Requests to subscribe and to unsubscribe by outcome; an accepted one is not verified yet.",
			"outcome", prometheus.Labels{"mode": mode}, all...)
	}
	m.pings = family(m, "rshub_pings_total", "Pings (hub.mode=publish) by outcome; an accepted one is not fetched yet.", "outcome", all...)
	m.fetches = family(m, "rshub_fetches_total",
		"Tries to fetch a topic after a ping, by outcome: accepted, duplicate, or the problem that what came was refused with.",
		"outcome", hub.FetchOutcomes()...)
	m.crossSite = m.counter("rshub_cross_site_refused_total", "POSTs that a web page of another origin or host name had a browser send.")
	m.operator = family(m, "rshub_operator_refused_total", "Requests to the operator's listener that were refused before they were read, by reason.",
		"reason", admin.Refusals()...)
	reasons := []string{
		journal.GapRetention, journal.GapGaveUp, journal.GapGone, journal.GapUnsubscribe, journal.GapExpired,
		journal.GapRemoved, journal.GapSource, journal.GapReset, journal.GapRolledBack, journal.GapDamaged,
	}
	m.gaps = family(m, "rshub_gaps_total",
		"Gaps that were recorded, by reason: of topics source, reset and rolled_back, of single subscriptions the others.", "reason", reasons...)
	m.gapCounts = family(m, "rshub_gap_notifications_total",
		"Notifications that a subscription did not get and will not get, by the reason of the gap.", "reason", reasons...)
	m.damaged = m.counter("rshub_damaged_notifications_total", "Damaged notifications found while delivering, each counted once since the start.")
}

// Operator counts a request that the operator's listener refused.
func (m *Metrics) Operator(why admin.Refusal) { m.operator.one(why) }

// Damaged counts a damaged notification.
func (m *Metrics) Damaged() { m.damaged.Inc() }

// Request counts a request that was answered, or a topic that was fetched.
func (m *Metrics) Request(e hub.Event) {
	if e.Outcome == hub.OutcomeCrossSite { // what it was to be is not known
		m.crossSite.Inc()
		return
	}
	switch e.Name {
	case hub.EventPublish, hub.EventPost: // whoever posts another media type most likely meant to publish
		m.publishes.one(e.Outcome)
		if e.Name == hub.EventPublish {
			m.publishTime.Observe(e.Duration.Seconds())
		}
	case hub.EventSubscribe:
		m.requests[0].one(requestOutcome(e.Status))
	case hub.EventUnsubscribe:
		m.requests[1].one(requestOutcome(e.Status))
	case hub.EventPing:
		m.pings.one(requestOutcome(e.Status))
	case hub.EventFetch:
		m.fetches.one(e.Outcome)
	}
	if e.Outcome == hub.OutcomeAccepted && (e.Name == hub.EventPublish || e.Name == hub.EventFetch) {
		m.publishedBytes.Add(float64(e.Bytes))
	}
	if e.Gap.Reason != "" {
		m.Gap(e.Gap)
	}
}

// Gap counts a gap that was recorded.
func (m *Metrics) Gap(g journal.Gap) {
	m.gaps.one(g.Reason)
	if c, ok := m.gapCounts[g.Reason]; ok {
		c.Add(float64(g.Count))
	}
}

// What verified subscription requests come to.
const (
	verified     = "verified"     // a subscribe is in force
	unsubscribed = "unsubscribed" // an unsubscribe is
	failed       = "failed"       // one try of a verification, a denial or a topic check
	dropped      = "dropped"      // the request came to nothing
	denied       = "denied"       // and the callback was told so
)

func (m *Metrics) registerSubscriptions() {
	m.verifications = family(m, "rshub_verifications_total",
		"What subscription requests came to: verified, unsubscribed, denied or dropped in the end; failed counts single tries.",
		"outcome", verified, unsubscribed, failed, dropped, denied)
	m.ends = family(m, "rshub_subscriptions_ended_total",
		"Subscriptions that ended, by reason; expired: the lease ran out and was not taken up again in time.",
		"reason", subscriptions.EndUnsubscribed, subscriptions.EndGone, subscriptions.EndExpired, subscriptions.EndRemoved)
	m.refused = family(m, "rshub_egress_refused_total",
		"Addresses that were not called, by reason; verify_budget: too many requests to a target that nobody confirmed.",
		"reason", egress.Refusals()...)
}

// Subscription counts what happened to a subscription or a request for one.
func (m *Metrics) Subscription(e subscriptions.Event) {
	switch e.Name {
	case subscriptions.EventVerified:
		m.verifications.one(verified)
	case subscriptions.EventFailed:
		m.verifications.one(failed)
	case subscriptions.EventDropped:
		m.verifications.one(dropped)
	case subscriptions.EventDenied:
		m.verifications.one(denied)
	case subscriptions.EventEnded:
		m.ends.one(e.Reason)
		if e.Reason == subscriptions.EndUnsubscribed {
			m.verifications.one(unsubscribed)
		}
	}
	if e.Gap.Reason != "" {
		m.Gap(e.Gap)
	}
}

// Refused counts an address that was not called.
func (m *Metrics) Refused(r egress.Refusal) { m.refused.one(r) }
