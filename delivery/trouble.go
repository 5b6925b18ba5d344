package delivery

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// troubles are what keeps lanes of a topic waiting that have something to deliver.
// The pauses are the topic's: however many lanes wait, the store is asked once for
// each. The Dispatcher's lock guards all but any.
//
// Of a store that does not answer nothing follows but waiting, for the whole topic. If the
// store has the entry but not its body, as on a bad sector, only the lanes wait that stand
// right before it: one of them would else keep the topic waiting for ever. A damaged entry keeps only the lanes waiting that stand right before it; lanes further
// back come up to it, and lanes beyond it go on. Policy.GiveUp after it was first seen,
// it is passed over with a gap (journal.GapDamaged).
type troubles struct {
	any atomic.Bool // there are some
	// away is that the store did not answer; nil: it did.
	away *trouble
	// damaged are damaged entries and those whose body the store does not give, by the
	// entry before.
	damaged map[place]*trouble
}

// place is where a lane stands.
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
	until int64  // the store is not asked before; by Dispatcher.mono
	looks uint32 // that found it, since first
	err   error
	// The rest is of damage.
	at     journal.Anchor // of the damaged entry; zero: it is not damaged
	id     uuid.UUID      // of its notification; uuid.Nil: not known
	passed bool           // lanes pass it over
}

const (
	// storePauseMost bounds the wait for a store that does not answer. The wait starts
	// with storePause and doubles.
	storePauseMost = 5 * time.Second
	// lookTakes is for how long other lanes wait for the answer to one.
	lookTakes = 15 * time.Second
	// maxDamaged is how many damaged entries of a topic are remembered (invariant 12).
	// One that is forgotten is seen for the first time once more.
	maxDamaged = 64
)

// errPaused says that a lane has to wait until its topic can be read.
var errPaused = errors.New("the topic cannot be read for the moment")

// at returns what keeps a lane waiting that stands at a; nil: nothing.
func (t *troubles) at(a anchor) *trouble {
	if !t.any.Load() {
		return nil
	}
	if t.away != nil {
		return t.away
	}
	return t.damaged[a.place()]
}

// isDamage reports whether the entry is damaged. Else the store does not give it.
func (tr *trouble) isDamage() bool { return tr.at.Position > 0 }

// unanswered counts the troubles that are no damage.
func (t *troubles) unanswered() (n int) {
	if t.away != nil {
		n++
	}
	for _, tr := range t.damaged {
		if !tr.isDamage() {
			n++
		}
	}
	return n
}

// pending reports whether a lane has to wait: for damage that is not passed over, or
// for the store.
func (t *troubles) pending() bool {
	if t.away != nil {
		return true
	}
	for _, tr := range t.damaged {
		if !tr.passed {
			return true
		}
	}
	return false
}

// wasRead takes over what came of reading an entry with its body. Bodies calls it
// before anyone else can ask for the same.
func (d *Dispatcher) wasRead(key bodyKey, err error) {
	var damaged *journal.DamagedError
	_, isTrimmed := errors.AsType[*journal.TrimmedError](err)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, errLost): // of us, and not of the store
	case errors.As(err, &damaged) && damaged.At.Position > key.position:
		d.damageSeen(key, damaged)
	case err == nil, isTrimmed, errors.Is(err, errHead), errors.Is(err, journal.ErrRolledBack), errors.Is(err, journal.ErrNotFound):
		d.readable(key, err == nil)
	default:
		_, ofBody := errors.AsType[bodyError](err)
		d.storeAway(key, ofBody, err)
	}
}

// storeAway records that the store did not answer about a topic, or gave the entry after
// key without its body. It logs that if it is new.
func (d *Dispatcher) storeAway(key bodyKey, ofBody bool, err error) {
	t, at := key.topic, place{key.position, key.nonce}
	d.mu.Lock()
	isNew := false
	tr := t.away
	if ofBody {
		tr = t.damaged[at]
	}
	if tr == nil {
		isNew = t.unanswered() == 0
		tr = &trouble{first: d.o.Clock.Now()}
		if ofBody {
			t.addDamage(at, tr)
		} else {
			t.away = tr
		}
		d.noteTroubles(t)
	}
	if ofBody {
		d.answered(t)
	}
	wait := min(storePause<<min(tr.looks, 8), storePauseMost)
	tr.until = d.mono() + int64(float64(wait)*(1+d.o.Rand()))
	tr.looks++
	tr.err = err
	d.mu.Unlock()
	if isNew {
		d.log.Warn("the notifications of a topic cannot be read; its deliveries wait until they can",
			zap.String("event", "read_failed"), zap.String("topic", t.url), zap.Error(err))
	}
}

// damageSeen records that an entry is damaged, and logs it if that is new or if the
// entry is to be passed over from now on.
func (d *Dispatcher) damageSeen(key bodyKey, e *journal.DamagedError) {
	now := d.read()
	t, at := key.topic, place{key.position, key.nonce}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answered(t)
	tr := t.damaged[at]
	isNew := tr == nil || !tr.isDamage()
	if isNew {
		tr = &trouble{first: instant(now.wall)}
		t.addDamage(at, tr)
		d.noteTroubles(t)
	}
	tr.err, tr.at, tr.id = e.Why, e.At, e.ID
	passAt := tr.first.Add(d.o.Policy.GiveUp)
	left := max(passAt.UnixNano()-now.earliest, 0)
	tr.passed = left == 0
	tr.until = now.mono + min(int64(d.o.Policy.step(min(tr.looks, publishStep))), left)
	tr.looks++
	if isNew {
		if d.o.Damaged != nil {
			d.o.Damaged()
		}
		d.log.Error("a notification is damaged; subscriptions that lack it wait, and pass it over with a gap after --give-up",
			zap.String("event", "notification_damaged"), zap.String("topic", t.url), notificationID(tr.id),
			zap.Uint64("seq", tr.at.Seq), zap.Time("passed_over_at", passAt), zap.Error(tr.err))
	}
	if tr.passed {
		d.passOver(t, tr)
	}
}

// passOver has the lanes that wait for a damaged entry pass it over.
func (d *Dispatcher) passOver(t *topic, tr *trouble) {
	tr.passed = true
	d.noteTroubles(t)
	d.walk(t, false)
	d.log.Warn("subscriptions pass over a damaged notification, each with a gap",
		zap.String("event", "damage_passed_over"), zap.String("topic", t.url), notificationID(tr.id),
		zap.Uint64("seq", tr.at.Seq), zap.Time("since", tr.first), known("until", tr.at.Until))
}

func notificationID(id uuid.UUID) zap.Field {
	if id == uuid.Nil {
		return zap.Skip()
	}
	return zap.Stringer("notification_id", id)
}

// addDamage notes what is wrong with the entry after a place.
func (t *troubles) addDamage(at place, tr *trouble) {
	if t.damaged == nil {
		t.damaged = make(map[place]*trouble)
	}
	t.forgetDamage()
	t.damaged[at] = tr
}

// forgetDamage makes room for one more: those that are passed over go first, then the
// oldest entries.
func (t *troubles) forgetDamage() {
	for len(t.damaged) >= maxDamaged {
		var first place
		var worst *trouble
		for at, tr := range t.damaged {
			if worst == nil || tr.passed && !worst.passed || tr.passed == worst.passed && at.position < first.position {
				first, worst = at, tr
			}
		}
		delete(t.damaged, first)
	}
}

// noteTroubles keeps what is counted of t up to date.
func (d *Dispatcher) noteTroubles(t *topic) {
	t.any.Store(t.away != nil || len(t.damaged) > 0)
	if t.pending() && d.topics[t.url] == t {
		d.troubled[t] = struct{}{}
	} else {
		delete(d.troubled, t)
	}
}

// answered records that the store answered about t.
func (d *Dispatcher) answered(t *topic) {
	tr := t.away
	if tr == nil {
		return
	}
	t.away = nil
	d.noteTroubles(t)
	d.walk(t, false)
	d.logRecovered(t, tr)
}

// logRecovered logs that the store answers about t again, once it answers about all of it.
func (d *Dispatcher) logRecovered(t *topic, tr *trouble) {
	if t.unanswered() > 0 {
		return
	}
	d.log.Info("the notifications of a topic can be read again", zap.String("event", "read_recovered"),
		zap.String("topic", t.url), zap.Duration("duration", d.o.Clock.Now().Sub(tr.first)), zap.Uint32("tries", tr.looks))
}

// readable records that the store answered, and, if whole, that an entry is whole.
func (d *Dispatcher) readable(key bodyKey, whole bool) {
	t, at := key.topic, place{key.position, key.nonce}
	if !t.any.Load() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answered(t)
	tr := t.damaged[at]
	if tr == nil || !whole {
		return
	}
	delete(t.damaged, at)
	d.noteTroubles(t)
	d.walk(t, false)
	if !tr.isDamage() {
		d.logRecovered(t, tr)
		return
	}
	d.log.Info("a notification that was damaged is whole again", zap.String("event", "damage_repaired"),
		zap.String("topic", t.url), notificationID(tr.id), zap.Uint64("seq", tr.at.Seq), zap.Time("since", tr.first))
}

// paused tells what the job has to do about troubles of its topic. False, nil: it may
// ask the store. True: it has to wait. An anchor: it passes a damaged entry over up to
// there.
func (d *Dispatcher) paused(j *job) (wait bool, over *journal.Anchor) {
	t := j.lane.topic
	if !t.any.Load() {
		return false, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.mono()
	switch tr := t.at(j.cursor.anchor); {
	case tr == nil:
		return false, nil
	case tr.passed:
		at := tr.at
		return false, &at
	case tr.until > now:
		return true, nil
	default:
		// This one asks, and the others wait for the answer: they may stand elsewhere.
		tr.until = now + int64(lookTakes)
		return false, nil
	}
}

// damageBefore returns the anchor of an entry that the job would have waited for, as
// it is damaged, if that was trimmed meanwhile; nil: there is none.
func (d *Dispatcher) damageBefore(j *job, trimmed journal.Anchor) *journal.Anchor {
	t := j.lane.topic
	if !t.any.Load() {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	tr := t.damaged[j.cursor.place()]
	if tr == nil || !tr.isDamage() || tr.at.Position > trimmed.Position {
		return nil
	}
	if !tr.passed {
		d.passOver(t, tr)
	}
	at := tr.at
	return &at
}

// hold lets lanes wait that could not be read for. Those that wait for a damaged entry
// store since when it is known.
func (d *Dispatcher) hold(lanes []*lane, then func()) {
	var seen []subscriptions.Commit
	d.mu.Lock()
	now := d.read()
	for _, l := range lanes {
		if l.leaving {
			d.remove(l)
		}
		if l.state != inFlight && l.state != parked {
			continue
		}
		at := now.mono + int64(float64(storePause)*(1+d.o.Rand()))
		if tr := l.topic.at(l.cursor.anchor); tr != nil {
			if tr.isDamage() && !l.retrying() {
				seen = append(seen, d.sinceWhen(l, tr, now)...)
			}
			at = tr.until
		}
		d.waitUntil(l, at)
	}
	then()
	d.mu.Unlock()
	for _, c := range seen {
		d.commits.add(c)
	}
}

// sinceWhen brings together what a lane and its topic know of when damage was first
// seen, and returns what the lane has to store. A lane that failed to deliver the same
// entry before has another use for the time.
func (d *Dispatcher) sinceWhen(l *lane, tr *trouble, now reading) []subscriptions.Commit {
	if l.cursor.first == 0 {
		l.cursor.first = tr.first.UnixNano()
		return []subscriptions.Commit{{ID: l.id, Cursor: l.cursor.unpack()}}
	}
	if first := instant(l.cursor.first); first.Before(tr.first) {
		tr.first = first
		tr.until = min(tr.until, now.mono+max(first.Add(d.o.Policy.GiveUp).UnixNano()-now.earliest, 0))
	}
	return nil
}

// lookAgain has the store asked at once about what a lane waits for.
func (d *Dispatcher) lookAgain(l *lane, now reading) {
	if tr := l.topic.at(l.cursor.anchor); tr != nil {
		tr.until = min(tr.until, now.mono)
	}
}

// heldUntil is until when an idle lane waits for troubles of its topic; 0: it does not.
// A lane that has not stored yet since when its entry is damaged goes to a sender, which
// has it do so.
func (l *lane) heldUntil(now int64) int64 {
	tr := l.topic.at(l.cursor.anchor)
	if tr == nil || tr.passed || tr.until <= now || tr.isDamage() && l.cursor.first == 0 {
		return 0
	}
	return tr.until
}

// resume makes a lane go on that waits for nothing any more but the time until which
// it was held.
func (d *Dispatcher) resume(l *lane, now reading) {
	d.timers.drop(l)
	l.state = idle
	d.proceed(l, now)
}
