package clock

import (
	"testing"
	"testing/synctest"
	"time"
)

// bed is a Clock over a machine's clock that can be set.
type bed struct {
	*Clock
	t   *testing.T
	off time.Duration
}

// in runs a test in virtual time.
func in(t *testing.T, f func(b *bed)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bed{t: t}
		b.Clock = New(func() time.Time { return time.Now().Add(b.off) })
		f(b)
	})
}

// want fails unless the readings are so far from the true time.
func (b *bed) want(now, earliest, latest, step time.Duration) {
	b.t.Helper()
	true := time.Now()
	for name, got := range map[string][2]time.Duration{
		"Now": {b.Now().Sub(true), now}, "Earliest": {b.Earliest().Sub(true), earliest},
		"Latest": {b.Latest().Sub(true), latest}, "Step": {b.Step(), step},
	} {
		if got[0] != got[1] {
			b.t.Errorf("%s is off by %v, want %v", name, got[0], got[1])
		}
	}
}

// A step that does not last counts for nothing, whichever way it goes.
func TestStepThatIsTakenBack(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour, 1000 * time.Hour} {
		in(t, func(b *bed) {
			b.want(0, 0, 0, 0)
			time.Sleep(time.Hour)
			b.off = step
			b.want(0, min(0, step), max(0, step), step)
			time.Sleep(Hold - time.Second)
			b.want(0, min(0, step), max(0, step), step)
			b.off = 0
			b.want(0, 0, 0, 0)
			time.Sleep(10 * Hold)
			b.want(0, 0, 0, 0)
		})
	}
}

// One that lasts counts then, and the way back is a step of its own.
func TestStepThatLasts(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		in(t, func(b *bed) {
			b.off = step
			b.want(0, min(0, step), max(0, step), step)
			time.Sleep(Hold)
			b.want(step, step, step, 0)
			b.off = 0
			b.want(step, min(0, step), max(0, step), -step)
			time.Sleep(Hold)
			b.want(0, 0, 0, 0)
		})
	}
}

// Of steps forth and back each has to last, counted from the latest.
func TestSeveralSteps(t *testing.T) {
	in(t, func(b *bed) {
		b.off = time.Hour
		b.want(0, 0, time.Hour, time.Hour)
		time.Sleep(Hold - time.Second)
		b.off = -time.Hour
		b.want(0, -time.Hour, 0, -time.Hour)
		time.Sleep(Hold - time.Second)
		b.want(0, -time.Hour, 0, -time.Hour)
		time.Sleep(time.Second)
		b.want(-time.Hour, -time.Hour, -time.Hour, 0)
	})
}

// Small corrections are followed, however many they are, and also while a step is
// being held.
func TestSmallStepsAreFollowed(t *testing.T) {
	in(t, func(b *bed) {
		for range 100 {
			b.off += 50 * time.Second
			b.want(b.off, b.off, b.off, 0)
		}
		b.off += time.Hour
		b.want(b.off-time.Hour, b.off-time.Hour, b.off, time.Hour)
		b.off += time.Second
		b.want(b.off-time.Hour-time.Second, b.off-time.Hour-time.Second, b.off, time.Hour+time.Second)
		time.Sleep(Hold)
		b.want(b.off, b.off, b.off, 0)
	})
}

// Steps that come again and again, each before the one before has lasted, count as
// well: each when it has lasted for twice Hold at the latest. So a machine that is
// suspended every few hours does not fall behind for ever.
func TestStepsThatComeAgainAndAgain(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		in(t, func(b *bed) {
			const every = 90 * time.Minute
			for n := range 20 {
				for range every / time.Minute {
					time.Sleep(time.Minute)
					b.Read(time.Now())
				}
				b.off += step
				if wrong, most := b.Step().Abs(), (2*Hold/every+1)*step.Abs(); wrong > most {
					t.Errorf("after %d steps of %v the time is off by %v", n+1, step, wrong)
					return
				}
			}
			for range 2 * Hold / time.Minute {
				time.Sleep(time.Minute)
				b.Read(time.Now())
			}
			b.want(b.off, b.off, b.off, 0)
		})
	}
}

// A step counts when it has lasted, though the clock goes wrong by a hundredth
// meanwhile, whichever way.
func TestStepOfAClockThatDrifts(t *testing.T) {
	for _, drift := range []time.Duration{600 * time.Millisecond, -600 * time.Millisecond} { // a minute
		in(t, func(b *bed) {
			b.off = time.Hour
			b.Read(time.Now())
			for range 24 * time.Hour / time.Minute {
				time.Sleep(time.Minute)
				b.off += drift
				b.Read(time.Now())
			}
			if step := b.Step().Abs(); step > 3*time.Minute {
				t.Errorf("with a drift of %v in a minute, the time is off by %v after a day", drift, step)
			}
		})
	}
}
