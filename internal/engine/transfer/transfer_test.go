package transfer_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/rshub/rshub/internal/engine/transfer"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/seal"
	"github.com/rshub/rshub/store/storetest"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/websub"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 500, time.UTC)

func at(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }

// memory is a store in memory with an id.
type memory struct{ *storetest.Memory }

func (memory) ID() string { return "store-1" }

func newMemory() memory { return memory{storetest.NewMemory()} }

func keysOf(t testing.TB, of byte) *seal.Keys {
	t.Helper()
	var secret [32]byte
	for i := range secret {
		secret[i] = of
	}
	keys, err := seal.New(secret)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func topicName(i int) string { return fmt.Sprintf("https://source.example/%d/?a=1&b=<2>", i) }

// publish appends n notifications to a topic and returns the new head.
func (m memory) publish(t testing.TB, topic string, n int) journal.Head {
	t.Helper()
	for range n {
		h, err := m.Head(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		i := int(h.Last.Seq)
		e := journal.Entry{From: at(i), Until: at(i + 1), Kind: journal.KindChange, MediaType: "application/xml", Body: fmt.Appendf(nil, "body %d of %s", i, topic)}
		e.SHA256 = sha256.Sum256(e.Body)
		if i == 3 {
			e.Gap = &journal.Gap{From: at(2), Until: at(3), Reason: journal.GapSource, At: at(4), Position: h.Last.Position, Seq: h.Last.Seq}
		}
		if _, err := m.Append(t.Context(), at(i+1), topic, e, h.Version); err != nil {
			t.Fatal(err)
		}
	}
	h, err := m.Head(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// damage damages the notification of a topic with a number.
func (m memory) damage(t testing.TB, topic string, seq uint64, how storetest.Damage) {
	t.Helper()
	h, err := m.Head(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := m.Read(t.Context(), topic, h.Trimmed, 1000, 0)
	at := slices.IndexFunc(entries, func(e journal.Entry) bool { return e.Seq == seq })
	if err != nil || at < 0 {
		t.Fatalf("notification %d of %s is not there: %v", seq, topic, err)
	}
	if err := m.Harness().Damage(topic, entries[at], how); err != nil {
		t.Fatal(err)
	}
}

func (m memory) put(t testing.TB, rec subscriptions.Record) {
	t.Helper()
	var id uuid.UUID
	if rec.Subscription != nil {
		id = rec.Subscription.ID
	} else {
		id = rec.Request.SubscriptionID()
	}
	if _, err := m.Update(t.Context(), id, func(subscriptions.Record) (subscriptions.Record, error) { return rec, nil }); err != nil {
		t.Fatal(err)
	}
}

// subscription is that of the i-th callback, with its cursor at an anchor.
func subscription(topic string, i int, upTo journal.Anchor) *subscriptions.Subscription {
	callback := fmt.Sprintf("https://subscriber.example/cb?n=%d&x=%%C3%%A4", i)
	return &subscriptions.Subscription{
		ID: subscriptions.ID(topic, callback), Topic: topic, Callback: callback, Secret: fmt.Sprintf("secret \x00\xff of %d", i),
		CreatedAt: at(1), VerifiedAt: at(2), ExpiresAt: at(1e6), PausedAt: at(3),
		Start: upTo,
		Cursor: journal.Cursor{
			Generation: 1 << 52, Anchor: upTo, Nudge: 1, Attempt: 2, Step: 3,
			NextAttemptAt: at(50), FirstAttemptAt: at(40), LastStatus: 503,
		},
		Gaps:      []journal.Gap{{From: at(1), Until: at(2), Count: 1, Reason: journal.GapGaveUp, At: at(3)}},
		Requester: 1<<63 + 7,
	}
}

// request is a pending one of the i-th callback.
func request(topic string, i int, start journal.Anchor) *subscriptions.Request {
	s := subscription(topic, i, start)
	return &subscriptions.Request{
		ID: uuid.New(), Mode: websub.ModeSubscribe, Topic: topic, Callback: s.Callback, Secret: "a new secret",
		Lease: time.Hour, AcceptedAt: at(20), Start: start, Tries: 2, NextAt: at(30), Requester: 8,
	}
}

// sample is a store with some of everything.
func sample(t testing.TB) memory {
	t.Helper()
	m := newMemory()
	for i := range 5 {
		topic := topicName(i)
		h := m.publish(t, topic, 1+journal.Remembered*i/2)
		ended := subscription(topic, 1, h.Last)
		ended.EndedAt, ended.EndReason = at(9), subscriptions.EndGone
		bare := subscription(topic, 2, journal.Anchor{})
		bare.Secret, bare.Gaps = "", nil
		m.put(t, subscriptions.Record{Subscription: subscription(topic, 0, h.Last)})
		m.put(t, subscriptions.Record{Subscription: ended})
		m.put(t, subscriptions.Record{Subscription: bare})
		m.put(t, subscriptions.Record{Request: request(topic, 3, h.Last)})
		both := subscription(topic, 4, h.Last)
		m.put(t, subscriptions.Record{Subscription: both, Request: request(topic, 4, h.Last)})
	}
	if err := m.Ping(t.Context(), at(7), []string{topicName(0), "https://source.example/pinged/"}); err != nil {
		t.Fatal(err)
	}
	return m
}

func export(t testing.TB, m memory, o transfer.ExportOptions) ([]byte, transfer.Exported) {
	t.Helper()
	var out bytes.Buffer
	o.Now = at(100)
	told, err := transfer.Export(t.Context(), &out, m, o)
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), told
}

func load(t testing.TB, m memory, file []byte, o transfer.ImportOptions) transfer.Imported {
	t.Helper()
	told, err := transfer.Import(t.Context(), bytes.NewReader(file), m, o)
	if err != nil {
		t.Fatal(err)
	}
	return told
}

// state is everything of a store that a file contains.
type state struct {
	Heads     map[string]journal.Head
	Intervals map[string][]journal.Interval
	Pings     map[string]time.Time
	Records   map[uuid.UUID]subscriptions.Record
}

func stateOf(t testing.TB, m memory) state {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	s := state{map[string]journal.Head{}, map[string][]journal.Interval{}, map[string]time.Time{}, map[uuid.UUID]subscriptions.Record{}}
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for n := range journal.Partitions {
		heads, err := m.Topics(ctx, n, uuid.Nil, 1e6)
		check(err)
		for _, h := range heads {
			s.Heads[h.Topic] = h
			s.Intervals[h.Topic], err = m.Intervals(ctx, h.Topic)
			check(err)
		}
		pings, err := m.PingRecords(ctx, n, uuid.Nil, 1e6)
		check(err)
		for _, ping := range pings {
			s.Pings[ping.Topic] = ping.PingedAt
		}
		records, err := m.List(ctx, n, uuid.Nil, 1e6)
		check(err)
		for _, rec := range records {
			if rec.Subscription != nil {
				s.Records[rec.Subscription.ID] = rec
			} else {
				s.Records[rec.Request.SubscriptionID()] = rec
			}
		}
	}
	return s
}

func same(t testing.TB, what string, got, want any, more ...cmp.Option) {
	t.Helper()
	if d := cmp.Diff(want, got, append(more, cmpopts.EquateEmpty())...); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// Trimmed notifications do not count as waiting: no export could contain them.
func TestLagIsOfWhatIsRetained(t *testing.T) {
	m, topic := newMemory(), topicName(0)
	m.publish(t, topic, 10)
	m.put(t, subscriptions.Record{Subscription: subscription(topic, 0, journal.Anchor{})})
	if _, err := m.Trim(t.Context(), topic, journal.Cut{Before: at(5), KeepBytes: -1}); err != nil {
		t.Fatal(err)
	}
	h, err := m.Head(t.Context(), topic)
	if err != nil || h.Trimmed.Seq == 0 {
		t.Fatalf("nothing was trimmed: %+v, %v", h, err)
	}
	_, told := export(t, m, transfer.ExportOptions{Secrets: transfer.SecretsPlain})
	if told.Lagging != 1 || told.Lag != 10-h.Trimmed.Seq {
		t.Errorf("%d notifications wait for %d subscriptions, and %d are retained", told.Lag, told.Lagging, 10-h.Trimmed.Seq)
	}
}

// An export that is imported into an empty store gives the same store, except that the bodies
// count as trimmed.
func TestRoundTrip(t *testing.T) {
	from := sample(t)
	for name, o := range map[string]transfer.ExportOptions{
		"sealed": {Keys: keysOf(t, 1)}, "plain": {Secrets: transfer.SecretsPlain},
	} {
		t.Run(name, func(t *testing.T) {
			file, told := export(t, from, o)
			want := transfer.Counts{Topics: 5, Pings: 2, Subscriptions: 25}
			if told.Counts != want || told.Lagging != 5 || told.Lag != 325 || told.Secrets != name {
				t.Errorf("told %+v", told)
			}
			if bytes.Contains(file, []byte("secret of")) || name == "sealed" && bytes.Contains(file, []byte("c2VjcmV0")) {
				t.Error("a sealed secret can be read")
			}
			if counts, err := transfer.Check(t.Context(), bytes.NewReader(file), o.Keys, nil); err != nil || counts != want {
				t.Errorf("Check: %+v, %v", counts, err)
			}
			to := newMemory()
			dry := load(t, to, file, transfer.ImportOptions{Keys: o.Keys, DryRun: true})
			same(t, "the store after a dry run", stateOf(t, to), stateOf(t, newMemory()))
			done := load(t, to, file, transfer.ImportOptions{Keys: o.Keys})
			if done.Stored != 32 || done.Kept != 0 || done.Partial() || dry.Stored != done.Stored || dry.Kept != done.Kept {
				t.Errorf("a dry run reported %+v, the import %+v", dry, done)
			}
			got, expect := stateOf(t, to), stateOf(t, from)
			for topic, h := range expect.Heads {
				h.Trimmed, h.Entries, h.Bytes = h.Last, 0, 0
				expect.Heads[topic] = h
			}
			same(t, "what came over", got, expect, cmpopts.IgnoreFields(journal.Head{}, "Version"))

			again := load(t, to, file, transfer.ImportOptions{Keys: o.Keys})
			if again.Stored != 0 || again.Kept != 32 {
				t.Errorf("the same once more: %+v", again)
			}
			same(t, "the store after the same once more", stateOf(t, to), got)
		})
	}
}

// A backup contains the retained notifications too, and makes an empty store the same.
func TestBackupRoundTrip(t *testing.T) {
	from := sample(t)
	large := topicName(9) // more than is stored at once
	h := from.publish(t, large, 700)
	from.put(t, subscriptions.Record{Subscription: subscription(large, 0, h.Last)})
	if _, err := from.Trim(t.Context(), large, journal.Cut{Before: at(12), KeepBytes: -1}); err != nil {
		t.Fatal(err)
	}
	h, _ = from.Head(t.Context(), large)
	// A topic that lost its tail says where readers of what was lost read on.
	lost := journal.Head{
		Topic: topicName(8), Kind: journal.KindChange, From: at(8), Until: at(9), ID: uuid.New(), ReceivedAt: at(9), Last: journal.Anchor{Position: 9, Nonce: 1, Seq: 9, Until: at(9)},
		Gaps: []journal.Gap{{From: at(5), Until: at(8), Count: 3, Reason: journal.GapRolledBack, At: at(8), Position: 8, Seq: 8, After: journal.Anchor{Position: 5, Nonce: 2, Seq: 5, Until: at(5)}}},
	}
	if err := from.Restore(t.Context(), lost, nil); err != nil {
		t.Fatal(err)
	}
	o := transfer.ExportOptions{Keys: keysOf(t, 1), Notifications: true}
	file, told := export(t, from, o)
	if told.Notifications != 325+int(h.Entries) || h.Entries < 600 || h.Entries > 699 {
		t.Errorf("reported %+v, %d entries in the large topic", told, h.Entries)
	}
	lines := told.Notifications + told.Topics + told.Pings + told.Subscriptions
	to := newMemory()
	dry := load(t, to, file, transfer.ImportOptions{Keys: o.Keys, DryRun: true})
	done := load(t, to, file, transfer.ImportOptions{Keys: o.Keys})
	if done.Stored != lines || done.Kept != 0 || done.Partial() || dry.Stored != lines {
		t.Errorf("of %d lines a dry run reported %+v, the import %+v", lines, dry, done)
	}
	same(t, "what came over", stateOf(t, to), stateOf(t, from), cmpopts.IgnoreFields(journal.Head{}, "Version"))
	for n := range journal.Partitions {
		heads, _ := from.Topics(t.Context(), n, uuid.Nil, 100)
		for _, h := range heads {
			want, err := from.Read(t.Context(), h.Topic, h.Trimmed, 1000, 1<<30)
			got, gotErr := to.Read(t.Context(), h.Topic, h.Trimmed, 1000, 1<<30)
			if err != nil || gotErr != nil {
				t.Fatal(err, gotErr)
			}
			same(t, "the notifications of "+h.Topic, got, want)
		}
	}
	if again := load(t, to, file, transfer.ImportOptions{Keys: o.Keys, DryRun: true}); again.Stored != 0 || again.Kept != lines {
		t.Errorf("reading it back: %+v", again)
	}
	if again := load(t, to, file, transfer.ImportOptions{Keys: o.Keys}); again.Stored != 0 || again.Kept != lines {
		t.Errorf("the same once more: %+v", again)
	}
	// Reading back notices lost notifications.
	to.damage(t, large, 300, storetest.DamagedBody)
	if again := load(t, to, file, transfer.ImportOptions{Keys: o.Keys, DryRun: true}); again.Stored != 1 {
		t.Errorf("reading back what was damaged: %+v", again)
	}
}

// A removed topic stays removed in another store: its positions go on, and older cursors find a
// removal and no loss. An older file brings the topic back.
func TestRemovedTopicsTravel(t *testing.T) {
	from := newMemory()
	h := from.publish(t, topicName(0), 3)
	earlier, _ := export(t, from, transfer.ExportOptions{Secrets: transfer.SecretsPlain})
	if err := from.Remove(t.Context(), h.Topic, h.Version); err != nil {
		t.Fatal(err)
	}
	from.put(t, subscriptions.Record{Subscription: subscription(h.Topic, 0, h.Last)})
	file, _ := export(t, from, transfer.ExportOptions{Secrets: transfer.SecretsPlain})
	to := newMemory()
	if told := load(t, to, file, transfer.ImportOptions{}); told.Stored != 2 {
		t.Errorf("told %+v", told)
	}
	got := stateOf(t, to)
	same(t, "what came over", got, stateOf(t, from), cmpopts.IgnoreFields(journal.Head{}, "Version", "Epoch"))
	if head := got.Heads[h.Topic]; !head.IsTombstone() || head.Last != h.Last {
		t.Errorf("%+v", head)
	}
	load(t, to, earlier, transfer.ImportOptions{})
	if head := stateOf(t, to).Heads[h.Topic]; head.IsTombstone() || !head.Until.Equal(h.Until) || head.Last != h.Last {
		t.Errorf("the topic that was brought back is %+v", head)
	}
	if told := load(t, to, file, transfer.ImportOptions{}); told.Stored != 0 || told.Partial() {
		t.Errorf("the removal once more: %+v", told)
	}
}

// A repeated import undoes nothing that the hub did since.
func TestImportTakesNothingBack(t *testing.T) {
	from := sample(t)
	file, _ := export(t, from, transfer.ExportOptions{Secrets: transfer.SecretsPlain})
	to := newMemory()
	load(t, to, file, transfer.ImportOptions{})
	topic := topicName(2)
	before := stateOf(t, to)

	h := to.publish(t, topic, 3)
	delivered := subscription(topic, 0, h.Last)
	delivered.Cursor.Attempt = 0
	if err := to.Commit(t.Context(), []subscriptions.Commit{{ID: delivered.ID, Cursor: delivered.Cursor, Gaps: []journal.Gap{{Reason: journal.GapRetention, Count: 2, At: at(60)}}}}); err != nil {
		t.Fatal(err)
	}
	// The 4th request was verified, and the 3rd was an unsubscription.
	verified := subscription(topic, 4, h.Last)
	verified.VerifiedAt, verified.Secret = at(61), "a new secret"
	to.put(t, subscriptions.Record{Subscription: verified})
	if err := to.SetFetched(t.Context(), journal.PingRecord{Topic: topicName(0), Pings: 1, Fetched: 1}); err != nil {
		t.Fatal(err)
	}

	want := stateOf(t, to)
	told := load(t, to, file, transfer.ImportOptions{})
	if told.Stored != 0 || told.Kept != 32 || told.Partial() {
		t.Errorf("told %+v", told)
	}
	same(t, "the store after an older file", stateOf(t, to), want)

	// A newer file of the old store brings its newer state.
	older := newMemory()
	load(t, older, file, transfer.ImportOptions{})
	newer, _ := export(t, to, transfer.ExportOptions{Secrets: transfer.SecretsPlain})
	load(t, older, newer, transfer.ImportOptions{})
	got := stateOf(t, older)
	same(t, "the record that moved", got.Records[delivered.ID], want.Records[delivered.ID])
	same(t, "the renewed record", got.Records[verified.ID].Subscription, want.Records[verified.ID].Subscription)
	if got.Heads[topic].Last != h.Last {
		t.Errorf("the topic is at %+v, want %+v", got.Heads[topic].Last, h.Last)
	}
	if before.Heads[topic].Last == h.Last {
		t.Error("the test moved nothing")
	}
}

// A file is not merged into a topic of which the store has entries of its own that end earlier.
func TestImportRefusesTopicsThatWentTheirOwnWay(t *testing.T) {
	from := newMemory()
	topic := topicName(0)
	to := newMemory()
	to.publish(t, topic, 1)
	h := from.publish(t, topic, 3)
	from.put(t, subscriptions.Record{Subscription: subscription(topic, 0, h.Last)})
	other := from.publish(t, topicName(1), 1)
	from.put(t, subscriptions.Record{Subscription: subscription(topicName(1), 0, other.Last)})
	file, _ := export(t, from, transfer.ExportOptions{Secrets: transfer.SecretsPlain})
	before := stateOf(t, to)
	told := load(t, to, file, transfer.ImportOptions{})
	if told.RefusedLines != 2 || len(told.Refused) != 1 || !strings.Contains(told.Refused[0].Error(), topic) || !told.Partial() || told.Stored != 2 {
		t.Errorf("told %+v", told)
	}
	after := stateOf(t, to)
	same(t, "the topic", after.Heads[topic], before.Heads[topic])
	if len(after.Records) != 1 {
		t.Errorf("%d records, want that of the other topic", len(after.Records))
	}
}

func TestSecretsAreNotGivenAway(t *testing.T) {
	from := sample(t)
	var out bytes.Buffer
	if _, err := transfer.Export(t.Context(), &out, from, transfer.ExportOptions{}); !errors.Is(err, transfer.ErrNoKey) || out.Len() != 0 {
		t.Errorf("without a key and a word: %v, %d bytes", err, out.Len())
	}
	sealed, _ := export(t, from, transfer.ExportOptions{Keys: keysOf(t, 1)})
	for name, keys := range map[string]*seal.Keys{"no key": nil, "another key": keysOf(t, 2)} {
		if _, err := transfer.Check(t.Context(), bytes.NewReader(sealed), keys, nil); !errors.Is(err, transfer.ErrRefused) || !strings.Contains(err.Error(), keysOf(t, 1).IDs()[0].String()) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A sealed secret that was moved to another line does not open there.
	lines := strings.SplitAfter(string(sealed), "\n")
	var secrets []string
	for _, line := range lines {
		if _, rest, ok := strings.Cut(line, `"in_force":{"secret":"`); ok {
			secret, _, _ := strings.Cut(rest, `"`)
			secrets = append(secrets, secret)
		}
	}
	moved := strings.ReplaceAll(string(sealed), secrets[0], secrets[1])
	if _, err := transfer.Check(t.Context(), strings.NewReader(moved), keysOf(t, 1), nil); !errors.Is(err, seal.ErrDamaged) {
		t.Errorf("a moved secret: %v", err)
	}
}

// A subscription whose secret was left out is not imported: its deliveries would not be signed.
// If the store has the secret, it keeps it.
func TestSecretsThatWereLeftOut(t *testing.T) {
	from := sample(t)
	file, told := export(t, from, transfer.ExportOptions{Secrets: transfer.SecretsLeftOut})
	if bytes.Contains(file, []byte(`"secret":`)) || told.Secrets != transfer.SecretsLeftOut {
		t.Fatal("a secret is in the file")
	}
	to := newMemory()
	done := load(t, to, file, transfer.ImportOptions{})
	// Of each topic, the ended subscription and the one without a secret are imported.
	if done.Secretless != 15 || done.Stored != 5+2+10 || !done.Partial() {
		t.Errorf("told %+v", done)
	}
	for _, rec := range stateOf(t, to).Records {
		if s := rec.Subscription; s == nil || s.EndedAt.IsZero() && strings.Contains(s.Callback, "n=0") {
			t.Errorf("it imported %+v", rec)
		}
	}
	whole, _ := export(t, from, transfer.ExportOptions{Secrets: transfer.SecretsPlain})
	full := newMemory()
	load(t, full, whole, transfer.ImportOptions{})
	want := stateOf(t, full)
	if told := load(t, full, file, transfer.ImportOptions{}); told.Stored != 0 || told.Partial() {
		t.Errorf("told %+v", told)
	}
	same(t, "a store that has the secrets", stateOf(t, full), want)
}

// Hubs that go on during an export leave no cursor ahead of its topic.
func TestExportOfAStoreThatMoves(t *testing.T) {
	m := newMemory()
	topic := topicName(0)
	h := m.publish(t, topic, 1)
	m.put(t, subscriptions.Record{Subscription: subscription(topic, 0, h.Last)})
	moving := &movingStore{memory: m, t: t, topic: topic}
	var out bytes.Buffer
	if _, err := transfer.Export(t.Context(), &out, moving, transfer.ExportOptions{Secrets: transfer.SecretsPlain}); err != nil {
		t.Fatal(err)
	}
	to := newMemory()
	load(t, to, out.Bytes(), transfer.ImportOptions{})
	got := stateOf(t, to)
	if s := got.Records[subscription(topic, 0, h.Last).ID].Subscription; got.Heads[topic].Last != s.Cursor.Anchor || s.Cursor.Seq != 2 {
		t.Errorf("the cursor is at %+v, the topic at %+v", s.Cursor.Anchor, got.Heads[topic].Last)
	}
}

// A backup of a store that moves has no cursor ahead of the notifications in it.
func TestBackupOfAStoreThatMoves(t *testing.T) {
	m := newMemory()
	topic := topicName(0)
	h := m.publish(t, topic, 1)
	m.put(t, subscriptions.Record{Subscription: subscription(topic, 0, h.Last), Request: request(topic, 0, h.Last)})
	var out bytes.Buffer
	o := transfer.ExportOptions{Secrets: transfer.SecretsPlain, Notifications: true}
	if _, err := transfer.Export(t.Context(), &out, &movingStore{memory: m, t: t, topic: topic}, o); err != nil {
		t.Fatal(err)
	}
	to := newMemory()
	load(t, to, out.Bytes(), transfer.ImportOptions{})
	got := stateOf(t, to)
	s := got.Records[subscription(topic, 0, h.Last).ID].Subscription
	if got.Heads[topic].Last != h.Last || s.Cursor.Anchor != h.Last || s.Start != h.Last || s.Cursor.Attempt != 0 || s.Cursor.Generation != 1<<52 {
		t.Errorf("the cursor is at %+v, the topic at %+v, want %+v", s.Cursor, got.Heads[topic].Last, h.Last)
	}
}

// A damaged notification is not in a backup, nor in the store that imports it.
func TestBackupOfDamage(t *testing.T) {
	m := newMemory()
	topic := topicName(0)
	h := m.publish(t, topic, 5)
	m.damage(t, topic, 5, storetest.DamagedEntry)
	m.damage(t, topic, 4, storetest.DamagedEntry)
	m.damage(t, topic, 2, storetest.DamagedBody)
	file, told := export(t, m, transfer.ExportOptions{Secrets: transfer.SecretsPlain, Notifications: true})
	if told.Damaged != 3 || told.Notifications != 2 {
		t.Errorf("told %+v", told)
	}
	to := newMemory()
	load(t, to, file, transfer.ImportOptions{})
	got, err := to.Head(t.Context(), topic)
	if err != nil || got.Last != h.Last || got.Entries != 5 {
		t.Errorf("%+v, %v", got, err)
	}
	m.damage(t, topic, 1, storetest.DamagedBody)
	m.damage(t, topic, 3, storetest.DamagedEntry)
	file, told = export(t, m, transfer.ExportOptions{Secrets: transfer.SecretsPlain, Notifications: true})
	to = newMemory()
	load(t, to, file, transfer.ImportOptions{})
	got, err = to.Head(t.Context(), topic)
	if err != nil || got.Last != h.Last || got.Entries != 5 || told.Damaged != 5 || told.Notifications != 0 {
		t.Errorf("all are damaged: %+v, %+v, %v", told, got, err)
	}
}

// movingStore publishes and delivers once while subscriptions are listed.
type movingStore struct {
	memory
	t     *testing.T
	topic string
	moved bool
}

//nolint:contextcheck // the test's is as good
func (m *movingStore) List(ctx context.Context, shard int, after uuid.UUID, limit int) ([]subscriptions.Record, error) {
	if !m.moved {
		m.moved = true
		h := m.publish(m.t, m.topic, 1)
		m.put(m.t, subscriptions.Record{Subscription: subscription(m.topic, 0, h.Last)})
	}
	return m.memory.List(ctx, shard, after, limit)
}
