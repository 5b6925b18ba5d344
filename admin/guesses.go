package admin

import (
	"crypto/sha256"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"
)

const (
	// guessBurst is how many wrong tokens one address may send at once, and guessEvery
	// how long it takes until it may send one more.
	guessBurst = 10
	guessEvery = 6 * time.Second
	// guessesKept is how many wrong tokens of one address are remembered.
	guessesKept = 4
	// guessersKept bounds the addresses that are remembered.
	guessersKept = 10_000
)

// guesses slows down addresses that try tokens. Sending the same wrong token again is no
// guess, so that a script with an old token does not lock out an operator at the same
// address. It may be shared between goroutines.
type guesses struct {
	mu   sync.Mutex
	from *simplelru.LRU[string, *guesser]
}

// guesser is an address that sent a wrong token.
type guesser struct {
	limit *rate.Limiter
	sent  [guessesKept][sha256.Size]byte // the latest wrong tokens
	next  int
}

func newGuesses() *guesses {
	from, _ := simplelru.NewLRU[string, *guesser](guessersKept, nil) // fails for a size below 1 only
	return &guesses{from: from}
}

// wait records a token from an address. If it returns more than zero, the address has to
// wait that long before any token from it counts, even the right one.
func (g *guesses) wait(now time.Time, addr string, token [sha256.Size]byte, right bool) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	from, known := g.from.Get(addr)
	switch {
	case !known && right:
		return 0
	case !known:
		from = &guesser{limit: rate.NewLimiter(rate.Every(guessEvery), guessBurst)}
		g.from.Add(addr, from)
	case !right && slices.Contains(from.sent[:], token):
		return 0
	}
	if left := from.limit.TokensAt(now); left < 1 {
		return max(time.Duration((1-left)*float64(guessEvery)), time.Millisecond)
	}
	if !right {
		from.limit.AllowN(now, 1)
		from.sent[from.next] = token
		from.next = (from.next + 1) % guessesKept
	}
	return 0
}
