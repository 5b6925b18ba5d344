package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rshub/rshub/delivery"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// What can become of an attempt at a delivery, and what its answer can be.
var (
	outcomes = [...]string{
		delivery.Deliver.String(), delivery.Retry.String(), delivery.PassOver.String(), delivery.End.String(),
		delivery.OutcomeSuperseded, delivery.OutcomeCutOff,
	}
	answerCodes = [...]string{"2xx", "3xx", "4xx", "5xx", "timeout", "connect", "refused", "error", "none"}
)

// The indexes of answerCodes; those from codeTimeout on had no answer of HTTP.
const (
	codeOK = iota
	_      // 3xx
	codeClient
	_ // 5xx
	codeTimeout
	codeConnect
	codeRefused
	codeError
	codeNone
)

// codeOf is the index in answerCodes of a status as delivery tells it.
func codeOf(status int) int {
	switch status {
	case journal.StatusTimeout:
		return codeTimeout
	case journal.StatusConnect:
		return codeConnect
	case journal.StatusRefused:
		return codeRefused
	}
	if status >= 200 && status <= 599 {
		return status/100 - 2
	}
	return codeError // also an answer that is none, such as 101
}

// possible tells whether an attempt with this answer can have this outcome.
func possible(outcome string, code int) bool {
	switch outcome {
	case delivery.Deliver.String():
		return code == codeOK
	case delivery.End.String():
		return code == codeClient // 410
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
	for i, outcome := range outcomes {
		for j, code := range answerCodes {
			if possible(outcome, j) {
				m.attempts[i][j] = vec.WithLabelValues(outcome, code)
			}
		}
	}
	m.set.Register("rshub_deliveries_total", vec)
	m.exchangeTime = m.set.Histogram("rshub_delivery_duration_seconds",
		"Time of one exchange with a callback, whatever came of it.",
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
	for i, outcome := range outcomes {
		if outcome == e.Outcome && m.attempts[i][code] != nil {
			m.attempts[i][code].Inc()
			break
		}
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
