package telemetry

import (
	"context"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/hub"
	"github.com/rshub/rshub/internal/base/egress"
	"github.com/rshub/rshub/internal/engine/figures"
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
	set *figures.Set

	// Of requests by the names of their events: by their outcome, or by the class of their status.
	outcomes, answers map[string]figures.Counters[string]
	publishTime       prometheus.Histogram
	publishedBytes    prometheus.Counter

	gaps, gapCounts figures.Counters[string]
	damaged         prometheus.Counter
	crossSite       prometheus.Counter
	operator        figures.Counters[admin.Refusal]

	attempts       map[attempt]prometheus.Counter // those that are possible
	exchangeTime   prometheus.Histogram
	latency        prometheus.Histogram
	deliveredBytes prometheus.Counter

	verifications, ends figures.Counters[string]
	refused             figures.Counters[egress.Refusal]

	operations [operationCount]timed

	ask func() Now
	now Now // the state at the last scrape; only a scrape uses it
}

// NewMetrics returns the metrics of a hub of a version that has done nothing yet.
func NewMetrics(version string, from Sources) *Metrics {
	m := &Metrics{set: figures.New("rshub", "hub", version), ask: from.Now}
	m.registerRequests()
	m.registerAttempts()
	m.registerSubscriptions()
	m.registerStore()
	m.registerGauges(from.LossAfter)
	if from.Space == nil {
		m.set.Seal()
	} else {
		m.set.Seal(figures.Space{Ask: from.Space, Free: freeBytes, Least: leastBytes})
	}
	return m
}

var (
	freeBytes  = prometheus.NewDesc("rshub_store_free_bytes", "Free bytes on the disk of the data folder, or of the maxmemory of Redis.", nil, nil)
	leastBytes = prometheus.NewDesc("rshub_store_free_min_bytes", "With fewer free bytes the hub stores nothing new: publishes and subscription requests get 503.", nil, nil)
)

// Run reads the metrics of the process and of Go's runtime every few seconds, until ctx ends. In
// a scrape these are some seconds old, and all others are current. It returns nil.
func (m *Metrics) Run(ctx context.Context) error { return m.set.Run(ctx) }

// Handler answers a scrape. It reads no lanes and no store.
func (m *Metrics) Handler() http.Handler {
	return m.set.Handler(func() {
		if m.ask != nil {
			m.now = m.ask()
		}
	})
}

// Outcomes of a request that is not a publish. The log and the API say more.
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
	publishes := figures.Family(m.set, "rshub_publishes_total",
		"Publishes by outcome: accepted, duplicate, or the problem with which they were refused.", "outcome", hub.PublishOutcomes()...)
	m.publishTime = m.set.Histogram("rshub_publish_duration_seconds",
		"Time from the header of a publish to its answer, the body and the topic check included.",
		.001, .005, .02, .1, .5, 2, 10, 60)
	m.publishedBytes = m.set.Counter("rshub_published_bytes_total", "Bytes of the bodies of accepted publishes and fetches.")
	all := []string{requestAccepted, requestRefused, requestLimited, requestUnavailable}
	m.answers = make(map[string]figures.Counters[string])
	for _, mode := range []string{hub.EventSubscribe, hub.EventUnsubscribe} {
		m.answers[mode] = figures.FamilyOf(m.set, "rshub_subscription_requests_total",
			"Requests to subscribe and to unsubscribe by outcome; an accepted one is not verified yet.",
			"outcome", prometheus.Labels{"mode": mode}, all...)
	}
	m.answers[hub.EventPing] = figures.Family(m.set, "rshub_pings_total", "Pings (hub.mode=publish) by outcome; an accepted one is not fetched yet.", "outcome", all...)
	fetches := figures.Family(m.set, "rshub_fetches_total",
		"Tries to fetch a topic after a ping, by outcome: accepted, duplicate, or the problem with which the content was refused.",
		"outcome", hub.FetchOutcomes()...)
	// A client that posts another media type most likely meant to publish.
	m.outcomes = map[string]figures.Counters[string]{hub.EventPublish: publishes, hub.EventPost: publishes, hub.EventFetch: fetches}
	m.outcomes[hub.EventRead] = figures.Family(m.set, "rshub_reads_total",
		"Questions about the history of topics and streams that ended, by outcome: accepted, or the problem with which they were refused.",
		"outcome", hub.ReadOutcomes()...)
	m.crossSite = m.set.Counter("rshub_cross_site_refused_total", "POSTs that a browser sent for a web page of another origin or host name.")
	m.operator = figures.Family(m.set, "rshub_operator_refused_total", "Requests to the operator's listener that were refused before they were read, by reason.",
		"reason", admin.Refusals()...)
	reasons := []string{
		journal.GapRetention, journal.GapGaveUp, journal.GapGone, journal.GapUnsubscribe, journal.GapExpired,
		journal.GapRemoved, journal.GapSource, journal.GapReset, journal.GapRolledBack, journal.GapDamaged,
	}
	m.gaps = figures.Family(m.set, "rshub_gaps_total",
		"Recorded gaps, by reason. Source, reset and rolled_back are gaps of topics, the others of single subscriptions.", "reason", reasons...)
	m.gapCounts = figures.Family(m.set, "rshub_gap_notifications_total",
		"Notifications that a subscription did not get and will not get, by the reason of the gap.", "reason", reasons...)
	m.damaged = m.set.Counter("rshub_damaged_notifications_total", "Damaged notifications found while delivering, each counted once since the start.")
}

// Operator counts a request that the operator's listener refused.
func (m *Metrics) Operator(why admin.Refusal) { m.operator.One(why) }

// Damaged counts a damaged notification.
func (m *Metrics) Damaged() { m.damaged.Inc() }

// Request counts a request that was answered, or a topic that was fetched.
func (m *Metrics) Request(e hub.Event) {
	if e.Outcome == hub.OutcomeCrossSite { // it is not known which request it is
		m.crossSite.Inc()
		return
	}
	m.outcomes[e.Name].One(e.Outcome)
	m.answers[e.Name].One(requestOutcome(e.Status))
	if e.Name == hub.EventPublish {
		m.publishTime.Observe(e.Duration.Seconds())
	}
	if e.Outcome == hub.OutcomeAccepted && (e.Name == hub.EventPublish || e.Name == hub.EventFetch) {
		m.publishedBytes.Add(float64(e.Bytes))
	}
	m.Gap(e.Gap)
}

// Gap counts a gap that was recorded. It ignores a gap without a reason.
func (m *Metrics) Gap(g journal.Gap) {
	m.gaps.One(g.Reason)
	m.gapCounts.Add(g.Reason, int(g.Count)) //nolint:gosec // notifications of one topic
}

// The results of subscription requests.
const (
	verified     = "verified"     // a subscribe is in force
	unsubscribed = "unsubscribed" // an unsubscribe is
	failed       = "failed"       // one try of a verification, a denial or a topic check
	dropped      = "dropped"      // the request had no effect
	denied       = "denied"       // the same, and the callback was notified
)

// verifications are the results by the names of events. The end of a subscription is one only
// if it was unsubscribed.
var verifications = map[string]string{
	subscriptions.EventVerified: verified, subscriptions.EventFailed: failed,
	subscriptions.EventDropped: dropped, subscriptions.EventDenied: denied,
}

func (m *Metrics) registerSubscriptions() {
	m.verifications = figures.Family(m.set, "rshub_verifications_total",
		"Results of subscription requests: verified, unsubscribed, denied or dropped in the end; failed counts single tries.",
		"outcome", verified, unsubscribed, failed, dropped, denied)
	m.ends = figures.Family(m.set, "rshub_subscriptions_ended_total",
		"Subscriptions that ended, by reason; expired: the lease ran out and was not renewed in time.",
		"reason", subscriptions.EndUnsubscribed, subscriptions.EndGone, subscriptions.EndExpired, subscriptions.EndRemoved)
	m.refused = figures.Family(m.set, "rshub_egress_refused_total",
		"Addresses that were not called, by reason; verify_budget: too many requests to a target that nobody confirmed.",
		"reason", egress.Refusals()...)
}

// Subscription counts what happened to a subscription or a request for one.
func (m *Metrics) Subscription(e subscriptions.Event) {
	m.verifications.One(verifications[e.Name])
	if e.Name == subscriptions.EventEnded {
		m.ends.One(e.Reason)
		if e.Reason == subscriptions.EndUnsubscribed {
			m.verifications.One(unsubscribed)
		}
	}
	m.Gap(e.Gap)
}

// Refused counts an address that was not called.
func (m *Metrics) Refused(r egress.Refusal) { m.refused.One(r) }
