package quiet

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limit bounds the lines of a log, for each kind of line on its own. Goroutines may share it. Its size is
// that of the kinds that it is asked about: pass no text of strangers as one.
type Limit struct {
	every time.Duration
	burst int

	mu    sync.Mutex
	kinds map[string]*kind
}

type kind struct {
	limit   *rate.Limiter
	leftOut int // since the last line
}

// The numbers of OfStrangers.
const (
	Burst = 100
	Every = 2 * time.Second
)

// OfStrangers returns the Limit for what anybody on the network can cause at will: Burst lines
// of a kind at once, and then one each Every. That shows what goes on, and does not fill the disk.
func OfStrangers() *Limit { return New(Every, Burst) }

// New returns a Limit that lets burst lines of a kind pass at once, and after that one each time that
// every has passed.
func New(every time.Duration, burst int) *Limit {
	return &Limit{every: every, burst: burst, kinds: make(map[string]*kind)}
}

// Line reports whether a line of a kind is to be written now, and how many of that kind were left out
// since the last one.
func (l *Limit) Line(now time.Time, name string) (leftOut int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.kinds[name]
	if k == nil {
		k = &kind{limit: rate.NewLimiter(rate.Every(l.every), l.burst)}
		l.kinds[name] = k
	}
	if !k.limit.AllowN(now, 1) {
		k.leftOut++
		return 0, false
	}
	leftOut, k.leftOut = k.leftOut, 0
	return leftOut, true
}
