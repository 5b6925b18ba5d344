package fairqueue

import (
	"math/rand/v2"
	"time"
)

// Retries is a retry policy: the pauses after the first, second, ... try that failed.
type Retries []time.Duration

// TopicRetries are the pauses after requests to a topic URI that had no result. They take an hour
// together: long enough for a restart of the Source, and short enough that topics that do not exist
// cannot use up all places of what waits.
var TopicRetries = Retries{10 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 20 * time.Minute, 30 * time.Minute}

// Pause is how long to wait after so many tries that failed before the last one. After the
// end of the policy its last pause is repeated. Rnd, from 0 to 1, spreads it by a fifth
// either way; Pause is pure.
func (r Retries) Pause(failed int, rnd float64) time.Duration {
	step := r[max(0, min(failed, len(r)-1))]
	return time.Duration(float64(step) * (0.8 + 0.4*rnd))
}

// Jitter spreads a pause by a fifth either way, at random.
func Jitter(pause time.Duration) time.Duration {
	return Retries{pause}.Pause(0, rand.Float64()) //nolint:gosec // spreads load, keeps no secret
}
