package delivery

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// memory is a store that does what the interfaces promise in the simplest way, and counts its
// calls.
type memory struct {
	mu      sync.Mutex
	topics  map[string]*memTopic
	records [journal.Partitions]map[uuid.UUID]*memRecord // by shard
	clock   uint64
	hints   journal.Broadcast
	mute    bool // no hints
	// listened gets one for each call of Hints.
	listened chan struct{}

	reads, bodies, commits, heads, recorded int
	history                                 [][]subscriptions.Commit
	// failRead and failCommit, where set, are asked before each.
	failRead, failBody, failCommit func() error
	refuse                         func(uuid.UUID) error // why a commit without others is not stored
	failGet                        func(uuid.UUID) error // the same
}

type memTopic struct {
	entries []journal.Entry
	trimmed journal.Anchor
	gone    string // why entries were trimmed; empty: for their age
	again   bool   // what was trimmed was received before
	seq     uint64
	changed uint64
	gaps    []journal.Gap
}

type memRecord struct {
	subscriptions.Record
	attempts []subscriptions.Attempt
	changed  uint64
}

var (
	_ Journal       = (*memory)(nil)
	_ Subscriptions = (*memory)(nil)
)

func newMemory() *memory {
	m := &memory{topics: make(map[string]*memTopic), listened: make(chan struct{}, 16)}
	for shard := range m.records {
		m.records[shard] = make(map[uuid.UUID]*memRecord)
	}
	return m
}

func (m *memory) topic(url string) *memTopic {
	if m.topics[url] == nil {
		m.topics[url] = &memTopic{}
	}
	return m.topics[url]
}

// publish appends an entry of this size and gives a hint.
func (m *memory) publish(t testing.TB, url string, body []byte) journal.Entry {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	mt := m.topic(url)
	m.clock++
	mt.seq++
	last := m.last(url)
	now := time.Now()
	id, err := journal.NewID(now, journal.Partition(journal.TopicID(url)))
	if err != nil {
		t.Fatal(err)
	}
	e := journal.Entry{
		ID: id, Position: journal.Position(now.UnixNano()) + journal.Position(m.clock), Seq: mt.seq,
		Nonce: journal.Nonce(mt.seq*1000 + m.clock), ReceivedAt: now,
		From: interval(mt.seq - 1), Until: interval(mt.seq), Kind: journal.KindChange,
		MediaType: "application/xml", SHA256: sha256.Sum256(body), Size: int64(len(body)), Body: body,
	}
	mt.entries = append(mt.entries, e)
	mt.changed = m.clock
	if !m.mute {
		hint := journal.Hint{Topic: url}
		if mt.seq%2 == 1 { // as of its own hub; else as of another one
			hint.After, hint.Entry = last, &e
		}
		m.hints.Send(hint)
	}
	return e
}

// interval is the end of the n-th interval of a topic.
func interval(n uint64) time.Time { return time.Unix(946_684_800+int64(n), 0).UTC() } // from the beginning of synctest's time on

// trim drops the entries of a topic up to and with seq.
func (m *memory) trim(url string, seq uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mt := m.topic(url)
	for len(mt.entries) > 0 && mt.entries[0].Seq <= seq {
		mt.trimmed = mt.entries[0].Anchor()
		mt.entries = mt.entries[1:]
	}
}

// receivedBefore says whether what was trimmed was received before the journal lost it.
func (m *memory) receivedBefore(url string, again bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.topic(url).again = again
}

// rollback drops the newest n entries without a trace.
func (m *memory) rollback(url string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mt := m.topic(url)
	mt.entries = mt.entries[:len(mt.entries)-n]
	mt.seq -= uint64(n)
}

// vanish drops all of a topic that had its newest entry last, and stores its head again without entries,
// as a store does that lost a partition.
func (m *memory) vanish(url string, newest journal.Entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := journal.Head{Topic: url, Kind: newest.Kind, From: newest.From, Until: newest.Until, Last: newest.Anchor()}
	head, _, _ := journal.Head{Topic: url}.Regain(seen.Sight(journal.Sight{}), nil, time.Now())
	*m.topic(url) = memTopic{trimmed: head.Trimmed, seq: head.Last.Seq, gaps: head.Gaps}
}

// subscribe stores a live subscription that begins at the topic's head.
func (m *memory) subscribe(topic, callback string, more ...func(*subscriptions.Subscription)) subscriptions.Subscription {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	s := subscriptions.Subscription{
		ID: subscriptions.ID(topic, callback), Topic: topic, Callback: callback,
		CreatedAt: now, VerifiedAt: now, ExpiresAt: now.Add(240 * time.Hour),
	}
	s.Start = m.last(topic)
	s.Cursor = journal.Cursor{Generation: journal.MintGeneration(0, now), Anchor: s.Start}
	for _, f := range more {
		f(&s)
	}
	m.store(subscriptions.Record{Subscription: &s})
	return s
}

func (m *memory) store(rec subscriptions.Record) {
	m.clock++
	id := rec.Subscription.ID
	r := m.record(id)
	if r == nil {
		r = &memRecord{}
		m.records[subscriptions.Shard(id)][id] = r
	}
	r.Record, r.changed = rec, m.clock
}

// record is that of a subscription; nil: there is none.
func (m *memory) record(id uuid.UUID) *memRecord { return m.records[subscriptions.Shard(id)][id] }

func (m *memory) last(url string) journal.Anchor {
	mt := m.topic(url)
	if n := len(mt.entries); n > 0 {
		return mt.entries[n-1].Anchor()
	}
	return mt.trimmed
}

func (m *memory) Head(_ context.Context, url string) (journal.Head, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.heads++
	if m.failRead != nil {
		if err := m.failRead(); err != nil {
			return journal.Head{}, err
		}
	}
	return journal.Head{Topic: url, Version: "1", Last: m.last(url), Trimmed: m.topic(url).trimmed, Gaps: m.topic(url).gaps}, nil
}

func (m *memory) Find(context.Context, uuid.UUID) (string, journal.Entry, error) {
	return "", journal.Entry{}, journal.ErrNotFound
}

func (m *memory) Read(_ context.Context, url string, after journal.Anchor, limit int, maxBytes int64) ([]journal.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	if m.failRead != nil {
		if err := m.failRead(); err != nil {
			return nil, err
		}
	}
	mt := m.topic(url)
	at := slices.IndexFunc(mt.entries, func(e journal.Entry) bool {
		return e.Position == after.Position && e.Nonce == after.Nonce
	})
	if n := len(mt.entries); at < 0 && after.Nonce == 0 && n > 0 && after.Position <= mt.entries[n-1].Position { // between two
		at = slices.IndexFunc(mt.entries, func(e journal.Entry) bool { return e.Position > after.Position }) - 1
		after.Position = max(after.Position, mt.trimmed.Position)
	}
	switch {
	case at < 0 && after.Position < mt.trimmed.Position:
		return nil, &journal.TrimmedError{To: mt.trimmed, Reason: cmp.Or(mt.gone, journal.GapRetention), Again: mt.again}
	case at < 0 && after.Nonce != 0 && after.Position != mt.trimmed.Position:
		return nil, journal.ErrRolledBack
	}
	var out []journal.Entry
	for _, e := range mt.entries[at+1 : min(at+1+limit, len(mt.entries))] {
		if maxBytes -= e.Size; maxBytes < 0 {
			e.Body = nil
		}
		out = append(out, e)
	}
	return out, nil
}

func (m *memory) RecordGap(_ context.Context, url string, g journal.Gap) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.recorded++
	if m.failRead != nil {
		if err := m.failRead(); err != nil {
			return err
		}
	}
	head, _ := (journal.Head{Gaps: m.topic(url).gaps}).Lose(g)
	m.topic(url).gaps = head.Gaps
	return nil
}

func (m *memory) Body(_ context.Context, url string, e journal.Entry) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bodies++
	if m.failBody != nil {
		if err := m.failBody(); err != nil {
			return nil, err
		}
	}
	for _, f := range m.topic(url).entries {
		if f.ID == e.ID {
			return f.Body, nil // not copied: nobody writes into it, and copies take the race detector longest
		}
	}
	return nil, journal.ErrNotFound
}

func (m *memory) Changes(_ context.Context, partition int, since uint64) ([]string, uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for url, mt := range m.topics {
		if mt.changed > since && journal.Partition(journal.TopicID(url)) == partition {
			out = append(out, url)
		}
	}
	return out, m.clock, nil
}

func (m *memory) Hints(ctx context.Context, f func(journal.Hint)) {
	m.hints.Hints(ctx, f)
	m.listened <- struct{}{}
}

// Room says that there always is some.
func (m *memory) Room(context.Context) error { return nil }

func (m *memory) Get(_ context.Context, id uuid.UUID) (subscriptions.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failGet != nil {
		if err := m.failGet(id); err != nil {
			return subscriptions.Record{}, err
		}
	}
	if r := m.record(id); r != nil {
		return r.copied(), nil
	}
	return subscriptions.Record{}, nil
}

func (r *memRecord) copied() subscriptions.Record {
	s := *r.Subscription
	return subscriptions.Record{Subscription: &s, Request: r.Request}
}

func (m *memory) Update(_ context.Context, id uuid.UUID, change func(subscriptions.Record) (subscriptions.Record, error)) (subscriptions.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	rec, err := change(m.record(id).copied())
	if err != nil {
		return rec, err
	}
	rec.Subscription.Cursor = journal.Merge(rec.Subscription.Cursor, m.record(id).Subscription.Cursor)
	m.store(rec)
	return m.record(id).copied(), nil
}

// all are the records. The caller holds the lock or is the only goroutine.
func (m *memory) all() iter.Seq[*memRecord] {
	return func(yield func(*memRecord) bool) {
		for _, of := range m.records {
			for _, r := range of {
				if !yield(r) {
					return
				}
			}
		}
	}
}

func (m *memory) List(_ context.Context, shard int, after uuid.UUID, limit int) ([]subscriptions.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []subscriptions.Record
	for id, r := range m.records[shard] {
		if bytes.Compare(id[:], after[:]) > 0 {
			out = append(out, r.copied())
		}
	}
	slices.SortFunc(out, func(a, b subscriptions.Record) int {
		return bytes.Compare(a.Subscription.ID[:], b.Subscription.ID[:])
	})
	return out[:min(limit, len(out))], nil
}

func (m *memory) Changed(_ context.Context, shard int, since uint64) ([]uuid.UUID, uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if since == subscriptions.FromNow {
		return nil, m.clock, nil
	}
	if since > m.clock {
		return nil, 0, subscriptions.ErrChangesLost
	}
	var out []uuid.UUID
	for id, r := range m.records[shard] {
		if r.changed > since {
			out = append(out, id)
		}
	}
	return out, m.clock, nil
}

func (m *memory) Commit(_ context.Context, commits []subscriptions.Commit) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failCommit != nil {
		if err := m.failCommit(); err != nil {
			return err
		}
	}
	m.commits++
	m.history = append(m.history, commits)
	failed := make(map[uuid.UUID]error)
	for _, c := range commits {
		r := m.record(c.ID)
		if m.refuse != nil {
			if err := m.refuse(c.ID); err != nil {
				failed[c.ID] = err
				continue
			}
		}
		if r == nil {
			continue
		}
		won, ended := r.Subscription.Apply(&c)
		if ended {
			m.clock++
			r.changed = m.clock
		}
		if won {
			r.attempts = append(r.attempts, c.Attempts...)
		}
	}
	if len(failed) > 0 {
		return &subscriptions.CommitError{Failed: failed}
	}
	return nil
}

// asked returns how often entries were read, and groups written.
func (m *memory) asked() (reads, commits int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reads, m.commits
}

// stored returns what is stored of a subscription.
func (m *memory) stored(s subscriptions.Subscription) (subscriptions.Subscription, []subscriptions.Attempt) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.record(s.ID)
	return *r.Subscription, slices.SortedFunc(slices.Values(r.attempts), func(a, b subscriptions.Attempt) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Number, b.Number))
	})
}
