package redisstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
)

// Loss is what Redis lost of one partition, as far as this hub noticed it first.
type Loss struct {
	Partition int
	// Emptied says that nothing of the partition is left.
	Emptied bool
	// Topics counts the topics that lost something, and Vanished those of them that lost
	// everything. Topic is one of them.
	Topics, Vanished int
	Topic            string
	Gaps             []journal.Gap
}

// regainScript stores a repaired head record.
//
//	KEYS, ARGV and what it returns are as for ifHeadStands and announce
var regainScript = newScript(bounded, ifHeadStands+`
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
`+theTime+announce)

// comparePage is how many heads are read at once.
const comparePage = 128

// compare compares what this hub remembers of a partition with what is stored, and repairs
// what was lost: a head that went back gets a gap, and a head that vanished is stored
// again. A head that cannot be read stays as it is.
func (r *reconciler) compare(ctx context.Context, partition int, emptied bool, reached map[uuid.UUID]*journal.Reached) error {
	known := r.heads.seen.all(partition) // before the heads are read: then these are as new, or were lost
	for id, got := range reached {
		if _, ok := known[id]; !ok {
			known[id] = journal.Sight{Topic: got.Topic, Last: got.Greatest}
		}
	}
	ids := slices.Collect(maps.Keys(known))
	loss := Loss{Partition: partition, Emptied: emptied}
	defer func() {
		if r.lost != nil && (loss.Emptied || loss.Topics > 0) {
			r.lost(loss)
		}
	}()
	for some := range slices.Chunk(ids, comparePage) {
		found, err := r.conn.read(ctx, []string{r.conn.key.partition(partition, nameHeads)}, some)
		if err != nil {
			return err
		}
		for i, id := range some {
			if err := r.compareTopic(ctx, known[id], reached[id], found[i][0], &loss); err != nil && !errors.Is(err, journal.ErrPacked) {
				return err
			}
		}
	}
	return nil
}

// compareTopic compares one topic, given its stored head record. It adds to loss what no
// other hub has found before.
func (r *reconciler) compareTopic(ctx context.Context, known journal.Sight, got *journal.Reached, raw string, loss *Loss) error {
	k := r.conn.key.topic(known.Topic)
	for range maxTries {
		h, err := openHead(raw, known.Topic)
		if err != nil {
			return err
		}
		gone, err := r.isLost(ctx, k, h.Head, known)
		if err != nil {
			return err
		}
		next, gap, news := h.Head, journal.Gap{}, false
		if gone {
			next, gap, news = h.Regain(known, got, time.Now())
		} else if h.Epoch == known.Epoch {
			next, news = h.Recall(known)
		}
		if !news {
			if !known.WithoutHead() || h.Version != "" {
				r.heads.seen.replace(k, h.Head)
			}
			return nil
		}
		if h.Version == "" || next.Last != h.Last || !next.Until.Equal(h.Until) || next.Reset != h.Reset || next.Kind != h.Kind {
			next.Version = journal.NewVersion()
		}
		stored, now, err := r.storeRegained(ctx, k, h, next)
		if err != nil {
			return err
		}
		if stored {
			loss.Topics++
			loss.Topic = known.Topic
			if h.Version == "" {
				loss.Vanished++
			}
			if gap.Count > 0 {
				loss.Gaps = append(loss.Gaps, gap)
			}
			r.watcher.hints.Send(journal.Hint{Topic: known.Topic})
			return nil
		}
		raw = now
	}
	return errBusy
}

// isLost reports whether the journal lost the newest entry that this hub remembers of a
// topic.
func (r *reconciler) isLost(ctx context.Context, k topicKeys, h journal.Head, known journal.Sight) (bool, error) {
	switch {
	case known.None(), h.Epoch > known.Epoch:
		return false, nil
	case h.Version == "":
		return true, nil
	case h.Epoch < known.Epoch && (known.Reset || known.Kind == "") && h.Entries == 0:
		return true, nil // another hub stored it again, and did not know that it was reset or removed
	case known.WithoutHead(): // its subscriptions notice a loss when they read
		return false, nil
	case h.Last.Position == known.Last.Position && h.Last.Nonce == known.Last.Nonce:
		return false, nil
	}
	_, _, err := r.reader.page(ctx, k, known.Topic, known.Last, 0, -1)
	if errors.Is(err, journal.ErrRolledBack) {
		return true, nil
	}
	if _, trimmed := errors.AsType[*journal.TrimmedError](err); trimmed {
		return false, nil
	}
	return false, err
}

// storeRegained stores next in place of h. If another hub replaced h meanwhile, it stores nothing
// and returns what is stored now.
func (r *reconciler) storeRegained(ctx context.Context, k topicKeys, h headRecord, next journal.Head) (stored bool, now string, err error) {
	raw := r.heads.pack(next)
	c := r.watcher.announcing(k, h, raw)
	s, err := readSwapped(r.conn.run(ctx, regainScript, c.keys, c.args...))
	if s.stored {
		r.heads.cache.Add(k.id, raw)
		r.heads.seen.replace(k, next)
	}
	return s.stored, s.other, err
}

// cursorsReached returns how far the subscriptions to the topics of some partitions got, by
// partition and topic id. Ready says that all of them are known.
func (r *reconciler) cursorsReached(partitions []int) (of map[int]map[uuid.UUID]*journal.Reached, ready bool) {
	if r.reached == nil {
		return nil, true
	}
	all, ready := r.reached(partitions)
	of = make(map[int]map[uuid.UUID]*journal.Reached)
	for _, n := range partitions {
		of[n] = make(map[uuid.UUID]*journal.Reached)
	}
	for i := range all {
		id := journal.TopicID(all[i].Topic)
		if those := of[journal.Partition(id)]; those != nil {
			those[id] = &all[i]
		}
	}
	return of, ready
}

// verifyStored returns nil if an entry that was appended with a history is stored. The
// history may have ended: a failover can come right after the answer of Redis, and other
// hubs can compare before this one knows of the entry.
func (a *appender) verifyStored(ctx context.Context, k topicKeys, e journal.Entry, with *string) error {
	if a.histories.of[k.partition].current.Load() == with {
		return nil
	}
	there, err := a.conn.client.HExists(ctx, k.ids, string(e.ID[:])).Result()
	if err != nil {
		return fmt.Errorf("checking that a notification is stored: %w", err)
	}
	if !there {
		return errUnreconciled
	}
	return nil
}
