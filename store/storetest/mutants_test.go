package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// recorder is a T that remembers whether a check failed.
type recorder struct {
	ctx    context.Context
	mu     sync.Mutex
	failed string
}

func (r *recorder) Helper()                  {}
func (r *recorder) Logf(string, ...any)      {}
func (r *recorder) Context() context.Context { return r.ctx }

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == "" {
		r.failed = fmt.Sprintf(format, args...)
	}
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// failure runs a check and returns what it complained of first.
func failure(ctx context.Context, c Check, h *Harness) string {
	r := &recorder{ctx: ctx}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				r.Errorf("panic: %v", p)
			}
		}()
		c.run(&kit{T: r, h: h, patience: 50 * time.Millisecond})
	}()
	<-done
	return r.failed
}

// mutant is a store with one defect.
type mutant struct {
	*Memory
	append func(ctx context.Context, now time.Time, topic string, e journal.Entry, ifHead journal.Version) (journal.Entry, error)
	// Those that come before or after a good operation are called under its
	// lock.
	appended func(topic string, given, out journal.Entry)
	reset    func(topic string)
	read     func(topic string, after journal.Anchor, limit int, maxBytes int64) ([]journal.Entry, error)
	trim     func(topic string, cut journal.Cut)
	changes  func(topics []string) []string
	hints    func(ctx context.Context, f func(journal.Hint))
	find     func(id uuid.UUID) (string, journal.Entry, error)
	heads    func(partition int, after uuid.UUID, limit int) ([]journal.Head, error)
	lookup   func(topic string, from, until time.Time) (journal.Interval, error)
	update   func(id uuid.UUID, given, stored subscriptions.Record)
	commit   func(c subscriptions.Commit) // before
	list     func(records []subscriptions.Record) []subscriptions.Record
	changed  func(ids []uuid.UUID) []uuid.UUID
	record   func(topic string, g journal.Gap)                // instead, under the lock
	remove   func(topic string, ifHead journal.Version) error // instead
}

func (m *mutant) RecordGap(ctx context.Context, topic string, g journal.Gap) error {
	if m.record == nil {
		return m.Memory.RecordGap(ctx, topic, g)
	}
	m.locked(func() { m.record(topic, g) })
	return ctx.Err()
}

func (m *mutant) Append(ctx context.Context, now time.Time, topic string, e journal.Entry, ifHead journal.Version) (journal.Entry, error) {
	if m.append != nil {
		return m.append(ctx, now, topic, e, ifHead)
	}
	out, err := m.Memory.Append(ctx, now, topic, e, ifHead)
	if err == nil && m.appended != nil {
		m.locked(func() { m.appended(topic, e, out) })
	}
	return out, err
}

func (m *mutant) locked(do func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	do()
}

func (m *mutant) Reset(ctx context.Context, topic string, ifHead journal.Version) error {
	err := m.Memory.Reset(ctx, topic, ifHead)
	if err == nil && m.reset != nil {
		m.locked(func() { m.reset(topic) })
	}
	return err
}

func (m *mutant) Read(ctx context.Context, topic string, after journal.Anchor, limit int, maxBytes int64) ([]journal.Entry, error) {
	if m.read != nil {
		return m.read(topic, after, limit, maxBytes)
	}
	return m.Memory.Read(ctx, topic, after, limit, maxBytes)
}

func (m *mutant) Trim(ctx context.Context, topic string, cut journal.Cut) (journal.Head, error) {
	if _, err := m.Memory.Trim(ctx, topic, cut); err != nil {
		return journal.Head{}, err
	}
	if m.trim != nil {
		m.locked(func() { m.trim(topic, cut) })
	}
	return m.Head(ctx, topic)
}

func (m *mutant) Changes(ctx context.Context, partition int, since uint64) ([]string, uint64, error) {
	topics, next, err := m.Memory.Changes(ctx, partition, since)
	if m.changes != nil {
		topics = m.changes(topics)
	}
	return topics, next, err
}

func (m *mutant) Hints(ctx context.Context, f func(journal.Hint)) {
	if m.hints != nil {
		m.hints(ctx, f)
		return
	}
	m.Memory.Hints(ctx, f)
}

func (m *mutant) Find(ctx context.Context, id uuid.UUID) (string, journal.Entry, error) {
	if m.find != nil {
		return m.find(id)
	}
	return m.Memory.Find(ctx, id)
}

func (m *mutant) Topics(ctx context.Context, partition int, after uuid.UUID, limit int) ([]journal.Head, error) {
	if m.heads != nil {
		return m.heads(partition, after, limit)
	}
	return m.Memory.Topics(ctx, partition, after, limit)
}

func (m *mutant) Interval(ctx context.Context, topic string, from, until time.Time) (journal.Interval, error) {
	if m.lookup != nil {
		return m.lookup(topic, from, until)
	}
	return m.Memory.Interval(ctx, topic, from, until)
}

func (m *mutant) Update(ctx context.Context, id uuid.UUID, change func(subscriptions.Record) (subscriptions.Record, error)) (subscriptions.Record, error) {
	var given subscriptions.Record
	out, err := m.Memory.Update(ctx, id, func(rec subscriptions.Record) (subscriptions.Record, error) {
		var err error
		given, err = change(rec)
		return given, err
	})
	if err == nil && m.update != nil {
		m.locked(func() { m.update(id, given, out) })
	}
	return out, err
}

func (m *mutant) Commit(ctx context.Context, commits []subscriptions.Commit) error {
	var err error
	for _, c := range commits {
		if m.commit != nil {
			m.locked(func() { m.commit(c) })
		}
		err = errors.Join(err, m.Memory.Commit(ctx, []subscriptions.Commit{c}))
	}
	return errors.Join(err, ctx.Err())
}

func (m *mutant) List(ctx context.Context, shard int, after uuid.UUID, limit int) ([]subscriptions.Record, error) {
	records, err := m.Memory.List(ctx, shard, after, limit)
	if m.list != nil {
		records = m.list(records)
	}
	return records, err
}

func (m *mutant) Changed(ctx context.Context, shard int, since uint64) ([]uuid.UUID, uint64, error) {
	ids, next, err := m.Memory.Changed(ctx, shard, since)
	if m.changed != nil {
		ids = m.changed(ids)
	}
	return ids, next, err
}

// wins reports whether a commit's cursor is ahead of the stored one.
func (m *mutant) wins(c subscriptions.Commit) bool {
	s := m.records[c.ID].Subscription
	return s != nil && c.Cursor.Compare(s.Cursor) > 0
}

// minting is a mutant that draws otherwise.
func minting(change func(d *minted, now time.Time)) func(*mutant) {
	return func(m *mutant) {
		m.mint = func(now time.Time, topic string, last journal.Position) minted {
			d := mintAtRandom(now, topic, last)
			change(&d, now)
			return d
		}
	}
}

// mutants are the defects. Each changes a good store as little as it can.
var mutants = map[string]func(m *mutant){
	// Append and the head.
	"append ignores ifHead": func(m *mutant) {
		m.append = func(ctx context.Context, now time.Time, topic string, e journal.Entry, _ journal.Version) (journal.Entry, error) {
			for {
				h, _ := m.Head(ctx, topic)
				if out, err := m.Memory.Append(ctx, now, topic, e, h.Version); !errors.Is(err, journal.ErrHeadMoved) {
					return out, err
				}
			}
		}
	},
	"append compares and stores in two steps": func(m *mutant) {
		m.append = func(ctx context.Context, now time.Time, topic string, e journal.Entry, ifHead journal.Version) (journal.Entry, error) {
			if h, _ := m.Head(ctx, topic); h.Version != ifHead {
				return e, journal.ErrHeadMoved
			}
			for {
				runtime.Gosched()
				h, _ := m.Head(ctx, topic)
				if out, err := m.Memory.Append(ctx, now, topic, e, h.Version); !errors.Is(err, journal.ErrHeadMoved) {
					return out, err
				}
			}
		}
	},
	"append takes the empty version for any": func(m *mutant) {
		m.append = func(ctx context.Context, now time.Time, topic string, e journal.Entry, ifHead journal.Version) (journal.Entry, error) {
			if ifHead == "" {
				h, _ := m.Head(ctx, topic)
				ifHead = h.Version
			}
			return m.Memory.Append(ctx, now, topic, e, ifHead)
		}
	},
	"append keeps the caller's slice": func(m *mutant) {
		m.appended = func(topic string, given, _ journal.Entry) {
			t := m.topics[topic]
			t.entries[len(t.entries)-1].Body = given.Body
		}
	},
	"position follows a clock that went back": minting(func(d *minted, now time.Time) { d.position = journal.Position(max(now.UnixNano(), 1)) }),
	"position is a count and not the clock": func(m *mutant) {
		m.mint = func(now time.Time, topic string, last journal.Position) minted {
			d := mintAtRandom(now, topic, last)
			d.position = last + 1
			return d
		}
	},
	"nonce is always the same": minting(func(d *minted, _ time.Time) { d.nonce = 1 }),
	"id does not carry the partition": minting(func(d *minted, _ time.Time) {
		d.id[15]++
	}),
	"version stays": minting(func(d *minted, _ time.Time) { d.version = "v" }),
	"seq has holes": func(m *mutant) {
		m.appended = func(topic string, _, _ journal.Entry) { m.topics[topic].head.Last.Seq++ }
	},
	"a retained entry is counted twice": func(m *mutant) {
		m.appended = func(topic string, _, out journal.Entry) { m.topics[topic].head.Bytes += out.Size }
	},
	"an entry without an interval becomes the head's": func(m *mutant) {
		m.appended = func(topic string, _, out journal.Entry) {
			m.topics[topic].head.From, m.topics[topic].head.Until = out.From, out.Until
		}
	},
	"gaps of a topic are not bounded": func(m *mutant) {
		gaps := map[string][]journal.Gap{}
		m.appended = func(topic string, _, out journal.Entry) {
			if out.Gap != nil {
				gaps[topic] = append(gaps[topic], *out.Gap)
				m.topics[topic].head.Gaps = gaps[topic]
			}
		}
	},
	"reset leaves the version": func(m *mutant) {
		v := map[string]journal.Version{}
		m.appended = func(topic string, _, _ journal.Entry) { v[topic] = m.topics[topic].head.Version }
		m.reset = func(topic string) { m.topic(topic).head.Version = v[topic] }
	},
	"reset keeps the kind": func(m *mutant) {
		kinds := map[string]journal.Kind{}
		m.appended = func(topic string, _, _ journal.Entry) { kinds[topic] = m.topics[topic].head.Kind }
		m.reset = func(topic string) { m.topic(topic).head.Kind = kinds[topic] }
	},
	"the first entry settles the kind": func(m *mutant) {
		m.appended = func(topic string, _, _ journal.Entry) {
			t := m.topics[topic]
			t.head.Kind = t.entries[0].Kind
		}
	},
	"the last entry settles the kind": func(m *mutant) {
		m.appended = func(topic string, _, out journal.Entry) { m.topics[topic].head.Kind = out.Kind }
	},
	"reset is forgotten": func(m *mutant) { m.reset = func(topic string) { m.topic(topic).head.Reset = false } },

	// Intervals.
	"trim forgets the intervals": func(m *mutant) {
		m.trim = func(topic string, _ journal.Cut) {
			t := m.topic(topic)
			t.intervals = slices.DeleteFunc(t.intervals, func(i journal.Interval) bool { return i.Position <= t.head.Trimmed.Position })
		}
	},
	"the oldest of equal intervals is found": func(m *mutant) {
		m.lookup = func(topic string, from, until time.Time) (journal.Interval, error) {
			for _, i := range m.topic(topic).intervals {
				if i.From.Equal(from) && i.Until.Equal(until) {
					return i, nil
				}
			}
			return journal.Interval{}, journal.ErrNotFound
		}
	},
	"intervals are compared with their zone": func(m *mutant) {
		m.lookup = func(topic string, from, until time.Time) (journal.Interval, error) {
			if from.Location() != time.UTC {
				return journal.Interval{}, journal.ErrNotFound
			}
			return m.Memory.Interval(context.Background(), topic, from, until)
		}
	},
	"intervals are compared to the second": func(m *mutant) {
		m.lookup = func(topic string, from, until time.Time) (journal.Interval, error) {
			for _, i := range slices.Backward(m.topic(topic).intervals) {
				if i.From.Unix() == from.Unix() && i.Until.Unix() == until.Unix() {
					return i, nil
				}
			}
			return journal.Interval{}, journal.ErrNotFound
		}
	},

	// Read.
	"read ignores the nonce": func(m *mutant) {
		m.read = func(topic string, after journal.Anchor, limit int, maxBytes int64) ([]journal.Entry, error) {
			for _, e := range m.topic(topic).entries {
				if e.Position == after.Position {
					after.Nonce = e.Nonce
				}
			}
			return m.Memory.Read(context.Background(), topic, after, limit, maxBytes)
		}
	},
	"read takes a position that is absent for a trimmed one": func(m *mutant) {
		m.read = func(topic string, after journal.Anchor, limit int, maxBytes int64) ([]journal.Entry, error) {
			out, err := m.Memory.Read(context.Background(), topic, after, limit, maxBytes)
			if t := m.topic(topic); errors.Is(err, journal.ErrRolledBack) && after.Position < t.head.Last.Position {
				return nil, &journal.TrimmedError{To: t.head.Trimmed, Reason: journal.GapRetention}
			}
			return out, err
		}
	},
	"read takes a position over the head for the head": func(m *mutant) {
		m.read = func(topic string, after journal.Anchor, limit int, maxBytes int64) ([]journal.Entry, error) {
			if after.Position > m.topic(topic).head.Last.Position {
				return nil, nil
			}
			return m.Memory.Read(context.Background(), topic, after, limit, maxBytes)
		}
	},
	"read passes over what was trimmed": func(m *mutant) {
		m.read = func(topic string, after journal.Anchor, limit int, maxBytes int64) ([]journal.Entry, error) {
			if trimmed := m.topic(topic).head.Trimmed; after.Position < trimmed.Position {
				after = trimmed
			}
			return m.Memory.Read(context.Background(), topic, after, limit, maxBytes)
		}
	},
	"read ignores max": func(m *mutant) {
		m.read = func(topic string, after journal.Anchor, _ int, maxBytes int64) ([]journal.Entry, error) {
			return m.Memory.Read(context.Background(), topic, after, 1000, maxBytes)
		}
	},
	"read ignores maxBytes": func(m *mutant) {
		m.read = func(topic string, after journal.Anchor, limit int, _ int64) ([]journal.Entry, error) {
			return m.Memory.Read(context.Background(), topic, after, limit, 1<<40)
		}
	},
	"read gives small bodies after one that does not fit": func(m *mutant) {
		m.read = func(topic string, after journal.Anchor, limit int, maxBytes int64) ([]journal.Entry, error) {
			out, err := m.Memory.Read(context.Background(), topic, after, limit, 1<<40)
			for i := range out {
				if out[i].Size > maxBytes {
					out[i].Body = nil
				} else {
					maxBytes -= out[i].Size
				}
			}
			return out, err
		}
	},
	"find gives what was trimmed": func(m *mutant) {
		kept := map[uuid.UUID]journal.Entry{}
		m.appended = func(_ string, _, out journal.Entry) { kept[out.ID] = out }
		m.find = func(id uuid.UUID) (string, journal.Entry, error) {
			if e, ok := kept[id]; ok {
				e.Body = nil
				return topicName, e, nil
			}
			return "", journal.Entry{}, journal.ErrNotFound
		}
	},
	"find gives the body": func(m *mutant) {
		m.find = func(id uuid.UUID) (string, journal.Entry, error) {
			topic, e, err := m.Memory.Find(context.Background(), id)
			e.Body = []byte("x")
			return topic, e, err
		}
	},

	// Trim.
	"trim forgets what it trimmed": func(m *mutant) {
		m.trim = func(topic string, _ journal.Cut) { m.topic(topic).head.Trimmed = journal.Anchor{} }
	},
	"trim changes the version": func(m *mutant) {
		m.trim = func(topic string, _ journal.Cut) { m.topic(topic).head.Version += "+" }
	},
	"trim forgets the head of an empty topic": func(m *mutant) {
		m.trim = func(topic string, _ journal.Cut) {
			if len(m.topic(topic).entries) == 0 {
				delete(m.topics, topic)
			}
		}
	},
	"trim takes one too few": func(m *mutant) {
		m.trim = func(topic string, cut journal.Cut) {
			t := m.topic(topic)
			if !cut.Before.IsZero() && len(t.entries) > 0 && !t.entries[0].ReceivedAt.After(cut.Before) {
				t.head.Trimmed = t.entries[0].Anchor()
				t.head.Bytes -= t.entries[0].Size
				t.head.Entries--
				t.entries = t.entries[1:]
			}
		}
	},
	"trim by age takes from the middle": func(m *mutant) {
		m.trim = func(topic string, cut journal.Cut) {
			t := m.topic(topic)
			t.entries = slices.DeleteFunc(t.entries, func(e journal.Entry) bool { return e.ReceivedAt.Before(cut.Before) })
			t.head.Entries = int64(len(t.entries))
		}
	},
	"trim does not count what it took": func(m *mutant) {
		m.trim = func(topic string, _ journal.Cut) { m.topic(topic).head.Entries++ }
	},
	"pages of topics overlap": func(m *mutant) {
		m.heads = func(partition int, after uuid.UUID, limit int) ([]journal.Head, error) {
			if after != uuid.Nil {
				after[15]--
			}
			return m.Memory.Topics(context.Background(), partition, after, limit)
		}
	},

	// Watching.
	"changes miss a topic": func(m *mutant) {
		m.changes = func(topics []string) []string { return topics[min(1, len(topics)):] }
	},
	"hints never come": func(m *mutant) {
		m.hints = func(context.Context, func(journal.Hint)) {}
	},
	"hints do not end": func(m *mutant) {
		m.hints = func(_ context.Context, f func(journal.Hint)) { m.Memory.Hints(context.Background(), f) }
	},
	"hints name another entry": func(m *mutant) {
		m.hints = func(ctx context.Context, f func(journal.Hint)) {
			m.Memory.Hints(ctx, func(h journal.Hint) {
				h.After = h.Entry.Anchor()
				f(h)
			})
		}
	},
	"hints have another body": func(m *mutant) {
		m.hints = func(ctx context.Context, f func(journal.Hint)) {
			m.Memory.Hints(ctx, func(h journal.Hint) {
				e := *h.Entry
				e.Body = nil
				h.Entry = &e
				f(h)
			})
		}
	},

	// Records.
	"update replaces the cursor": func(m *mutant) {
		m.update = func(id uuid.UUID, given, _ subscriptions.Record) {
			if given.Subscription != nil {
				m.records[id].Subscription.Cursor = given.Subscription.Cursor
			}
		}
	},
	"update forgets the secret of a request": func(m *mutant) {
		m.update = func(id uuid.UUID, _, _ subscriptions.Record) {
			if r := m.records[id].Request; r != nil {
				r.Secret = ""
			}
		}
	},
	"a deletion leaves the attempts": func(m *mutant) {
		kept := map[uuid.UUID][]subscriptions.Attempt{}
		m.commit = func(c subscriptions.Commit) { kept[c.ID] = append(kept[c.ID], c.Attempts...) }
		m.update = func(id uuid.UUID, given, _ subscriptions.Record) {
			if given.Subscription == nil {
				m.attempts[id] = kept[id]
			}
		}
	},
	"lists leave out what has no subscription": func(m *mutant) {
		m.list = func(records []subscriptions.Record) []subscriptions.Record {
			return slices.DeleteFunc(records, func(r subscriptions.Record) bool { return r.Subscription == nil })
		}
	},
	"records are shared with the caller": func(m *mutant) {
		m.update = func(id uuid.UUID, given, _ subscriptions.Record) {
			if given.Subscription != nil && m.records[id].Subscription != nil {
				m.records[id].Subscription.Gaps = given.Subscription.Gaps
			}
		}
	},
	"changed misses a record": func(m *mutant) {
		m.changed = func(ids []uuid.UUID) []uuid.UUID { return ids[min(1, len(ids)):] }
	},

	// Commit.
	"the last commit wins": func(m *mutant) {
		m.commit = func(c subscriptions.Commit) {
			if s := m.records[c.ID].Subscription; s != nil {
				s.Cursor = c.Cursor
			}
		}
	},
	"commit compares positions alone": func(m *mutant) {
		m.commit = func(c subscriptions.Commit) {
			if s := m.records[c.ID].Subscription; s != nil && c.Cursor.Position >= s.Cursor.Position {
				s.Cursor = c.Cursor
			}
		}
	},
	"commit creates a subscription": func(m *mutant) {
		m.commit = func(c subscriptions.Commit) {
			if rec := m.records[c.ID]; rec.Subscription == nil {
				rec.Subscription = &subscriptions.Subscription{ID: c.ID}
				m.records[c.ID] = rec
			}
		}
	},
	"end ignores the cursor": func(m *mutant) {
		m.commit = func(c subscriptions.Commit) {
			if s := m.records[c.ID].Subscription; s != nil && c.End != "" && s.EndedAt.IsZero() && !s.VerifiedAt.After(c.Lease) {
				s.EndedAt, s.EndReason = c.EndedAt, c.End
			}
		}
	},
	"end ignores the lease": func(m *mutant) {
		m.commit = func(c subscriptions.Commit) {
			if s := m.records[c.ID].Subscription; c.End != "" && m.wins(c) && s.EndedAt.IsZero() {
				s.EndedAt, s.EndReason = c.EndedAt, c.End
			}
		}
	},
	"end of another lease leaves its gap": func(m *mutant) {
		m.commit = func(c subscriptions.Commit) {
			if s := m.records[c.ID].Subscription; m.wins(c) && s.VerifiedAt.After(c.Lease) && c.End != "" {
				s.Gaps = append(s.Gaps, c.Gaps...)
			}
		}
	},
	"end of another lease moves the cursor": func(m *mutant) {
		m.commit = func(c subscriptions.Commit) {
			if m.wins(c) && c.End != "" {
				m.records[c.ID].Subscription.Cursor = c.Cursor
			}
		}
	},
	"end of a newer generation is none": func(m *mutant) {
		m.commit = func(c subscriptions.Commit) {
			if m.wins(c) && c.Cursor.Generation > m.records[c.ID].Subscription.Cursor.Generation && c.End != "" {
				m.records[c.ID].Subscription.Cursor = c.Cursor
			}
		}
	},
	"what ended ends again": func(m *mutant) {
		m.commit = func(c subscriptions.Commit) {
			if s := m.records[c.ID].Subscription; m.wins(c) && c.End != "" && !s.EndedAt.IsZero() {
				s.EndedAt, s.EndReason = c.EndedAt, c.End
			}
		}
	},
	"gaps count after the end": func(m *mutant) {
		m.commit = func(c subscriptions.Commit) {
			if s := m.records[c.ID].Subscription; m.wins(c) && !s.EndedAt.IsZero() {
				s.Gaps = append(s.Gaps, c.Gaps...)
			}
		}
	},
	"gaps count though the cursor lost": func(m *mutant) {
		m.commit = func(c subscriptions.Commit) {
			if s := m.records[c.ID].Subscription; s != nil && !m.wins(c) {
				for _, g := range c.Gaps {
					s.Gaps = journal.AddGap(s.Gaps, g)
				}
			}
		}
	},
	"attempts count though the cursor lost": func(m *mutant) {
		m.commit = func(c subscriptions.Commit) {
			if !m.wins(c) && m.records[c.ID].Subscription != nil {
				m.attempts[c.ID] = subscriptions.AddAttempts(m.attempts[c.ID], c.Attempts...)
			}
		}
	},
	"gaps are appended and not coalesced": func(m *mutant) {
		m.commit = func(c subscriptions.Commit) {
			if m.wins(c) {
				s := m.records[c.ID].Subscription
				s.Gaps, s.Cursor = append(s.Gaps, c.Gaps...), c.Cursor
				m.attempts[c.ID] = subscriptions.AddAttempts(m.attempts[c.ID], c.Attempts...)
			}
		}
	},
	"attempts are not bounded": func(m *mutant) {
		m.commit = func(c subscriptions.Commit) {
			if m.wins(c) {
				m.records[c.ID].Subscription.Cursor = c.Cursor
				m.attempts[c.ID] = append(m.attempts[c.ID], c.Attempts...)
			}
		}
	},
}

// quickFirst is the suite, those checks first that the reference passes soonest: most mutants are
// caught by a quick one.
var quickFirst = sync.OnceValue(func() []Check {
	checks, took := Checks(), map[string]time.Duration{}
	for _, c := range checks {
		start := time.Now()
		failure(context.Background(), c, NewMemory().Harness())
		took[c.Name] = time.Since(start)
	}
	slices.SortStableFunc(checks, func(a, b Check) int { return cmp.Compare(took[a.Name], took[b.Name]) })
	return checks
})

// Each mutant is caught, so the suite is able to fail.
func TestSuiteCatchesEveryMutant(t *testing.T) {
	for name, defect := range mutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, c := range quickFirst() {
				m := &mutant{Memory: NewMemory()}
				defect(m)
				if why := failure(t.Context(), c, m.harness()); why != "" {
					t.Logf("%s: %s", c.Name, why)
					return
				}
			}
			t.Error("the whole suite passes")
		})
	}
}

// And what it complains of is the defect: without one, the wrapping passes.
func TestSuitePassesAMutantWithoutADefect(t *testing.T) {
	for _, c := range Checks() {
		if why := failure(t.Context(), c, (&mutant{Memory: NewMemory()}).harness()); why != "" {
			t.Errorf("%s: %s", c.Name, why)
		}
	}
}

// Stores that lose something in a restart are caught too.
func TestSuiteCatchesALossInARestart(t *testing.T) {
	for name, lose := range map[string]func(m *Memory){
		"entries":   func(m *Memory) { m.topics[topicName].entries = nil },
		"the head":  func(m *Memory) { delete(m.topics, topicName) },
		"intervals": func(m *Memory) { m.topics[topicName].intervals = nil },
		"a commit": func(m *Memory) {
			for _, r := range m.records {
				r.Subscription.Cursor.Position = 7
			}
		},
		"requests": func(m *Memory) {
			for id, r := range m.records {
				m.records[id] = subscriptions.Record{Subscription: r.Subscription}
			}
		},
		"attempts":           func(m *Memory) { clear(m.attempts) },
		"the change counter": func(m *Memory) { m.clock = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			caught := false
			for _, c := range durableChecks {
				m := NewMemory()
				h := m.Harness()
				h.Reopen = func() (Store, error) {
					lose(m)
					return m, nil
				}
				caught = caught || failure(t.Context(), c, h) != ""
			}
			if !caught {
				t.Error("the whole suite passes")
			}
		})
	}
}

// harness is m as a store under test.
func (m *mutant) harness() *Harness {
	h := m.Memory.Harness()
	h.Store = m
	h.Reopen = func() (Store, error) { return m, nil }
	snapshot := h.Snapshot
	h.Snapshot = func() (func() (Store, error), error) {
		rollback, err := snapshot()
		return func() (Store, error) {
			_, err := rollback()
			return m, err
		}, err
	}
	return h
}
