package delivery

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/rshub/rshub/journal"
)

// troubles are the reasons why lanes wait although they have something to deliver. They belong
// to the topic: the store is asked once for each, however many lanes wait.
//
//   - The store does not answer: the whole topic waits.
//   - The store has the entry but not its body, as on a bad sector: only the lanes right before
//     the entry wait. Otherwise one entry would delay the topic for ever.
//   - The entry is damaged: only the lanes right before it wait. Lanes further back deliver up to
//     it, and lanes beyond it go on. Policy.GiveUp after the damage was first seen, lanes pass
//     the entry over with a gap (journal.GapDamaged).
//
// The lock is the innermost one: nothing else is locked under it.
type troubles struct {
	clocks
	policy  Policy
	rnd     func() float64
	log     *zap.Logger
	damaged func()       // one was found
	walk    func(*topic) // lanes of it may go on; called without the lock

	mu      sync.Mutex
	pending map[*topic]struct{} // topics some of whose lanes wait
}

// topicTroubles are those of one topic. The lock of troubles guards all but any.
type topicTroubles struct {
	any atomic.Bool // there are some
	// all are the damaged entries and those whose body the store does not return, by the entry
	// before. At away is that the store did not answer.
	all  map[place]*trouble
	gone bool // the topic has no lanes any more
}

// away is not the place of an entry: all lanes of the topic wait.
var away = place{position: math.MaxUint64}

// place is the entry that a lane delivered last.
type place struct {
	position journal.Position
	nonce    journal.Nonce
}

func (a anchor) place() place { return place{a.position, a.nonce} }

// trouble is one reason to wait.
type trouble struct {
	// first is when it was seen first. For damage, that is the earliest that any lane
	// knows of: they store it, so that it outlives a restart and a change of owner.
	first time.Time
	until int64  // the store is not asked before; by clocks.mono
	looks uint32 // that found it, since first
	err   error
	// The rest is of damage.
	at     journal.Anchor // of the damaged entry; zero: it is not damaged
	id     uuid.UUID      // of its notification; uuid.Nil: not known
	passed bool           // lanes pass it over
}

const (
	// storeBackoffMost bounds the wait for a store that does not answer. The wait starts
	// with storeBackoff and doubles.
	storeBackoffMost = 5 * time.Second
	// lookTakes is for how long other lanes wait for the answer to one.
	lookTakes = 15 * time.Second
	// maxDamaged is how many damaged entries of a topic are remembered (invariant 12).
	// One that is forgotten is seen for the first time once more.
	maxDamaged = 64
)

// errWait is the error if a lane has to wait until its topic can be read.
var errWait = errors.New("the topic cannot be read for the moment")

// at returns what keeps a lane waiting that stands at a; nil: nothing.
func (t *topicTroubles) at(a anchor) *trouble {
	if tr := t.all[away]; tr != nil {
		return tr
	}
	return t.all[a.place()]
}

// isDamage reports whether the entry is damaged. Else the store does not give it.
func (tr *trouble) isDamage() bool { return tr.at.Position > 0 }

// unanswered counts the troubles that are no damage.
func (t *topicTroubles) unanswered() (n int) {
	for _, tr := range t.all {
		if !tr.isDamage() {
			n++
		}
	}
	return n
}

// wasRead accepts the result of reading an entry with its body. bodies calls it before any other
// delivery can ask for the entry.
func (ts *troubles) wasRead(key bodyKey, err error) {
	var damaged *journal.DamagedError
	_, isTrimmed := errors.AsType[*journal.TrimmedError](err)
	walk := false
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, errLost): // this hub ended it
	case errors.As(err, &damaged) && damaged.At.Position > key.position:
		walk = ts.damageSeen(key, damaged)
	case errors.Is(err, journal.ErrRolledBack):
		ts.lost(key)
		walk = ts.readable(key, false)
	case err == nil, isTrimmed, errors.Is(err, errHead), errors.Is(err, journal.ErrNotFound):
		walk = ts.readable(key, err == nil)
	default:
		_, ofBody := errors.AsType[bodyError](err)
		walk = ts.storeAway(key, ofBody, err)
	}
	if walk {
		ts.walk(key.topic)
	}
}

// storeAway records that the store did not answer about a topic, or gave the entry after
// key without its body. It logs that if it is new. It reports whether lanes may go on.
func (ts *troubles) storeAway(key bodyKey, ofBody bool, err error) (walk bool) {
	t, at := &key.topic.troubles, away
	if ofBody {
		at = key.place
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	now := ts.read()
	tr := t.all[at]
	if tr == nil {
		if t.unanswered() == 0 {
			ts.log.Warn("the notifications of a topic cannot be read; its deliveries wait until they can",
				zap.String("event", "read_failed"), zap.String("topic", key.topic.url), zap.Error(err))
		}
		tr = ts.add(key.topic, at, now)
	}
	if ofBody {
		walk = ts.over(key.topic, away)
	}
	wait := min(storeBackoff<<min(tr.looks, 8), storeBackoffMost)
	tr.until = now.mono + int64(float64(wait)*(1+ts.rnd()))
	tr.looks++
	tr.err = err
	return walk
}

// damageSeen records that an entry is damaged, and logs it if that is new or if the
// entry is to be passed over from now on. It reports whether lanes may go on.
func (ts *troubles) damageSeen(key bodyKey, e *journal.DamagedError) (walk bool) {
	t := &key.topic.troubles
	ts.mu.Lock()
	defer ts.mu.Unlock()
	now := ts.read()
	walk = ts.over(key.topic, away)
	tr := t.all[key.place]
	isNew := tr == nil || !tr.isDamage()
	if isNew {
		tr = ts.add(key.topic, key.place, now)
	}
	tr.err, tr.at, tr.id = e.Why, e.At, e.ID
	passAt := tr.first.Add(ts.policy.GiveUp)
	left := max(passAt.UnixNano()-now.earliest, 0)
	tr.passed = left == 0
	tr.until = now.mono + min(int64(ts.policy.step(min(tr.looks, publishStep))), left)
	tr.looks++
	if isNew {
		ts.damaged()
		ts.log.Error("a notification is damaged; subscriptions that lack it wait, and pass it over with a gap after --give-up",
			zap.String("event", "notification_damaged"), zap.String("topic", key.topic.url), notificationID(tr.id),
			zap.Uint64("seq", tr.at.Seq), zap.Time("passed_over_at", passAt), zap.Error(tr.err))
	}
	if tr.passed {
		ts.passOver(key.topic, tr)
	}
	return walk || tr.passed
}

// lost forgets that the entry was damaged that key comes after, since the journal lost it: lanes that
// go back would pass it over again.
func (ts *troubles) lost(key bodyKey) {
	ts.ofTopic(key.topic, func(t *topicTroubles) {
		for at, tr := range t.all {
			if tr.isDamage() && packAnchor(tr.at).place() == key.place {
				delete(t.all, at)
			}
		}
		ts.note(key.topic)
	})
}

// passOver has the lanes that wait for a damaged entry pass it over, once they are walked over.
func (ts *troubles) passOver(t *topic, tr *trouble) {
	tr.passed = true
	ts.note(t)
	ts.log.Warn("subscriptions pass over a damaged notification, each with a gap",
		zap.String("event", "damage_passed_over"), zap.String("topic", t.url), notificationID(tr.id),
		zap.Uint64("seq", tr.at.Seq), zap.Time("since", tr.first), known("until", tr.at.Until))
}

func notificationID(id uuid.UUID) zap.Field {
	if id == uuid.Nil {
		return zap.Skip()
	}
	return zap.Stringer("notification_id", id)
}

// add records that something is wrong after a place, from now on. If too much is wrong, it
// forgets what is passed over first, then the oldest entries.
func (ts *troubles) add(of *topic, at place, now reading) *trouble {
	t, tr := &of.troubles, &trouble{first: instant(now.wall)}
	if t.all == nil {
		t.all = make(map[place]*trouble)
	}
	for len(t.all) >= maxDamaged {
		var first place
		var worst *trouble
		for p, old := range t.all {
			if worst == nil || old.passed && !worst.passed || old.passed == worst.passed && p.position < first.position {
				first, worst = p, old
			}
		}
		delete(t.all, first)
	}
	t.all[at] = tr
	ts.note(of)
	return tr
}

// note keeps what is counted of t up to date.
func (ts *troubles) note(t *topic) {
	of := &t.troubles
	of.any.Store(len(of.all) > 0)
	delete(ts.pending, t)
	for _, tr := range of.all {
		if !tr.passed && !of.gone { // else no lane waits for it
			ts.pending[t] = struct{}{}
		}
	}
}

// forget drops a topic that has no lanes any more.
func (ts *troubles) forget(t *topic) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t.troubles.gone = true
	delete(ts.pending, t)
}

// over forgets what was wrong at a place of t, if something was, and logs that. It reports
// whether something was.
func (ts *troubles) over(t *topic, at place) bool {
	tr := t.troubles.all[at]
	if tr == nil {
		return false
	}
	delete(t.troubles.all, at)
	ts.note(t)
	switch {
	case tr.isDamage():
		ts.log.Info("a notification that was damaged is whole again", zap.String("event", "damage_repaired"),
			zap.String("topic", t.url), notificationID(tr.id), zap.Uint64("seq", tr.at.Seq), zap.Time("since", tr.first))
	case t.troubles.unanswered() == 0:
		ts.log.Info("the notifications of a topic can be read again", zap.String("event", "read_recovered"),
			zap.String("topic", t.url), zap.Duration("duration", time.Duration(ts.read().wall-tr.first.UnixNano())), zap.Uint32("tries", tr.looks))
	}
	return true
}

// ofTopic calls f with the troubles of a topic, if it has some.
func (ts *troubles) ofTopic(t *topic, f func(*topicTroubles)) {
	if t.troubles.any.Load() {
		ts.mu.Lock()
		defer ts.mu.Unlock()
		f(&t.troubles)
	}
}

// ofLane calls f with what keeps a lane of a topic waiting that stands at a, if something does.
func (ts *troubles) ofLane(t *topic, a anchor, f func(*trouble)) {
	ts.ofTopic(t, func(of *topicTroubles) {
		if tr := of.at(a); tr != nil {
			f(tr)
		}
	})
}

// readable records that the store answered, and, if whole, that an entry is whole. It reports
// whether lanes may go on.
func (ts *troubles) readable(key bodyKey, whole bool) (walk bool) {
	ts.ofTopic(key.topic, func(*topicTroubles) {
		walk = ts.over(key.topic, away)
		walk = whole && ts.over(key.topic, key.place) || walk
	})
	return walk
}

// obstacle returns what the troubles of its topic mean for a job. False, nil: it may read on. Wait: it has to wait. Ask:
// it is to ask the store whether it answers. What is in memory does not say that. An anchor: it passes a damaged entry over
// up to there.
func (ts *troubles) obstacle(j *job) (wait, ask bool, over *journal.Anchor) {
	ts.ofTopic(j.lane.topic.topic, func(of *topicTroubles) {
		tr, now := of.at(j.cursor.anchor()), ts.mono()
		switch {
		case tr == nil:
		case tr.passed:
			at := tr.at
			over = &at
		case tr.until > now:
			wait = true
		default:
			// This lane asks, and the others wait for the answer. They may be at other entries.
			tr.until = now + int64(lookTakes)
			ask = tr == of.all[away]
		}
	})
	return wait, ask, over
}

// damageBefore returns the anchor of an entry that the job would have waited for, as
// it is damaged, if that was trimmed meanwhile; nil: there is none.
func (ts *troubles) damageBefore(j *job, trimmed journal.Anchor) (over *journal.Anchor) {
	walk := false
	ts.ofTopic(j.lane.topic.topic, func(t *topicTroubles) {
		tr := t.all[j.cursor.anchor().place()]
		if tr == nil || !tr.isDamage() || tr.at.Position > trimmed.Position {
			return
		}
		at := tr.at
		over = &at
		if walk = !tr.passed; walk {
			ts.passOver(j.lane.topic.topic, tr)
		}
	})
	if walk {
		ts.walk(j.lane.topic.topic)
	}
	return over
}

// waitFor returns until when a lane waits whose entry could not be read; 0: unknown. Since is
// when the damage was first seen, if the lane has to store that; 0: it does not. The lane and
// its topic both remember it, and the earlier time counts. In a lane whose entry has failed
// before, that field has the time of the first attempt.
func (ts *troubles) waitFor(l *lane, now reading) (until, since int64) {
	ts.ofLane(l.topic.topic, l.cursor.anchor(), func(tr *trouble) {
		switch {
		case !tr.isDamage() || l.retrying():
		case l.cursor.first == 0:
			since = tr.first.UnixNano()
		case l.cursor.first < tr.first.UnixNano():
			tr.first = instant(l.cursor.first)
			tr.until = min(tr.until, now.mono+max(tr.first.Add(ts.policy.GiveUp).UnixNano()-now.earliest, 0))
		}
		until = tr.until
	})
	return until, since
}

// lookAgain has the store asked at once about what a lane waits for.
func (ts *troubles) lookAgain(l *lane, now reading) {
	ts.ofLane(l.topic.topic, l.cursor.anchor(), func(tr *trouble) { tr.until = min(tr.until, now.mono) })
}

// until is until when an idle lane waits for troubles of its topic; 0: it does not.
// A lane that has not stored yet since when its entry is damaged goes to a sender, which
// has it do so.
func (ts *troubles) until(l *lane, now int64) (until int64) {
	ts.ofLane(l.topic.topic, l.cursor.anchor(), func(tr *trouble) {
		if !tr.passed && tr.until > now && !(tr.isDamage() && l.cursor.first == 0) {
			until = tr.until
		}
	})
	return until
}

// counts returns how many topics have lanes that wait: for a store that does not answer, or
// else for damage.
func (ts *troubles) counts() (away, damaged int) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for t := range ts.pending {
		if t.troubles.unanswered() > 0 {
			away++
		} else {
			damaged++
		}
	}
	return away, damaged
}
