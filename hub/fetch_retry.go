package hub

import (
	"time"

	"github.com/rshub/rshub/internal/base/excerpt"
	"github.com/rshub/rshub/internal/base/fairqueue"
	"github.com/rshub/rshub/journal"
)

// fetchFor is how long after its last ping an unreachable topic is tried. Its pauses are
// fairqueue.TopicRetries, the last one repeated.
const fetchFor = time.Hour

// concluded returns the ping record m after a try that ended at now with err. Rnd, from 0 to
// 1, spreads the pauses. If the topic has to be fetched again, then says when.
func concluded(m journal.PingRecord, p *publication, err error, now time.Time, rnd float64) (_ journal.PingRecord, then next) {
	m.Last = journal.Fetch{At: now, Outcome: p.outcome(), ID: p.id}
	if err == nil {
		m.Fetched, m.Tries, m.NextAt = m.Pings, 0, time.Time{}
		return m, next{}
	}
	r := classify(err)
	m.Last.Outcome, m.Last.Detail = r.kind.slug, excerpt.Cut(r.detail, maxDetail)
	pause, again := retryFetch(m, r, now, rnd)
	if !again {
		m.Fetched, m.Tries, m.NextAt = m.Pings, 0, time.Time{}
		return m, next{}
	}
	m.Tries, m.NextAt = m.Tries+1, now.Add(pause)
	start := time.Now()
	return m, next{keep: true, slow: true, due: start.Add(pause), floor: start.Add(r.wait)}
}

// retryFetch decides whether a refused try is repeated, and after which pause. It is pure. An
// unreachable topic has its last try fetchFor after its last ping. If this hub itself was at
// fault, it tries for ever. Any other answer is final.
func retryFetch(m journal.PingRecord, r *refusal, now time.Time, rnd float64) (pause time.Duration, again bool) {
	pause = max(fairqueue.TopicRetries.Pause(m.Tries, rnd), r.wait)
	switch {
	case r.kind.ours():
		return pause, true
	case r.kind != topicUnreachable:
		return 0, false
	}
	left := m.PingedAt.Add(fetchFor).Sub(now)
	if left <= 0 {
		return 0, false
	}
	return min(pause, max(left, r.wait)), true
}
