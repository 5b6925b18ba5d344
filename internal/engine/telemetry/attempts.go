package telemetry

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rshub/rshub/delivery"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// The outcomes of an attempt at a delivery, and the codes of its answer.
var (
	outcomes = [...]string{
		delivery.Deliver.String(), delivery.Retry.String(), delivery.PassOver.String(), delivery.End.String(),
		delivery.OutcomeSuperseded, delivery.OutcomeCutOff,
	}
	answerCodes = [...]string{"2xx", "3xx", "4xx", "5xx", "timeout", "connect", "refused", codeError, codeNone}
	// unanswered are the codes of attempts without an answer of HTTP, by status.
	unanswered = map[int]string{
		journal.StatusTimeout: "timeout", journal.StatusConnect: "connect", journal.StatusRefused: "refused",
	}
)

const (
	codeOK    = "2xx"
	codeError = "error"
	codeNone  = "none" // the hub cut the attempt off
)

// attempt is what rshub_deliveries_total counts by.
type attempt struct{ outcome, code string }

// codeOf is the code of a status, as in delivery.Event.
func codeOf(status int) string {
	if status >= 200 && status <= 599 {
		return answerCodes[status/100-2]
	}
	return cmp.Or(unanswered[status], codeError) // also of an answer that ends no exchange, such as 101
}

// possible reports whether an attempt with this code can have this outcome.
func possible(outcome, code string) bool {
	switch outcome {
	case delivery.Deliver.String():
		return code == codeOK
	case delivery.End.String():
		return code == "4xx" // 410
	case delivery.OutcomeCutOff:
		return code == codeNone
	case delivery.OutcomeSuperseded:
		return code != codeNone
	default:
		return code != codeOK && code != codeNone
	}
}

func (m *Metrics) registerAttempts() {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rshub_deliveries_total",
		Help: "Attempts to deliver by outcome and by the class of the answer, or why there was none.",
	}, []string{"outcome", "code"})
	m.attempts = make(map[attempt]prometheus.Counter)
	for _, outcome := range outcomes {
		for _, code := range answerCodes {
			if possible(outcome, code) {
				m.attempts[attempt{outcome, code}] = vec.WithLabelValues(outcome, code)
			}
		}
	}
	m.set.Register("rshub_deliveries_total", vec)
	m.exchangeTime = m.set.Histogram("rshub_delivery_duration_seconds",
		"Time of one exchange with a callback, whatever its result.",
		.002, .01, .05, .2, 1, 5, 15, 60)
	m.latency = m.set.Histogram("rshub_delivery_latency_seconds",
		"Time from accepting a notification to its delivery to one subscription; after a replay or a long wait that is long.",
		.01, .05, .2, 1, 5, 30, 300, 1800, 7200, 21_600, 86_400, 259_200)
	m.deliveredBytes = m.set.Counter("rshub_delivered_bytes_total", "Bytes of the bodies that were delivered.")
}

// Attempt counts an attempt to deliver.
func (m *Metrics) Attempt(e delivery.Event) {
	code := codeOf(e.Status)
	if e.Outcome == delivery.OutcomeCutOff {
		code = codeNone
	}
	if c := m.attempts[attempt{e.Outcome, code}]; c != nil {
		c.Inc()
	}
	if code == codeNone {
		return
	}
	m.exchangeTime.Observe(e.Duration.Seconds())
	switch e.Outcome {
	case outcomes[delivery.Deliver]:
		m.latency.Observe(e.Start.Add(e.Duration).Sub(e.ReceivedAt).Seconds())
		m.deliveredBytes.Add(float64(e.Bytes))
	case outcomes[delivery.End]:
		m.ends.One(subscriptions.EndGone)
	}
}
