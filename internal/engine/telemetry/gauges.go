package telemetry

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/rshub/rshub/delivery"
	"github.com/rshub/rshub/hub/history"
	"github.com/rshub/rshub/internal/engine/figures"
	"github.com/rshub/rshub/subscriptions"
)

const (
	lagName  = "rshub_subscription_lag_notifications"
	spanName = "rshub_subscription_lag_seconds"

	pausedHelp     = "Topics some of whose subscriptions wait, by reason: the store does not answer, or a notification is damaged."
	unreadableHelp = "Subscriptions and topics that the hub continues without: since its start it could not read their records."
	eventsHelp     = "Events that were written to streams."
	endsHelp       = "Streams that ended, by reason: their reader went away, took nothing for --stream-stall or may read no more, or the hub shut down."
	statesHelp     = "Subscriptions by state. Active, failing and paused ones are counted every few seconds, ended ones every few minutes."
)

// registerGauges registers the metrics that are read from m.now.
func (m *Metrics) registerGauges(lossAfter time.Duration) {
	n := &m.now
	state := func(s subscriptions.State) prometheus.Labels { return prometheus.Labels{"state": string(s)} }
	reason := func(why string) prometheus.Labels { return prometheus.Labels{"reason": why} }
	gauge := m.set.Gauge
	gauge("rshub_ready", "1 if GET /readyz says that the hub is ready, else 0.", nil, func() float64 { return figures.Truth(n.Ready) })
	gauge("rshub_shards_owned", "Shards of the store that this hub works on, of 256.", nil, figures.Number(&n.ShardsOwned))
	gauge("rshub_hubs_live", "Live hubs on the store, this one included, as this hub knows.", nil, figures.Number(&n.HubsLive))
	gauge("rshub_unreadable", unreadableHelp, prometheus.Labels{"what": "subscription"}, figures.Number(&n.UnreadableSubscriptions))
	gauge("rshub_unreadable", unreadableHelp, prometheus.Labels{"what": "topic"}, figures.Number(&n.UnreadableTopics))
	gauge("rshub_upgrade_pending", "1 if the hubs still write the store for the version before this one, else 0.", nil, func() float64 { return figures.Truth(n.UpgradePending) })
	gauge("rshub_clock_step_seconds", "How far the machine's clock is ahead of the hub's time, or behind it if negative; 0: they agree.", nil, figures.Seconds(&n.ClockStep))

	gauge("rshub_subscriptions", statesHelp, state(subscriptions.StatePending), figures.Number(&n.Subscriptions.Pending))
	gauge("rshub_subscriptions", statesHelp, state(subscriptions.StateActive), figures.Number(&n.Lags.Active))
	gauge("rshub_subscriptions", statesHelp, state(subscriptions.StateFailing), figures.Number(&n.Lags.Failing))
	gauge("rshub_subscriptions", statesHelp, state(subscriptions.StatePaused), figures.Number(&n.Lags.Paused))
	gauge("rshub_subscriptions", statesHelp, state(subscriptions.StateEnded), figures.Number(&n.Subscriptions.Ended))
	gauge("rshub_subscriptions_stored", "Subscriptions stored in the shards of this hub, including those that ended in the last 7 days.", nil, figures.Number(&n.Subscriptions.Stored))
	gauge("rshub_subscriptions_stored_max", "How many subscriptions may be stored: this hub's fraction of --max-subscriptions; 0: no limit.", nil, figures.Number(&n.Subscriptions.Most))
	gauge("rshub_subscription_requests_waiting", "Requests and denials that are in progress or queued.", nil, figures.Number(&n.Subscriptions.Waiting))
	gauge("rshub_subscription_lag_oldest_seconds", "The longest time that an active subscription is behind its topic.", nil, figures.Seconds(&n.Lags.Oldest))
	gauge("rshub_undelivered_oldest_seconds", "About how long ago the hub accepted the oldest notification that a subscription has not received, without paused and expired subscriptions; 0: all have received everything.", nil, figures.Seconds(&n.Lags.Undelivered))
	gauge("rshub_subscription_failing_longest_seconds", "For how long the subscription that fails the longest has failed with one notification.", nil, figures.Seconds(&n.Lags.Longest))
	gauge("rshub_subscription_census_timestamp_seconds", "When the active subscriptions were last counted; 0: not yet.", nil, func() float64 { return figures.Unix(n.Lags.At) })

	gauge("rshub_topics", "Topics that have subscriptions.", nil, figures.Number(&n.Delivery.Topics))
	gauge("rshub_topics_paused", pausedHelp, reason("store"), figures.Number(&n.Delivery.Away))
	gauge("rshub_topics_paused", pausedHelp, reason("damaged"), figures.Number(&n.Delivery.Damaged))
	gauge("rshub_callback_hosts", "Hosts and ports of callbacks.", nil, figures.Number(&n.Delivery.Hosts))
	gauge("rshub_suspect_hosts", "Callback hosts that time out or cannot be reached.", nil, figures.Number(&n.Delivery.Suspects))
	gauge("rshub_deliveries_in_flight", "Deliveries in progress.", nil, figures.Number(&n.Delivery.InFlight))
	gauge("rshub_deliveries_ready", "Subscriptions with something to deliver now that wait for a sender.", nil, figures.Number(&n.Delivery.Ready))
	gauge("rshub_deliveries_waiting", "Subscriptions that wait for their next attempt.", nil, figures.Number(&n.Delivery.Waiting))
	gauge("rshub_bodies_in_flight_bytes", "Bytes of the distinct bodies in memory that deliveries use.", nil, figures.Number(&n.Delivery.BytesInFlight))
	gauge("rshub_bodies_cached_bytes", "Bytes of all bodies in memory.", nil, figures.Number(&n.Delivery.BytesCached))
	gauge("rshub_results_uncommitted", "Results of deliveries that the store has not acknowledged yet.", nil, figures.Number(&n.Delivery.Uncommitted))

	gauge("rshub_streams", "Open streams.", nil, figures.Number(&n.Streams.Open))
	gauge("rshub_streams_max", "How many streams may be open (--max-streams); 0: no limit.", nil, figures.Number(&n.Streams.Most))
	gauge("rshub_streams_behind", "Open streams whose readers do not have all yet.", nil, figures.Number(&n.Streams.Behind))
	event := func(name string) prometheus.Labels { return prometheus.Labels{"event": name} }
	m.set.Count("rshub_stream_events_total", eventsHelp, event(history.NameNotification), figures.Number(&n.Streams.Notifications))
	m.set.Count("rshub_stream_events_total", eventsHelp, event(history.NameGap), figures.Number(&n.Streams.Gaps))
	m.set.Count("rshub_stream_bytes_total", "Bytes that were written to streams.", nil, figures.Number(&n.Streams.Bytes))
	for _, why := range history.Ends() {
		m.set.Count("rshub_streams_ended_total", endsHelp, reason(string(why)), func() float64 { return float64(n.Streams.Ended[why]) })
	}

	gauge("rshub_journal_topics", "Topics of this hub's shards that retain notifications.", nil, figures.Number(&n.Journal.Topics))
	gauge("rshub_journal_notifications", "Notifications that these topics retain.", nil, figures.Number(&n.Journal.Entries))
	gauge("rshub_journal_bytes", "Bytes of the bodies of these notifications.", nil, figures.Number(&n.Journal.Bytes))
	gauge("rshub_journal_limit_bytes", "How many bytes these notifications may have: this hub's fraction of --retention-total; 0: no limit.", nil, figures.Number(&n.Journal.Limit))
	gauge("rshub_journal_used_ratio", "The fraction of the limit that is used, 0 to 1; at 1 the oldest notifications are trimmed. 0 without a limit.", nil, func() float64 {
		if n.Journal.Limit == 0 {
			return 0
		}
		return float64(n.Journal.Bytes) / float64(n.Journal.Limit)
	})
	gauge("rshub_first_loss_seconds", "Seconds until the first subscription of this hub loses its next notification by --give-up or --retention-age, unless it accepts it before; +Inf: none fails.", nil, func() float64 {
		if n.FirstLoss.IsZero() {
			return math.Inf(1)
		}
		return max(time.Until(n.FirstLoss).Seconds(), 0)
	})
	gauge("rshub_loss_after_seconds", "How long after its first attempt a subscription loses a notification: the smaller of --give-up and --retention-age; 0: it does not.", nil, figures.Seconds(&lossAfter))
	for _, listener := range []string{PublicListener, AdminListener} {
		gauge("rshub_certificate_not_after_timestamp_seconds", "When the certificate of a listener runs out; 0: the listener has none.",
			prometheus.Labels{"listener": listener}, func() float64 { return figures.Unix(n.Certificates[listener]) })
	}
	for _, what := range reloadables {
		labels := prometheus.Labels{"what": string(what)}
		gauge("rshub_reload_timestamp_seconds", "When something was last read again after the start; 0: never.", labels, func() float64 { return figures.Unix(n.Reloads[what].At) })
		gauge("rshub_reload_success", "1 if it was last read without an error, 0 if the hub still uses what it read before.", labels, func() float64 { return figures.Truth(!n.Reloads[what].Failed) })
	}
	m.set.Register(lagName, distribution{
		prometheus.NewDesc(lagName, "How many notifications the subscriptions in force are behind their topics. It is counted anew every few seconds, so do not use rate() on it.", nil, nil),
		func() *dto.Histogram {
			return histogramOf(delivery.LagNotifications[:], func(b uint64) float64 { return float64(b) }, n.Lags.Lags[:], &n.Lags, float64(n.Lags.LagSum))
		},
	})
	m.set.Register(spanName, distribution{
		prometheus.NewDesc(spanName, "How far the subscriptions in force are behind their topics in time, from the until of the last notification that they received to that of the topic.", nil, nil),
		func() *dto.Histogram {
			return histogramOf(delivery.LagTimes[:], time.Duration.Seconds, n.Lags.LagSpans[:], &n.Lags, n.Lags.SpanSum.Seconds())
		},
	})
}

// distribution is a histogram of the present state, and not of events: it is read as a whole.
type distribution struct {
	desc *prometheus.Desc
	read func() *dto.Histogram
}

// histogramOf is a histogram of the subscriptions that a report counts: within each bound, and
// the sum over all of them.
func histogramOf[B any](bounds []B, number func(B) float64, within []uint64, of *delivery.LagReport, sum float64) *dto.Histogram {
	n := uint64(max(of.Active+of.Failing, 0))
	h := &dto.Histogram{SampleCount: &n, SampleSum: &sum}
	for i, b := range bounds {
		bound := number(b)
		h.Bucket = append(h.Bucket, &dto.Bucket{UpperBound: &bound, CumulativeCount: &within[i]})
	}
	return h
}

// Desc implements prometheus.Metric.
func (d distribution) Desc() *prometheus.Desc { return d.desc }

// Write implements prometheus.Metric.
func (d distribution) Write(out *dto.Metric) error {
	out.Histogram = d.read()
	return nil
}

// Describe implements prometheus.Collector.
func (d distribution) Describe(out chan<- *prometheus.Desc) { out <- d.desc }

// Collect implements prometheus.Collector.
func (d distribution) Collect(out chan<- prometheus.Metric) { out <- d }
