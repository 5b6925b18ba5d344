package delivery

import (
	"cmp"
	"math"
	"time"
)

// Policy says when a failed delivery is tried again (`--retry-first`,
// `--retry-max`, `--give-up`). Zero fields are 5 s, 6 h and 72 h.
type Policy struct {
	First, Max, GiveUp time.Duration
}

func (p Policy) withDefaults() Policy {
	return Policy{
		First: cmp.Or(p.First, 5*time.Second), Max: cmp.Or(p.Max, 6*time.Hour), GiveUp: cmp.Or(p.GiveUp, 72*time.Hour),
	}
}

// The ladder of waits for a First of 5 s. Other Firsts scale it, Max caps it.
var ladder = [...]time.Duration{
	5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 4 * time.Hour, 6 * time.Hour,
}

const (
	jitter = 0.2 // a wait is longer or shorter than its step by up to this fraction
	// refusals is how many attempts a notification gets if the callback answers that it
	// will never accept it.
	refusals = 5
	// publishStep is the step of the ladder that a wait is shortened to when
	// something new is published (HUB-48): 10 minutes.
	publishStep = 3
)

// step is the wait of a step of the ladder, without jitter.
func (p Policy) step(n uint32) time.Duration {
	base := ladder[min(int(n), len(ladder)-1)]
	scaled := float64(base) * (float64(p.First) / float64(ladder[0]))
	return time.Duration(math.Min(scaled, float64(p.Max)))
}

// wait is the step with jitter: rnd in [0, 1) spreads it, never over Max.
func (p Policy) wait(n uint32, rnd float64) time.Duration {
	base := float64(p.step(n))
	low, high := base*(1-jitter), math.Min(base*(1+jitter), float64(p.Max))
	return time.Duration(low + (high-low)*rnd)
}
