package delivery

import (
	"slices"
	"sync"

	"github.com/google/uuid"
	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// AnswerLimit is how much of the answer to a failed delivery is kept, in bytes.
	AnswerLimit = 1 << 10
	// answersEach is how many answers of a subscription are kept, the latest.
	answersEach = 3
	// answersBytes bounds all answers that a hub keeps.
	answersBytes = 16 << 20
	// answerOverhead is what an answer needs besides its bytes, about.
	answerOverhead = 200
)

// Answer is the beginning of what a callback answered to a delivery that failed.
type Answer struct {
	NotificationID uuid.UUID
	Attempt        uint32 // from 1
	Body           []byte // AnswerLimit bytes at most; it must not be changed
}

// keptAnswers keeps the latest answers to failed deliveries, in memory alone. It forgets those of
// the subscriptions that failed the longest ago first. It may be shared between goroutines.
type keptAnswers struct {
	mu    sync.Mutex
	of    *simplelru.LRU[uuid.UUID, []Answer]
	bytes int
	most  int
}

func newAnswers(most int) *keptAnswers {
	a := &keptAnswers{most: most}
	// Each subscription has one answer at least, so their number is bounded too.
	a.of, _ = simplelru.NewLRU(most/answerOverhead+1, func(_ uuid.UUID, old []Answer) { a.bytes -= size(old) })
	return a
}

func size(list []Answer) (n int) {
	for _, one := range list {
		n += len(one.Body) + answerOverhead
	}
	return n
}

func (a *keptAnswers) add(id uuid.UUID, one Answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	kept, _ := a.of.Get(id)
	a.of.Remove(id)
	kept = append(slices.Clone(kept), one)
	kept = kept[max(0, len(kept)-answersEach):]
	a.bytes += size(kept)
	for a.of.Add(id, kept); a.bytes > a.most; {
		a.of.RemoveOldest()
	}
}

// list returns the answers of a subscription, oldest first.
func (a *keptAnswers) list(id uuid.UUID) []Answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	kept, _ := a.of.Peek(id)
	return slices.Clone(kept)
}

// Answers returns the latest answers to failed deliveries of a subscription, oldest first, as
// far as this hub made them and has them in memory. The caller must not change their bytes.
func (d *Dispatcher) Answers(id uuid.UUID) []Answer { return d.sender.answers.list(id) }
