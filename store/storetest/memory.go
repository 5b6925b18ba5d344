package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// Memory is the reference: a store in maps that shows in the plainest way what a store does. It may be shared between goroutines. The
// zero value is not usable; NewMemory makes one.
type Memory struct {
	journal.Notebook // *memNotes
	journal.Shelf    // *memShelf

	mu       sync.Mutex
	topics   map[string]*memTopic
	records  map[uuid.UUID]subscriptions.Record
	attempts map[uuid.UUID][]subscriptions.Attempt
	pings    map[uuid.UUID]journal.PingRecord // by topic id
	clock    uint64                           // counts the changes
	changed  map[uuid.UUID]uint64             // of records, deleted ones too
	hints    journal.Broadcast
	// mint draws what a store draws at random. The model test replaces it, so that it repeats
	// what the other store drew.
	mint func(now time.Time, topic string, last journal.Position) minted
}

type memTopic struct {
	head      journal.Head
	entries   []journal.Entry
	intervals []journal.Interval
	changed   uint64
	damaged   map[journal.Position]Damage
}

// minted is what is drawn for an entry. A reset uses only the version.
type minted struct {
	id       uuid.UUID
	position journal.Position
	nonce    journal.Nonce
	version  journal.Version
}

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{
		Notebook: &memNotes{}, Shelf: &memShelf{of: map[string]shelved{}},
		topics:  map[string]*memTopic{},
		records: map[uuid.UUID]subscriptions.Record{}, attempts: map[uuid.UUID][]subscriptions.Attempt{},
		pings:   map[uuid.UUID]journal.PingRecord{},
		changed: map[uuid.UUID]uint64{},
		mint:    mintAtRandom,
	}
}

func mintAtRandom(now time.Time, topic string, last journal.Position) minted {
	id, err := journal.NewID(now, journal.Partition(journal.TopicID(topic)))
	if err != nil {
		panic(err) // the system has no randomness
	}
	return minted{
		id: id, position: max(journal.Position(max(now.UnixNano(), 0)), last) + 1,
		nonce: journal.Nonce(rand.Uint64()), version: journal.Version(uuid.NewString()), //nolint:gosec // a test's
	}
}

// copyMemory makes m a copy of other.
func copyMemory(m, other *Memory) {
	defer m.lock()()
	m.clock++ // the next question for changes gets all of them
	m.topics = map[string]*memTopic{}
	for name, t := range other.topics {
		c := *t
		c.entries, c.intervals = slices.Clone(t.entries), slices.Clone(t.intervals)
		c.changed = m.clock
		m.topics[name] = &c
	}
	m.records, m.attempts, m.changed = maps.Clone(other.records), maps.Clone(other.attempts), maps.Clone(other.changed)
	m.pings = maps.Clone(other.pings)
}

// Harness returns m as a store under test.
func (m *Memory) Harness() *Harness {
	return &Harness{
		Store:  m,
		Reopen: func() (Store, error) { return m, nil },
		Snapshot: func() (func() (Store, error), error) {
			saved := NewMemory()
			copyMemory(saved, m)
			return func() (Store, error) {
				copyMemory(m, saved)
				return m, nil
			}, nil
		},
		Damage:  m.damage,
		Sealing: sealingOf(m, nil),
	}
}

// lock locks m, and returns what unlocks it.
func (m *Memory) lock() (unlock func()) {
	m.mu.Lock()
	return m.mu.Unlock
}

// topic returns a topic, or an empty one that is not stored.
func (m *Memory) topic(name string) *memTopic {
	if t := m.topics[name]; t != nil {
		return t
	}
	return &memTopic{head: journal.Head{Topic: name}}
}

func (t *memTopic) copyHead() journal.Head {
	h := t.head
	h.Gaps = slices.Clone(h.Gaps)
	return h
}

// Head implements journal.Appender and journal.Reader.
func (m *Memory) Head(ctx context.Context, topic string) (journal.Head, error) {
	defer m.lock()()
	return m.topic(topic).copyHead(), ctx.Err()
}

// Interval implements journal.Appender.
func (m *Memory) Interval(ctx context.Context, topic string, from, until time.Time) (journal.Interval, error) {
	defer m.lock()()
	for _, i := range slices.Backward(m.topic(topic).intervals) {
		if i.From.Equal(from) && i.Until.Equal(until) {
			return i, ctx.Err()
		}
	}
	return journal.Interval{}, journal.ErrNotFound
}

// Append implements journal.Appender.
func (m *Memory) Append(ctx context.Context, now time.Time, topic string, e journal.Entry, ifHead journal.Version) (journal.Entry, error) {
	defer m.lock()()
	t := m.topic(topic)
	if ctx.Err() != nil {
		return journal.Entry{}, ctx.Err()
	}
	if t.head.Version != ifHead {
		return journal.Entry{}, journal.ErrHeadMoved
	}
	drawn := m.mint(now, topic, t.head.Last.Position)
	e.ID, e.Position, e.Nonce = drawn.id, drawn.position, drawn.nonce
	e.Seq, e.ReceivedAt, e.Size = t.head.Last.Seq+1, now, int64(len(e.Body))
	e.Body = append([]byte{}, e.Body...)
	e.Links = slices.Clone(e.Links)
	if e.Gap != nil {
		gap := *e.Gap
		e.Gap = &gap
	}
	if e.Timed() {
		t.intervals = append(t.intervals, e.Interval())
		t.intervals = t.intervals[max(0, len(t.intervals)-journal.Remembered):]
	}
	after := t.head.Last
	t.head = t.head.Append(e)
	t.head.Version = drawn.version
	t.entries = append(t.entries, e)
	m.changedTopic(t, journal.Hint{Topic: topic, After: after, Entry: &e})
	return e, nil
}

// changedTopic stores a topic that changed.
func (m *Memory) changedTopic(t *memTopic, h journal.Hint) {
	m.clock++
	t.changed = m.clock
	m.topics[h.Topic] = t
	m.hints.Send(h)
}

// Reset implements journal.Appender.
func (m *Memory) Reset(ctx context.Context, topic string, ifHead journal.Version) error {
	defer m.lock()()
	h := &m.topic(topic).head
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case h.Version != ifHead:
		return journal.ErrHeadMoved
	case h.Version != "":
		*h = h.AfterReset(m.mint(start, topic, 0).version)
	}
	return nil
}

// RecordGap implements journal.Recorder.
func (m *Memory) RecordGap(ctx context.Context, topic string, g journal.Gap) error {
	defer m.lock()()
	if t := m.topics[topic]; t != nil && ctx.Err() == nil {
		t.head, _ = t.head.Lose(g)
	}
	return ctx.Err()
}

// Find implements journal.Reader.
func (m *Memory) Find(ctx context.Context, id uuid.UUID) (string, journal.Entry, error) {
	defer m.lock()()
	for topic, t := range m.topics {
		for _, e := range t.entries {
			if e.ID == id {
				e.Body = nil
				if d, ok := t.damaged[e.Position]; ok && d.ofEntry() {
					return "", journal.Entry{}, e.Damaged(errors.New(d.String()))
				}
				return topic, e, ctx.Err()
			}
		}
	}
	return "", journal.Entry{}, journal.ErrNotFound
}

// Read implements journal.Reader.
func (m *Memory) Read(ctx context.Context, topic string, after journal.Anchor, limit int, maxBytes int64) ([]journal.Entry, error) {
	defer m.lock()()
	t := m.topic(topic)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if after.Position < t.head.Trimmed.Position {
		return nil, t.head.TrimmedAfter(after)
	}
	from := 0
	switch after.Position {
	case 0:
	case t.head.Trimmed.Position:
		if after.Nonce != t.head.Trimmed.Nonce {
			return nil, journal.ErrRolledBack
		}
	default:
		from = slices.IndexFunc(t.entries, func(e journal.Entry) bool { return e.Position == after.Position && e.Nonce == after.Nonce }) + 1
		if after.Nonce == 0 && after.Position <= t.head.Last.Position { // of a damaged one
			from = len(t.entries) - len(slices.DeleteFunc(slices.Clone(t.entries), func(e journal.Entry) bool { return e.Position <= after.Position }))
		} else if from == 0 {
			return nil, journal.ErrRolledBack
		}
	}
	out := slices.Clone(t.entries[from:min(from+limit, len(t.entries))])
	for i := range out {
		if maxBytes -= out[i].Size; maxBytes < 0 {
			out[i].Body, maxBytes = nil, -1
		}
		if err := t.check(out[i]); err != nil && i == 0 {
			return nil, err
		} else if err != nil {
			return out[:i], nil
		}
	}
	return out, nil
}

// Body implements journal.Reader.
func (m *Memory) Body(ctx context.Context, topic string, e journal.Entry) ([]byte, error) {
	defer m.lock()()
	for _, kept := range m.topic(topic).entries {
		if kept.Position == e.Position && kept.Nonce == e.Nonce {
			return kept.Body, errors.Join(ctx.Err(), m.topic(topic).check(kept))
		}
	}
	return nil, journal.ErrNotFound
}

// Changes implements journal.Watcher.
func (m *Memory) Changes(ctx context.Context, partition int, since uint64) (topics []string, next uint64, err error) {
	if err := journal.CheckPartition(partition); err != nil {
		return nil, 0, err
	}
	defer m.lock()()
	for name, t := range m.topics {
		if journal.Partition(journal.TopicID(name)) == partition && t.changed > since {
			topics = append(topics, name)
		}
	}
	return topics, m.clock, ctx.Err()
}

// Hints implements journal.Watcher.
func (m *Memory) Hints(ctx context.Context, f func(journal.Hint)) { m.hints.Hints(ctx, f) }

// Topics implements journal.Trimmer.
func (m *Memory) Topics(ctx context.Context, partition int, after uuid.UUID, limit int) (heads []journal.Head, err error) {
	if err := journal.CheckPartition(partition); err != nil {
		return nil, err
	}
	defer m.lock()()
	byName := map[uuid.UUID]*memTopic{}
	for name, t := range m.topics {
		byName[journal.TopicID(name)] = t
	}
	for _, id := range page(byName, partition, after, limit) {
		heads = append(heads, byName[id].copyHead())
	}
	return heads, ctx.Err()
}

// page returns the ids of a partition after one, in order, up to limit.
func page[V any](all map[uuid.UUID]V, partition int, after uuid.UUID, limit int) (ids []uuid.UUID) {
	for id := range all {
		if journal.Partition(id) == partition && bytes.Compare(id[:], after[:]) > 0 {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, byID)
	return ids[:max(0, min(limit, len(ids)))]
}

// Trim implements journal.Trimmer.
func (m *Memory) Trim(ctx context.Context, topic string, cut journal.Cut) (journal.Head, error) {
	defer m.lock()()
	t := m.topic(topic)
	for len(t.entries) > 0 && ctx.Err() == nil {
		e := t.entries[0]
		if !cut.Deletes(e.ReceivedAt, t.head.Bytes) {
			break
		}
		t.entries = t.entries[1:]
		t.head = t.head.Trim(e.Anchor(), e.Size)
	}
	return t.copyHead(), ctx.Err()
}

// String names m in the output of tests.
func (m *Memory) String() string { return fmt.Sprintf("a store in memory of %d topics", len(m.topics)) }
