package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/redis/go-redis/v9"

	"github.com/rshub/rshub/journal"
)

// A head record is a version byte, a revision, the anchor of the newest trimmed entry as
// scripts compare it, and the packed head. The revision is a new random number each time
// that the record is stored.
const (
	headVersion    = 1
	revisionSize   = 8
	headAnchorFrom = 1 + revisionSize
	headAnchorSize = 16
	headPackedFrom = headAnchorFrom + headAnchorSize
)

// headRecord is the stored state of a topic.
type headRecord struct {
	journal.Head
	// revision is that of the record that was read; empty: there is no record.
	revision string
}

// openHead reads a head record. From an empty one it makes a head with only Topic set.
func openHead(raw, topic string) (headRecord, error) {
	if raw == "" {
		return headRecord{Head: journal.Head{Topic: topic}}, nil
	}
	if len(raw) < headPackedFrom || raw[0] != headVersion {
		return headRecord{}, fmt.Errorf("%w: the head of a topic: it is damaged, or a newer version wrote it", journal.ErrPacked)
	}
	h, err := journal.UnpackHead([]byte(raw[headPackedFrom:]))
	return headRecord{Head: h, revision: raw[1:headAnchorFrom]}, err
}

// packHead makes a head record with a new revision.
func packHead(h journal.Head, f journal.Format) string {
	b := make([]byte, headAnchorFrom, 256)
	b[0] = headVersion
	binary.BigEndian.PutUint64(b[1:], journal.Random())
	b = appendAnchor(b, h.Trimmed)
	return string(append(b, journal.PackHead(h, f)...))
}

// pack is packHead in the format that hubs write.
func (hs *heads) pack(h journal.Head) string { return packHead(h, hs.checks.format()) }

// appendAnchor appends the 16 bytes that scripts compare of an anchor. They are zero if
// there is no entry.
func appendAnchor(b []byte, a journal.Anchor) []byte {
	if a.Position == 0 {
		a.Nonce = 0
	}
	b = binary.BigEndian.AppendUint64(b, uint64(a.Position))
	return binary.BigEndian.AppendUint64(b, uint64(a.Nonce))
}

// heads reads and replaces the head records of all topics, and remembers how this hub saw
// them last. Every other part of the journal uses it.
type heads struct {
	conn      *conn
	checks    *checks
	histories *histories
	// cache has the records that this hub read or stored last, by topic id.
	cache *lru.Cache[uuid.UUID, string]
	// highest has the highest position that this hub has seen in each partition.
	highest [journal.Partitions]atomic.Uint64
	// seen finds out what Redis lost.
	seen *seenHeads
}

// headsKept is how many records the cache has at most.
const headsKept = 1024

func newHeads(c *conn, checks *checks, histories *histories) *heads {
	cache, _ := lru.New[uuid.UUID, string](headsKept) // it refuses only sizes below 1
	return &heads{conn: c, checks: checks, histories: histories, cache: cache, seen: newSeenHeads()}
}

// Head implements journal.Appender and journal.Reader.
func (a *appender) Head(ctx context.Context, topic string) (journal.Head, error) {
	h, err := a.heads.read(ctx, a.conn.key.topic(topic), topic)
	return h.Head, err
}

// read reads the head record of a topic.
func (hs *heads) read(ctx context.Context, k topicKeys, topic string) (headRecord, error) {
	raw, err := hs.conn.client.HGet(ctx, k.heads, k.field).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return headRecord{}, err
	}
	return hs.learn(k, topic, raw)
}

// learn opens a head record that was read, and remembers it for the Append that probably
// follows.
func (hs *heads) learn(k topicKeys, topic, raw string) (headRecord, error) {
	h, err := openHead(raw, topic)
	if err != nil {
		return headRecord{}, fmt.Errorf("topic %s: %w", topic, err)
	}
	hs.notePosition(k.partition, h.Last.Position)
	hs.cache.Add(k.id, raw)
	if hs.seen.saw(k, h.Head) {
		hs.histories.suspect(k.partition)
	}
	return h, nil
}

// at returns the cached head record of a topic if it has the version, else the stored one.
// The cached one may be old, so a script that writes compares its revision. A topic without a
// head has no revision. Then at checks that Redis was not emptied a moment ago: otherwise
// the notification would be accepted, and no subscription would receive it.
func (hs *heads) at(ctx context.Context, k topicKeys, topic string, version journal.Version) (headRecord, error) {
	if raw, ok := hs.cache.Get(k.id); ok && raw != "" {
		if h, err := openHead(raw, topic); err == nil && h.Version == version {
			return h, nil
		}
	}
	h, err := hs.read(ctx, k, topic)
	if err == nil && h.revision == "" {
		err = hs.checks.same(ctx)
	}
	return h, err
}

// headScript stores the head record of a topic.
var headScript = newScript(bounded, ifHeadStands+`
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return {1}
`)

// maxTries is how often an operation tries to change a value that others keep changing.
const maxTries = 50

// errBusy is returned after maxTries.
var errBusy = errors.New("other operations kept changing the same value; try again")

// swap replaces the head record of a topic. Next gets the stored record, and returns the
// new one and the call of script that stores it. If the stored record changed meanwhile,
// swap tries again. It returns the error of next, and nil for errUnchanged.
func (hs *heads) swap(ctx context.Context, topic string, script *redis.Script, next func(k topicKeys, h headRecord) (raw string, c call, err error)) error {
	if err := hs.checks.writable(); err != nil {
		return err
	}
	k := hs.conn.key.topic(topic)
	h, err := hs.read(ctx, k, topic)
	for range maxTries {
		if err != nil {
			return err
		}
		raw, c, nextErr := next(k, h)
		switch {
		case errors.Is(nextErr, errUnchanged):
			return nil
		case nextErr != nil:
			return nextErr
		}
		var s swapped
		if h, s, err = hs.replace(ctx, k, topic, script, c, raw); s.stored || err != nil {
			return err
		}
	}
	return errBusy
}

// replace calls a script that stores raw as the head record of a topic, and returns the
// record that is stored then: raw, or another if the stored one was changed meanwhile.
func (hs *heads) replace(ctx context.Context, k topicKeys, topic string, script *redis.Script, c call, raw string) (headRecord, swapped, error) {
	s, err := readSwapped(hs.conn.run(ctx, script, c.keys, c.args...))
	if err != nil {
		return headRecord{}, s, err
	}
	if !s.stored {
		raw = s.other
	}
	now, err := hs.learn(k, topic, raw)
	return now, s, err
}

// change stores a topic's head after change. Change may be called several times. Its error
// is returned, and nil for errUnchanged.
func (hs *heads) change(ctx context.Context, topic string, change func(h *journal.Head) error) error {
	return hs.swap(ctx, topic, headScript, func(k topicKeys, h headRecord) (string, call, error) {
		next := h.Head
		err := change(&next)
		raw := hs.pack(next)
		return raw, replacing(k, h, raw), err
	})
}

// errUnchanged says that there is nothing to store.
var errUnchanged = errors.New("nothing changed")

// Reset implements journal.Appender. A topic that never had an entry has
// nothing to forget and stays without a head.
func (a *appender) Reset(ctx context.Context, topic string, ifHead journal.Version) error {
	if _, err := a.histories.current(ctx, a.conn.key.topic(topic).partition); err != nil {
		return err // it may be about to come back
	}
	version := journal.NewVersion()
	return a.heads.change(ctx, topic, func(h *journal.Head) error {
		switch h.Version {
		case version:
			return errUnchanged // ours, of which the answer was lost
		case ifHead:
		default:
			return journal.ErrHeadMoved
		}
		if h.Version == "" {
			return errUnchanged
		}
		*h = h.AfterReset(version)
		return nil
	})
}

// RecordGap implements journal.Recorder.
func (a *appender) RecordGap(ctx context.Context, topic string, g journal.Gap) error {
	return a.heads.change(ctx, topic, func(h *journal.Head) error {
		next, news := h.Lose(g)
		if h.Version == "" || !news {
			return errUnchanged
		}
		*h = next
		return nil
	})
}

// notePosition remembers that a position of a partition is in use, in case Redis loses it.
func (hs *heads) notePosition(partition int, p journal.Position) {
	seen := &hs.highest[partition]
	for {
		old := seen.Load()
		if uint64(p) <= old || seen.CompareAndSwap(old, uint64(p)) {
			return
		}
	}
}
