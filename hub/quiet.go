package hub

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Of each kind of refusal so many lines are written at once, and then one each
// quietEvery: enough to see what goes on, and not so many that whoever sends
// nonsense fills the disk. What is counted (Options.Event) is all of them.
const (
	quietBurst = 100
	quietEvery = 2 * time.Second
)

// quiet leaves out lines about refusals. It may be shared between goroutines; the
// zero quiet is ready. Its size is that of the tables of events and problems.
type quiet struct {
	mu    sync.Mutex
	kinds map[[2]string]*quietKind
}

type quietKind struct {
	limit *rate.Limiter
	left  int
}

// line reports whether a line of this event and outcome is to be written now, and
// how many like it were left out since the last one.
func (q *quiet) line(now time.Time, event, outcome string) (leftOut int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	k := q.kinds[[2]string{event, outcome}]
	if k == nil {
		if q.kinds == nil {
			q.kinds = make(map[[2]string]*quietKind)
		}
		k = &quietKind{limit: rate.NewLimiter(rate.Every(quietEvery), quietBurst)}
		q.kinds[[2]string{event, outcome}] = k
	}
	if !k.limit.AllowN(now, 1) {
		k.left++
		return 0, false
	}
	leftOut, k.left = k.left, 0
	return leftOut, true
}
