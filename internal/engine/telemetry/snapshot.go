package telemetry

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/rshub/rshub/delivery"
	"github.com/rshub/rshub/subscriptions"
)

// Sources are asked at each scrape how things stand, and answer at once whatever
// the hub holds. A nil one is not asked.
type Sources struct {
	Ready         func() bool
	Delivery      func() (delivery.Stats, delivery.LagReport)
	Subscriptions func() subscriptions.Counts
	// Shares is how many shards the hub owns, and how many hubs live.
	Shares func() (owned, live int)
	// Space is how many bytes of the store are free, and under how many it stores
	// nothing new; false: that is not known. It is asked every few seconds, since it
	// may take a while.
	Space func() (free, least int64, ok bool)
	Outlook
	// ClockStep is how far the machine's clock is ahead of the time that the hub
	// believes.
	ClockStep func() time.Duration
}

// snapshot is what a scrape asks the sources for.
type snapshot struct {
	from   Sources
	ready  prometheus.Gauge
	shards prometheus.Gauge
	hubs   prometheus.Gauge
	step   prometheus.Gauge
	states map[subscriptions.State]prometheus.Gauge

	stored, most                          prometheus.Gauge
	waiting, oldest, failing, at          prometheus.Gauge
	topics, hosts, suspects               prometheus.Gauge
	away, damaged                         prometheus.Gauge
	inFlight, lanesReady, lanesWaiting    prometheus.Gauge
	bytesInFlight, bytesCached, unwritten prometheus.Gauge
	lags, spans                           *distribution
}

const (
	lagName  = "rshub_subscription_lag_notifications"
	spanName = "rshub_subscription_lag_seconds"
)

func (m *Metrics) registerSnapshot(from Sources) {
	s := &m.snapshot
	s.from = from
	plain := func(name, help string) prometheus.Gauge { return m.gauge(name, help, nil) }
	s.ready = plain("rshub_ready", "1 if GET /readyz says that the hub is ready, else 0.")
	s.shards = plain("rshub_shards_owned", "Shards of the store that this hub works on, of 256.")
	s.hubs = plain("rshub_hubs_live", "Live hubs on the store, this one included, as this hub knows.")
	s.step = plain("rshub_clock_step_seconds", "How far the machine's clock is ahead of the hub's time, or behind it if negative; 0: they agree.")
	s.states = make(map[subscriptions.State]prometheus.Gauge)
	for _, state := range []subscriptions.State{
		subscriptions.StatePending, subscriptions.StateActive, subscriptions.StateFailing, subscriptions.StatePaused, subscriptions.StateEnded,
	} {
		s.states[state] = m.gauge("rshub_subscriptions",
			"Subscriptions by state. Active, failing and paused ones are counted every few seconds, ended ones every few minutes.",
			prometheus.Labels{"state": string(state)})
	}
	s.stored = plain("rshub_subscriptions_stored", "Subscriptions stored in the shards of this hub, including those that ended in the last 7 days.")
	s.most = plain("rshub_subscriptions_stored_max", "How many there may be: this hub's fraction of --max-subscriptions; 0: no limit.")
	s.waiting = plain("rshub_subscription_requests_waiting", "Requests and denials that are in progress or queued.")
	s.lags = newDistribution(lagName,
		"How many notifications the subscriptions in force are behind their topics. It is counted anew every few seconds, so that it has no rate.")
	s.spans = newDistribution(spanName,
		"How far the subscriptions in force are behind their topics in time, from the until of what they got last to that of the topic.")
	s.oldest = plain("rshub_subscription_lag_oldest_seconds", "The longest time that an active subscription is behind its topic.")
	s.failing = plain("rshub_subscription_failing_longest_seconds",
		"For how long the subscription that fails the longest has failed with one notification.")
	s.at = plain("rshub_subscription_census_timestamp_seconds", "When the active subscriptions were last counted; 0: not yet.")
	s.topics = plain("rshub_topics", "Topics that have subscriptions.")
	const paused = "Topics some of whose subscriptions wait, by reason: the store does not answer, or a notification is damaged."
	s.away = m.gauge("rshub_topics_paused", paused, prometheus.Labels{"reason": "store"})
	s.damaged = m.gauge("rshub_topics_paused", paused, prometheus.Labels{"reason": "damaged"})
	s.hosts = plain("rshub_callback_hosts", "Hosts and ports of callbacks.")
	s.suspects = plain("rshub_suspect_hosts", "Callback hosts that time out or cannot be reached.")
	s.inFlight = plain("rshub_deliveries_in_flight", "Deliveries in progress.")
	s.lanesReady = plain("rshub_deliveries_ready", "Subscriptions with something to deliver now that wait for a sender.")
	s.lanesWaiting = plain("rshub_deliveries_waiting", "Subscriptions that wait for their next attempt.")
	s.bytesInFlight = plain("rshub_bodies_in_flight_bytes", "Bytes of the distinct bodies in memory that deliveries use.")
	s.bytesCached = plain("rshub_bodies_cached_bytes", "Bytes of all bodies in memory.")
	s.unwritten = plain("rshub_results_uncommitted", "Results of deliveries that the store has not acknowledged yet.")
	s.setLags(&delivery.LagReport{})
	m.register(lagName, s.lags)
	m.register(spanName, s.spans)
}

// look asks the sources.
func (m *Metrics) look() {
	s := &m.snapshot
	if s.from.Ready != nil {
		s.ready.Set(truth(s.from.Ready()))
	}
	if s.from.Shares != nil {
		owned, live := s.from.Shares()
		s.shards.Set(float64(owned))
		s.hubs.Set(float64(live))
	}
	if s.from.ClockStep != nil {
		s.step.Set(s.from.ClockStep().Seconds())
	}
	if s.from.Subscriptions != nil {
		c := s.from.Subscriptions()
		s.states[subscriptions.StatePending].Set(float64(c.Pending))
		s.states[subscriptions.StateEnded].Set(float64(c.Ended))
		s.stored.Set(float64(c.Stored))
		s.most.Set(float64(c.Most))
		s.waiting.Set(float64(c.Waiting))
	}
	m.outlook.look()
	if s.from.Delivery != nil {
		st, c := s.from.Delivery()
		s.setStats(st)
		s.setLagReport(&c)
	}
}

func (s *snapshot) setStats(st delivery.Stats) {
	s.topics.Set(float64(st.Topics))
	s.hosts.Set(float64(st.Hosts))
	s.suspects.Set(float64(st.Suspects))
	s.away.Set(float64(st.Away))
	s.damaged.Set(float64(st.Damaged))
	s.inFlight.Set(float64(st.InFlight))
	s.lanesReady.Set(float64(st.Ready))
	s.lanesWaiting.Set(float64(st.Waiting))
	s.bytesInFlight.Set(float64(st.BytesInFlight))
	s.bytesCached.Set(float64(st.BytesCached))
	s.unwritten.Set(float64(st.Uncommitted))
}

func (s *snapshot) setLagReport(c *delivery.LagReport) {
	if c.At.IsZero() {
		return
	}
	s.states[subscriptions.StateActive].Set(float64(c.Active))
	s.states[subscriptions.StateFailing].Set(float64(c.Failing))
	s.states[subscriptions.StatePaused].Set(float64(c.Paused))
	s.oldest.Set(c.Oldest.Seconds())
	s.failing.Set(c.Longest.Seconds())
	s.at.Set(unix(c.At))
	s.setLags(c)
}

// setLags shows the distributions of a census; its zero value has their bounds.
func (s *snapshot) setLags(c *delivery.LagReport) {
	bounds := make([]float64, 0, len(c.LagSpans))
	for _, b := range delivery.LagNotifications {
		bounds = append(bounds, float64(b))
	}
	n := uint64(max(c.Active+c.Failing, 0))
	s.lags.set(bounds, c.Lags[:], n, float64(c.LagSum))
	bounds = bounds[:0]
	for _, b := range delivery.LagTimes {
		bounds = append(bounds, b.Seconds())
	}
	s.spans.set(bounds, c.LagSpans[:], n, c.SpanSum.Seconds())
}

// distribution is a histogram of how things stand, not of what happened: it is set
// as a whole.
type distribution struct {
	desc *prometheus.Desc
	now  atomic.Pointer[dto.Histogram]
}

func newDistribution(name, help string) *distribution {
	return &distribution{desc: prometheus.NewDesc(name, help, nil, nil)}
}

// set takes the bounds over with how many are within each, how many there are in
// all, and their sum.
func (d *distribution) set(bounds []float64, within []uint64, n uint64, sum float64) {
	h := &dto.Histogram{SampleCount: &n, SampleSum: &sum}
	for i, b := range bounds {
		h.Bucket = append(h.Bucket, &dto.Bucket{UpperBound: &b, CumulativeCount: &within[i]})
	}
	d.now.Store(h)
}

// Desc implements prometheus.Metric.
func (d *distribution) Desc() *prometheus.Desc { return d.desc }

// Write implements prometheus.Metric.
func (d *distribution) Write(out *dto.Metric) error {
	out.Histogram = d.now.Load()
	return nil
}

// Describe implements prometheus.Collector.
func (d *distribution) Describe(out chan<- *prometheus.Desc) { out <- d.desc }

// Collect implements prometheus.Collector.
func (d *distribution) Collect(out chan<- prometheus.Metric) { out <- d }
