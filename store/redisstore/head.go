package redisstore

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/rshub/rshub/journal"
)

// A head record is a version byte, a revision that is drawn anew whenever it is
// stored, the anchor of the newest trimmed entry as scripts compare it, and the
// packed head.
const (
	headVersion    = 1
	revisionSize   = 8
	headAnchorFrom = 1 + revisionSize
	headAnchorSize = 16
	headPackedFrom = headAnchorFrom + headAnchorSize
)

// headRecord is what is stored of a topic.
type headRecord struct {
	journal.Head
	// revision is of the record that was read; empty: there is none.
	revision string
}

// openHead reads a head record; of an empty one, a head with only Topic set.
func openHead(raw, topic string) (headRecord, error) {
	if raw == "" {
		return headRecord{Head: journal.Head{Topic: topic}}, nil
	}
	if len(raw) < headPackedFrom || raw[0] != headVersion {
		return headRecord{}, fmt.Errorf("%w: the head of a topic: it is cut short, or a newer program wrote it", journal.ErrPacked)
	}
	h, err := journal.UnpackHead([]byte(raw[headPackedFrom:]))
	return headRecord{Head: h, revision: raw[1:headAnchorFrom]}, err
}

// packHead makes a head record with a new revision.
func packHead(h journal.Head) string {
	b := make([]byte, headAnchorFrom, 256)
	b[0] = headVersion
	binary.BigEndian.PutUint64(b[1:], random())
	b = appendAnchor(b, h.Trimmed)
	return string(append(b, journal.PackHead(h)...))
}

// appendAnchor appends the 16 bytes by which scripts know an anchor: those of no
// entry are zero.
func appendAnchor(b []byte, a journal.Anchor) []byte {
	if a.Position == 0 {
		a.Nonce = 0
	}
	b = binary.BigEndian.AppendUint64(b, uint64(a.Position))
	return binary.BigEndian.AppendUint64(b, uint64(a.Nonce))
}

// newVersion is the version of a head that is about to be stored.
func newVersion(n uint64) journal.Version { return journal.Version(strconv.FormatUint(n, 36)) }

// Head implements journal.Appender and journal.Reader.
func (s *Store) Head(ctx context.Context, topic string) (journal.Head, error) {
	h, err := s.readHead(ctx, s.key.topic(topic), topic)
	return h.Head, err
}

// readHead reads the head record of a topic.
func (s *Store) readHead(ctx context.Context, k topicKeys, topic string) (headRecord, error) {
	raw, err := s.client.HGet(ctx, k.heads, k.field).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return headRecord{}, err
	}
	return s.knowHead(k, topic, raw)
}

// knowHead opens a head record that was read, and remembers it for the Append
// that is likely to follow.
func (s *Store) knowHead(k topicKeys, topic, raw string) (headRecord, error) {
	h, err := openHead(raw, topic)
	if err != nil {
		return headRecord{}, fmt.Errorf("topic %s: %w", topic, err)
	}
	s.saw(k.partition, h.Last.Position)
	s.heads.Add(k.id, raw)
	if s.sights.saw(k, h.Head) {
		s.histories.suspect(k.partition)
	}
	return h, nil
}

// headAt returns the head record that is remembered of a topic if it has the
// version, and else the one that is stored. The remembered one may be an old
// one: whoever writes finds out by its revision. That of a topic without a head is
// not found out by, so there it is made sure that Redis was not emptied a moment ago:
// what is published then would be for nobody.
func (s *Store) headAt(ctx context.Context, k topicKeys, topic string, version journal.Version) (headRecord, error) {
	if raw, ok := s.heads.Get(k.id); ok && raw != "" {
		if h, err := openHead(raw, topic); err == nil && h.Version == version {
			return h, nil
		}
	}
	h, err := s.readHead(ctx, k, topic)
	if err == nil && h.revision == "" {
		err = s.same(ctx)
	}
	return h, err
}

// headScript stores the head record of a topic.
//
//	KEYS    1 heads
//	ARGV    1 topic, 2 revision that the stored one must have, empty: there must be none,
//	        3 new head record
//	returns {1} it is stored; {0, head record} the stored one is another
var headScript = newScript(bounded, `
local now = redis.call('HGET', KEYS[1], ARGV[1]) or ''
local revision = string.sub(now, 2, 9)
if revision == string.sub(ARGV[3], 2, 9) then return {1} end
if revision ~= ARGV[2] then return {0, now} end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return {1}
`)

// maxTries is how often a value is read and made anew where somebody else was
// faster each time.
const maxTries = 50

// errBusy is what is returned after that.
var errBusy = errors.New("others changed the same value again and again; try again")

// swapHead calls try with the head of a topic, and again with the one that is there now
// as long as try says that it is another: the record now.
func (s *Store) swapHead(ctx context.Context, topic string, try func(k topicKeys, h headRecord) (done bool, now string, err error)) error {
	if err := s.writable(); err != nil {
		return err
	}
	k := s.key.topic(topic)
	h, err := s.readHead(ctx, k, topic)
	for range maxTries {
		if err != nil {
			return err
		}
		done, now, err := try(k, h)
		if done || err != nil {
			return err
		}
		if h, err = s.knowHead(k, topic, now); err != nil {
			return err
		}
	}
	return errBusy
}

// changeHead stores what change makes of a topic's head. Change may be called
// several times; its error is returned, and errUnchanged as nil.
func (s *Store) changeHead(ctx context.Context, topic string, change func(h *journal.Head) error) error {
	return s.swapHead(ctx, topic, func(k topicKeys, h headRecord) (bool, string, error) {
		next := h.Head
		if err := change(&next); err != nil {
			if errors.Is(err, errUnchanged) {
				return true, "", nil
			}
			return false, "", err
		}
		raw := packHead(next)
		stored, now, err := swapped(s.run(ctx, headScript, []string{k.heads}, k.field, h.revision, raw))
		if stored && err == nil {
			s.heads.Add(k.id, raw)
			s.sights.saw(k, next)
		}
		return stored, now, err
	})
}

// errUnchanged says that there is nothing to store.
var errUnchanged = errors.New("nothing changed")

// swapped reads what a script returns that stores a value if another is there:
// {1}, {0, the value that is there}, {2} where something else is missing, or {3}
// where it may have been lost.
func swapped(cmd *redis.Cmd) (stored bool, now string, err error) {
	v, err := cmd.Slice()
	if err != nil {
		return false, "", err
	}
	if len(v) == 2 {
		now, _ = v[1].(string)
	}
	switch v[0] {
	case int64(1):
		return true, "", nil
	case int64(2):
		return false, "", errChunks
	case int64(3):
		return false, "", errUnsettled
	default:
		return false, now, nil
	}
}

// Reset implements journal.Appender. A topic that never had an entry has
// nothing to forget and stays without a head.
func (s *Store) Reset(ctx context.Context, topic string, ifHead journal.Version) error {
	if _, err := s.settled(ctx, s.key.topic(topic).partition); err != nil {
		return err // it may be about to come back
	}
	version := newVersion(random())
	return s.changeHead(ctx, topic, func(h *journal.Head) error {
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
		h.Reset, h.Kind, h.Version = true, "", version
		h.Epoch++
		return nil
	})
}

// RecordGap implements journal.Recorder.
func (s *Store) RecordGap(ctx context.Context, topic string, g journal.Gap) error {
	return s.changeHead(ctx, topic, func(h *journal.Head) error {
		next, news := h.Lose(g)
		if h.Version == "" || !news {
			return errUnchanged
		}
		*h = next
		return nil
	})
}

// random returns 64 random bits.
func random() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return binary.BigEndian.Uint64(b[:])
}

// saw remembers that a position of a partition is in use, also where a Redis
// that lost its tail forgets it.
func (s *Store) saw(partition int, p journal.Position) {
	seen := &s.highest[partition]
	for {
		old := seen.Load()
		if uint64(p) <= old || seen.CompareAndSwap(old, uint64(p)) {
			return
		}
	}
}
