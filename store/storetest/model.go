package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// RunModel calls a store and the reference with the same random operations, and compares all
// results.
func RunModel(t *testing.T, open func(t *testing.T) *Harness) {
	h := open(t)
	round := 0
	rapid.Check(t, func(t *rapid.T) {
		round++ // each round has topics and callbacks of its own
		m := &model{t: t, h: h, ref: NewMemory(), now: start}
		m.ref.mint = func(time.Time, string, journal.Position) minted { return m.drawn }
		for i := range 2 {
			m.topics = append(m.topics, fmt.Sprintf("https://source.example/%d/%d/", round, i))
			callback := fmt.Sprintf("https://subscriber.example/%d/%d", round, i)
			m.ids = append(m.ids, subscriptions.ID(m.topics[0], callback))
			m.callbacks = append(m.callbacks, callback)
		}
		t.Repeat(map[string]func(*rapid.T){
			"append": m.append, "reset": m.reset, "remove": m.remove, "record gap": m.recordGap, "trim": m.trim, "read": m.read, "interval": m.interval,
			"update": m.update, "commit": m.commit, "reopen": m.reopen,
			"ping": m.ping, "fetched": m.fetched, "delete ping record": m.deletePingRecord,
			"": m.compare,
		})
	})
}

// model is one round: a store, the reference, and their results so far.
type model struct {
	t         *rapid.T
	h         *Harness
	ref       *Memory
	now       time.Time
	topics    []string
	callbacks []string
	ids       []uuid.UUID       // of the subscriptions of the callbacks
	versions  []journal.Version // of any topic, at any time
	entries   []journal.Entry
	pings     []journal.PingRecord // of any topic, at any time
	drawn     minted               // what the reference draws next
}

func (m *model) same(t *rapid.T, what string, got, want any) {
	t.Helper()
	if reflect.DeepEqual(got, want) {
		return // mostly, and much quicker than a Diff
	}
	if d := cmp.Diff(want, got, alike...); d != "" {
		t.Fatalf("%s (-reference +store):\n%s", what, d)
	}
}

// sameError compares errors as far as the contract describes them.
func (m *model) sameError(t *rapid.T, what string, got, want error) {
	t.Helper()
	var a, b *journal.TrimmedError
	switch {
	case errors.As(want, &a) && errors.As(got, &b):
		m.same(t, what, *b, *a)
	case want == nil && got == nil, want != nil && errors.Is(got, want):
	default:
		t.Fatalf("%s: the store says %v, the reference %v", what, got, want)
	}
}

// agree compares what the store returned with what the reference did.
func agree[V any](m *model, t *rapid.T, what string, got, want result[V]) {
	t.Helper()
	m.sameError(t, what, got.err, want.err)
	m.same(t, what, got.value, want.value)
}

// head returns the head of the store.
func (m *model) head(t *rapid.T, topic string) journal.Head {
	h, err := m.h.Head(t.Context(), topic)
	m.sameError(t, "Head", err, nil)
	return h
}

func (m *model) topic(t *rapid.T) string { return rapid.SampledFrom(m.topics).Draw(t, "topic") }

// version draws the head's version or, at times, another.
func (m *model) version(t *rapid.T, topic string) journal.Version {
	if len(m.versions) > 0 && rapid.IntRange(0, 3).Draw(t, "stale") == 0 {
		return rapid.SampledFrom(m.versions).Draw(t, "version")
	}
	return m.ref.topic(topic).head.Version
}

func (m *model) append(t *rapid.T) {
	topic := m.topic(t)
	m.now = m.now.Add(time.Duration(rapid.IntRange(-5, 20).Draw(t, "clock")) * time.Second)
	body := make([]byte, rapid.SampledFrom([]int{0, 1, 100, 64 << 10, 64<<10 + 1, 70 << 10}).Draw(t, "size"))
	for i := range body { // unlike those before it
		body[i] = byte(len(m.entries)) //nolint:gosec // any byte
	}
	e := journal.Entry{Kind: journal.KindChange, MediaType: "application/xml", Body: body, SHA256: hash(string(body))}
	if rapid.IntRange(0, 4).Draw(t, "timed") > 0 {
		e.From = at(rapid.IntRange(0, 10).Draw(t, "from"))
		e.Until = e.From.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "until")) * time.Second)
	}
	if rapid.IntRange(0, 3).Draw(t, "gap") == 0 {
		e.Gap = &journal.Gap{From: at(1), Until: e.From, Count: 1, Reason: journal.GapSource, At: m.now}
	}
	version := m.version(t, topic)
	got, err := m.h.Append(t.Context(), m.now, topic, e, version)
	if err == nil {
		if last := m.ref.topic(topic).head.Last.Position; got.Position <= last {
			t.Fatalf("position %d after %d", got.Position, last)
		}
		m.drawn = minted{id: got.ID, position: got.Position, nonce: got.Nonce, version: m.head(t, topic).Version}
	}
	want, wantErr := m.ref.Append(t.Context(), m.now, topic, e, version)
	m.sameError(t, "Append", err, wantErr)
	if err == nil {
		m.same(t, "Append", got, want)
		m.entries = append(m.entries, want)
		m.versions = append(m.versions, m.drawn.version)
	}
}

func (m *model) reset(t *rapid.T) { m.clear(t, "Reset", m.h.Reset, m.ref.Reset) }

func (m *model) remove(t *rapid.T) { m.clear(t, "Remove", m.h.Remove, m.ref.Remove) }

// clear calls an operation that gives the head of a topic another version.
func (m *model) clear(t *rapid.T, what string, do, refDo func(ctx context.Context, topic string, ifHead journal.Version) error) {
	topic := m.topic(t)
	version := m.version(t, topic)
	err := do(t.Context(), topic, version)
	h := m.head(t, topic)
	if err == nil && h.Version != "" && slices.Contains(m.versions, h.Version) {
		t.Fatalf("%s left the version", what)
	}
	m.drawn = minted{version: h.Version}
	m.sameError(t, what, err, refDo(t.Context(), topic, version))
	m.versions = append(m.versions, h.Version)
}

func (m *model) recordGap(t *rapid.T) {
	topic, from := m.topic(t), rapid.IntRange(0, 20).Draw(t, "from")
	g := lost(from, from+rapid.IntRange(1, 9).Draw(t, "lost"))
	m.sameError(t, "RecordGap", m.h.RecordGap(t.Context(), topic, g), m.ref.RecordGap(t.Context(), topic, g))
	if ref := m.ref.topic(topic); ref.head.Version != "" { // it may have changed
		ref.head.Version = m.head(t, topic).Version
		m.versions = append(m.versions, ref.head.Version)
	}
}

func (m *model) trim(t *rapid.T) {
	topic := m.topic(t)
	cut := journal.Cut{KeepBytes: int64(rapid.SampledFrom([]int{-1, -1, 0, 100, 64 << 10, 200 << 10}).Draw(t, "keep"))}
	if rapid.Bool().Draw(t, "by age") {
		cut.Before = m.now.Add(time.Duration(rapid.IntRange(-60, 1).Draw(t, "age")) * time.Second)
	}
	agree(m, t, "Trim", call(m.h.Trim(t.Context(), topic, cut)), call(m.ref.Trim(t.Context(), topic, cut)))
}

// anchor draws the anchor of an entry that is or was there, or one that never existed.
func (m *model) anchor(t *rapid.T) journal.Anchor {
	if len(m.entries) == 0 || rapid.IntRange(0, 4).Draw(t, "zero") == 0 {
		return journal.Anchor{}
	}
	a := rapid.SampledFrom(m.entries).Draw(t, "entry")
	anchor := a.Anchor()
	switch rapid.IntRange(0, 9).Draw(t, "wrong") {
	case 0:
		anchor.Nonce++
	case 1:
		anchor.Position++
	case 2:
		anchor.Position--
	}
	return anchor
}

func (m *model) read(t *rapid.T) {
	topic, anchor := m.topic(t), m.anchor(t)
	limit := rapid.IntRange(0, 5).Draw(t, "max")
	maxBytes := int64(rapid.SampledFrom([]int{-1, 0, 100, 64 << 10, 130 << 10, 1 << 20}).Draw(t, "max bytes"))
	agree(m, t, "Read", call(m.h.Read(t.Context(), topic, anchor, limit, maxBytes)), call(m.ref.Read(t.Context(), topic, anchor, limit, maxBytes)))
	if len(m.entries) == 0 {
		return
	}
	e := rapid.SampledFrom(m.entries).Draw(t, "found")
	agree(m, t, "Find", find(t.Context(), m.h, e.ID), find(t.Context(), m.ref, e.ID))
	agree(m, t, "Body", call(m.h.Body(t.Context(), topic, e)), call(m.ref.Body(t.Context(), topic, e)))
}

func (m *model) interval(t *rapid.T) {
	topic, from := m.topic(t), at(rapid.IntRange(0, 10).Draw(t, "from"))
	until := from.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "until")) * time.Second)
	agree(m, t, "Interval", call(m.h.Interval(t.Context(), topic, from, until)), call(m.ref.Interval(t.Context(), topic, from, until)))
}

// cursor draws one of few, so that equal ones and every order come up.
func cursor(t *rapid.T) journal.Cursor {
	n := func(label string) uint64 { return rapid.Uint64Range(0, 2).Draw(t, label) }
	return journal.Cursor{
		Generation: n("generation"), Anchor: journal.Anchor{Position: journal.Position(n("position")), Nonce: journal.Nonce(n("nonce"))},
		Nudge: uint32(n("nudge")), Attempt: uint32(n("attempt")), Step: uint32(n("step")), //nolint:gosec // up to 2
	}
}

func (m *model) update(t *rapid.T) {
	i := rapid.IntRange(0, len(m.ids)-1).Draw(t, "subscription")
	no := errors.New("no")
	var rec subscriptions.Record
	var err error
	if rapid.IntRange(0, 3).Draw(t, "subscribed") > 0 {
		s := subscription(0)
		s.ID, s.Topic, s.Callback, s.Cursor = m.ids[i], m.topics[0], m.callbacks[i], cursor(t)
		rec.Subscription = &s
	}
	if rapid.Bool().Draw(t, "requested") {
		rec.Request = request(subscriptions.Subscription{Topic: m.topics[0], Callback: m.callbacks[i]})
	}
	if rapid.IntRange(0, 5).Draw(t, "refused") == 0 {
		err = no
	}
	change := func(into *subscriptions.Record) func(subscriptions.Record) (subscriptions.Record, error) {
		return func(old subscriptions.Record) (subscriptions.Record, error) {
			*into = old
			return rec, err
		}
	}
	var gotOld, wantOld subscriptions.Record
	agree(m, t, "Update", call(m.h.Update(t.Context(), m.ids[i], change(&gotOld))), call(m.ref.Update(t.Context(), m.ids[i], change(&wantOld))))
	m.same(t, "what change is given", gotOld, wantOld)
}

func (m *model) commit(t *rapid.T) {
	var commits []subscriptions.Commit
	for range rapid.IntRange(1, 3).Draw(t, "commits") {
		c := subscriptions.Commit{ID: rapid.SampledFrom(m.ids).Draw(t, "id"), Cursor: cursor(t)}
		for i := range rapid.IntRange(0, 2).Draw(t, "attempts") {
			c.Attempts = append(c.Attempts, subscriptions.Attempt{At: m.now, Number: uint32(i), Status: 500})
		}
		for i := range rapid.IntRange(0, 2).Draw(t, "gaps") {
			c.Gaps = append(c.Gaps, journal.Gap{From: at(i), Until: at(i + 1), Count: 1, Reason: journal.GapGaveUp, At: m.now})
		}
		if rapid.IntRange(0, 3).Draw(t, "end") == 0 {
			c.End, c.EndedAt = subscriptions.EndGone, m.now
		}
		commits = append(commits, c)
	}
	m.sameError(t, "Commit", m.h.Commit(t.Context(), commits), m.ref.Commit(t.Context(), commits))
}

func (m *model) ping(t *rapid.T) {
	topics := rapid.SliceOfN(rapid.SampledFrom(m.topics), 0, 3).Draw(t, "topics")
	m.sameError(t, "Ping", m.h.Ping(t.Context(), m.now, topics), m.ref.Ping(t.Context(), m.now, topics))
}

// pingRecord draws a ping record that was read before. Its fetch may go on or be over.
func (m *model) pingRecord(t *rapid.T) journal.PingRecord {
	ping := journal.PingRecord{Topic: m.topic(t)}
	if len(m.pings) > 0 {
		ping = rapid.SampledFrom(m.pings[max(0, len(m.pings)-8):]).Draw(t, "ping")
	}
	return ping
}

func (m *model) fetched(t *rapid.T) {
	ping := m.pingRecord(t)
	if rapid.Bool().Draw(t, "done") {
		ping.Fetched = ping.Pings
	}
	ping.Tries = rapid.IntRange(0, 3).Draw(t, "tries")
	ping.Last = journal.Fetch{At: m.now, Status: 200}
	m.sameError(t, "SetFetched", m.h.SetFetched(t.Context(), ping), m.ref.SetFetched(t.Context(), ping))
}

func (m *model) deletePingRecord(t *rapid.T) {
	ping := m.pingRecord(t)
	m.sameError(t, "DeletePingRecord", m.h.DeletePingRecord(t.Context(), ping), m.ref.DeletePingRecord(t.Context(), ping))
}

func (m *model) reopen(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "reopen") > 0 {
		return
	}
	s, err := m.h.Reopen()
	m.sameError(t, "Reopen", err, nil)
	m.h.Store = s
}

// compare compares all that is stored.
func (m *model) compare(t *rapid.T) {
	for _, topic := range m.topics {
		agree(m, t, "the head of "+topic, call(m.h.Head(t.Context(), topic)), call(m.ref.Head(t.Context(), topic)))
		ping := call(m.h.PingRecord(t.Context(), topic))
		agree(m, t, "the ping record of "+topic, ping, call(m.ref.PingRecord(t.Context(), topic)))
		m.pings = append(m.pings, ping.value)
	}
	for _, id := range m.ids {
		got, want := call(m.h.Get(t.Context(), id)), call(m.ref.Get(t.Context(), id))
		agree(m, t, "the record", got, want)
		agree(m, t, "the attempts", call(m.h.Attempts(t.Context(), id)), call(m.ref.Attempts(t.Context(), id)))
		records, err := m.h.List(t.Context(), subscriptions.Shard(id), uuid.Nil, 1<<20)
		m.sameError(t, "List", err, nil)
		listed := slices.ContainsFunc(records, func(r subscriptions.Record) bool { return reflect.DeepEqual(r, got.value) })
		if there := want.value.Subscription != nil || want.value.Request != nil; listed != there {
			t.Fatalf("the record is there: %t; it is listed: %t", there, listed)
		}
	}
}
