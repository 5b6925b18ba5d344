package redisstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/storetest"
)

// noise is a body that cannot be compressed.
func noise(size int) string {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return string(b)
}

// Invariant 11: bodies come back as they were, whichever way they are stored.
func TestBodiesComeBackAsTheyWere(t *testing.T) {
	for name, body := range map[string]string{
		"empty": "", "one byte": "x", "not worth it": strings.Repeat("x", compressMin-1), "compressed": strings.Repeat("<url/>", 1<<20),
		"not to be compressed": noise(100 << 10), "a chunk": noise(chunkSize - 1), "over a chunk": noise(chunkSize), "chunks": noise(3*chunkSize + 7),
	} {
		stored := encodeBody([]byte(body))
		if len(stored) > len(body)+1 {
			t.Errorf("%s: %d bytes are stored as %d", name, len(body), len(stored))
		}
		got, err := decodeBody(stored, int64(len(body)))
		if err != nil || string(got) != body {
			t.Errorf("%s: %d bytes came back as %d (%v)", name, len(body), len(got), err)
		}
		for _, size := range []int64{-1, int64(len(body)) - 1, int64(len(body)) + 1, 1 << 62} {
			if _, err := decodeBody(stored, size); !errors.Is(err, journal.ErrPacked) {
				t.Errorf("%s: read as a body of %d bytes: %v", name, size, err)
			}
		}
	}
}

func FuzzDecodeBody(f *testing.F) {
	f.Add([]byte{}, int64(0))
	f.Add([]byte{2, 1}, int64(1))
	f.Add(encodeBody([]byte("short")), int64(5))
	f.Add(encodeBody(bytes.Repeat([]byte("long"), 100)), int64(400))
	f.Fuzz(func(t *testing.T, stored []byte, size int64) {
		body, err := decodeBody(stored, size)
		if err == nil && int64(len(body)) != size {
			t.Fatalf("%d bytes, want %d", len(body), size)
		}
		if again, err := decodeBody(encodeBody(stored), int64(len(stored))); err != nil || !bytes.Equal(again, stored) {
			t.Fatalf("%d bytes came back as %d (%v)", len(stored), len(again), err)
		}
	})
}

func FuzzOpenHead(f *testing.F) {
	f.Add("")
	f.Add("\x01")
	f.Add("\x02" + strings.Repeat("x", 100))
	f.Add(packHead(journal.Head{Topic: topicName, Version: "v", Trimmed: journal.Anchor{Position: 1, Nonce: 2}}, journal.Newest))
	f.Fuzz(func(t *testing.T, raw string) {
		h, err := openHead(raw, "")
		if err != nil || raw == "" {
			return
		}
		again, err := openHead(packHead(h.Head, journal.Newest), "")
		if err != nil || again.Topic != h.Topic || again.revision == h.revision {
			t.Fatalf("%+v is read again as %+v (%v)", h, again, err)
		}
	})
}

// large appends a body that is stored in chunks.
func large(t *testing.T, s *Store) journal.Entry {
	t.Helper()
	e, err := add(t.Context(), s, topicName, noise(2*chunkSize+chunkSize/2))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Invariant 12: the parts of a body live as long as the entry that names them.
func TestChunksLiveWithTheirEntry(t *testing.T) {
	eachTopology(t, func(t *testing.T, url string) {
		s := openStore(t, Options{URL: url, Prefix: freshPrefix(), Timeout: patience})
		e := large(t, s)
		if n, err := s.conn.client.HLen(t.Context(), s.conn.key.body(e.ID)).Result(); n != 3 || err != nil {
			t.Errorf("%d chunks, want 3 (%v)", n, err)
		}
		if ttl, err := s.conn.client.TTL(t.Context(), s.conn.key.body(e.ID)).Result(); ttl != -1 || err != nil {
			t.Errorf("they vanish after %v (%v)", ttl, err)
		}
		body, err := s.Body(t.Context(), topicName, e)
		if err != nil || !bytes.Equal(body, e.Body) {
			t.Errorf("Body: %d bytes of %d (%v)", len(body), len(e.Body), err)
		}
		if _, err := s.Trim(t.Context(), topicName, journal.Cut{KeepBytes: 0}); err != nil {
			t.Fatal(err)
		}
		if n, err := s.conn.client.Exists(t.Context(), s.conn.key.body(e.ID), s.conn.key.topic(topicName).entries).Result(); n != 0 || err != nil {
			t.Errorf("after a trim of all %d keys are left (%v)", n, err)
		}
		if n, err := s.conn.client.HLen(t.Context(), s.conn.key.topic(topicName).ids).Result(); n != 0 || err != nil {
			t.Errorf("after a trim of all %d ids are left (%v)", n, err)
		}
	})
}

func TestChunksOfNoEntryVanish(t *testing.T) {
	s := openStore(t, Options{URL: topologies["standalone"](t), Prefix: freshPrefix(), Timeout: patience})
	h, err := s.Head(t.Context(), topicName)
	if err != nil {
		t.Fatal(err)
	}
	large(t, s)
	s.heads.cache.Add(s.conn.key.topic(topicName).id, "") // what another hub believes
	if _, err := s.Append(t.Context(), time.Now(), topicName, entry(1, noise(chunkSize)), h.Version); !errors.Is(err, journal.ErrHeadMoved) {
		t.Errorf("Append onto a head that moved: %v", err)
	}
	names, err := keysOf(t.Context(), s.conn.client, string(s.conn.key))
	bodies := 0
	for _, name := range names {
		if strings.Contains(name, beginsBody) {
			bodies++
		}
	}
	if bodies != 1 || err != nil {
		t.Errorf("%d bodies are left, want that of the entry (%v)", bodies, err)
	}

	// A hub that died before it appended.
	id := uuid.New()
	if _, err := s.appender.writeChunks(t.Context(), id, encodeBody([]byte(noise(chunkSize)))); err != nil {
		t.Fatal(err)
	}
	if ttl, err := s.conn.client.TTL(t.Context(), s.conn.key.body(id)).Result(); ttl <= 0 || ttl > chunksKept || err != nil {
		t.Errorf("chunks without an entry vanish after %v (%v)", ttl, err)
	}
	// An append was so slow that its chunks were deleted.
	k := s.conn.key.topic(topicName)
	now, err := s.heads.read(t.Context(), k, topicName)
	if err != nil {
		t.Fatal(err)
	}
	e := entry(1, "")
	if e.ID, err = journal.NewID(time.Now(), k.partition); err != nil {
		t.Fatal(err)
	}
	if _, err := s.appender.appendEntry(t.Context(), k, now, e, nil, 2); !errors.Is(err, errChunks) {
		t.Errorf("an entry whose chunks are gone: %v", err)
	}
	if got := read(t, s, topicName, journal.Anchor{}); len(got) != 1 {
		t.Errorf("%d entries", len(got))
	}
}

// Large reads come in several replies, and none is larger than it should be.
func TestReadGoesOnWhereAReplyEnds(t *testing.T) {
	s := openStore(t, Options{URL: topologies["standalone"](t), Prefix: freshPrefix(), Timeout: patience})
	body := noise(chunkSize - 1)
	var want []journal.Entry
	for range replyMax/len(body) + 5 {
		e, err := add(t.Context(), s, topicName, body)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, e)
	}
	page, more, err := s.reader.page(t.Context(), s.conn.key.topic(topicName), topicName, journal.Anchor{}, 100, 1<<40)
	if err != nil || !more || len(page) >= len(want) {
		t.Errorf("one reply has %d of %d entries, and says %t of more (%v)", len(page), len(want), more, err)
	}
	got := read(t, s, topicName, journal.Anchor{})
	if len(got) != len(want) {
		t.Fatalf("%d entries, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i].ID != want[i].ID || !bytes.Equal(got[i].Body, want[i].Body) {
			t.Errorf("entry %d came back otherwise", i)
		}
	}
	got, err = s.Read(t.Context(), topicName, journal.Anchor{}, len(want)-1, int64(len(want)-2)*int64(len(body)))
	if err != nil || len(got) != len(want)-1 || got[len(got)-2].Body == nil || got[len(got)-1].Body != nil {
		t.Errorf("%d entries with a limit of %d and of the bytes of one less (%v)", len(got), len(want)-1, err)
	}
}

// Invariant 12, and none that is cut away is missed.
func TestChangesAreBounded(t *testing.T) {
	s := openStore(t, Options{URL: topologies["standalone"](t), Prefix: freshPrefix(), Timeout: patience})
	k := s.conn.key.topic(topicName)
	publish(t, s, topicName, 1)
	_, since, err := s.Changes(t.Context(), k.partition, 0)
	if err != nil {
		t.Fatal(err)
	}
	publish(t, s, topicName, 1)
	ask := func(want int) uint64 {
		t.Helper()
		topics, next, err := s.Changes(t.Context(), k.partition, since)
		if err != nil || len(topics) != want {
			t.Errorf("changes of %v (%v), want %d", topics, err, want)
		}
		return next
	}
	next := ask(1)
	// Many others move, and push the topic out of the list.
	var others []redis.Z
	for i := range maxTopicChanges + 10 {
		id := journal.TopicID(fmt.Sprint("https://other.example/", i))
		others = append(others, redis.Z{Score: float64(next) + float64(i) + 1, Member: string(id[:])})
	}
	if err := s.conn.client.ZAdd(t.Context(), k.changes, others...).Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.conn.client.ZRemRangeByRank(t.Context(), k.changes, 0, 10).Err(); err != nil {
		t.Fatal(err)
	}
	ask(1) // all, which is the one that has a head
	publish(t, s, topicName, 1)
	n, err := s.conn.client.ZCard(t.Context(), k.changes).Result()
	if err != nil || n > maxTopicChanges {
		t.Errorf("%d changes are kept (%v)", n, err)
	}
	since = next
	ask(1)
	// A value from a store that is ahead: its tail was lost.
	since = 1 << 62
	ask(1)
}

// Two stores, as two hubs, with one topic: a head that one remembers is never
// taken for the one that is.
func TestHubsSeeEachOther(t *testing.T) {
	eachTopology(t, func(t *testing.T, url string) {
		prefix := freshPrefix()
		a := openStore(t, Options{URL: url, Prefix: prefix, Timeout: patience})
		b := openStore(t, Options{URL: url, Prefix: prefix, Timeout: patience})
		if a.ID() != b.ID() {
			t.Errorf("two installations: %s and %s", a.ID(), b.ID())
		}
		publish(t, a, topicName, 3)
		stale, err := a.Head(t.Context(), topicName)
		if err != nil {
			t.Fatal(err)
		}
		// What another hub trims or records is no move of the head.
		if _, err := b.Trim(t.Context(), topicName, journal.Cut{KeepBytes: stale.Bytes - 1}); err != nil {
			t.Fatal(err)
		}
		e, err := a.Append(t.Context(), time.Now(), topicName, entry(3, "x"), stale.Version)
		if err != nil {
			t.Fatalf("Append after a trim by another hub: %v", err)
		}
		h, err := b.Head(t.Context(), topicName)
		if err != nil || h.Last != e.Anchor() || h.Entries != 3 || h.Trimmed.Seq != 1 {
			t.Errorf("the head is %+v (%v)", h, err)
		}
		if _, err := b.Append(t.Context(), time.Now(), topicName, entry(3, "y"), stale.Version); !errors.Is(err, journal.ErrHeadMoved) {
			t.Errorf("Append of the other hub: %v", err)
		}
		// Clocks that differ by an hour: positions rise all the same.
		e2, err := b.Append(t.Context(), time.Now().Add(-time.Hour), topicName, entry(4, "y"), h.Version)
		if err != nil || e2.Position <= e.Position {
			t.Errorf("position %d after %d (%v)", e2.Position, e.Position, err)
		}
	})
}

func TestRefusedStoreWritesNothing(t *testing.T) {
	s := openStore(t, Options{URL: topologies["standalone"](t), Prefix: freshPrefix(), Timeout: patience})
	e := publish(t, s, topicName, 1)[0]
	h, err := s.Head(t.Context(), topicName)
	if err != nil {
		t.Fatal(err)
	}
	why := errors.New("the store was emptied")
	s.checks.decide(why)
	ctx, now := t.Context(), time.Now()
	_, appendErr := s.Append(ctx, now, topicName, entry(1, "x"), h.Version)
	_, trimErr := s.Trim(ctx, topicName, journal.Cut{KeepBytes: 0})
	for what, err := range map[string]error{
		"Append": appendErr, "Trim": trimErr, "Reset": s.Reset(ctx, topicName, h.Version), "RecordGap": s.RecordGap(ctx, topicName, journal.Gap{Reason: journal.GapRolledBack}),
		"Restore": s.Restore(ctx, journal.Head{Topic: "https://source.example/2"}, nil), "Ping": s.Ping(ctx, now, []string{topicName}),
		"SetFetched": s.SetFetched(ctx, journal.PingRecord{Topic: topicName}), "DeletePingRecord": s.DeletePingRecord(ctx, journal.PingRecord{Topic: topicName}),
	} {
		if !errors.Is(err, why) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got := read(t, s, topicName, journal.Anchor{}); len(got) != 1 || got[0].ID != e.ID {
		t.Errorf("%d entries", len(got))
	}
	s.checks.decide(nil)
	publish(t, s, topicName, 1)
}

func TestClosedStore(t *testing.T) {
	s := openStore(t, Options{URL: topologies["standalone"](t), Prefix: freshPrefix()})
	hints := journal.HintedTopics(context.Background(), s.Hints)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Head(t.Context(), topicName); !errors.Is(err, ErrClosed) {
		t.Errorf("Head: %v", err)
	}
	select {
	case _, open := <-hints:
		t.Errorf("a hint (open: %t)", open)
	default:
	}
}

// A head or a ping record that cannot be read does not hide the others, if there is a function
// to report it to.
func TestDamagedTopicIsLeftOut(t *testing.T) {
	told := map[uuid.UUID]error{}
	s := openStore(t, Options{
		URL: topologies["standalone"](t), Prefix: freshPrefix(), Timeout: patience,
		UnreadableTopic: func(id uuid.UUID, why error) { told[id] = why },
	})
	damage := func(partition int, id uuid.UUID) error {
		heads, field := s.conn.key.partition(partition, nameHeads), string(id[:])
		err := s.conn.client.HSet(t.Context(), s.conn.key.partition(partition, namePings), field, "\x01cut").Err()
		if s.conn.client.HExists(t.Context(), heads, field).Val() {
			err = errors.Join(err, s.conn.client.HSet(t.Context(), heads, field, "\x01cut").Err())
		}
		return err
	}
	storetest.RunLeftOut(t, s, told, damage, func() { s.lister.unreadable = nil })
}
