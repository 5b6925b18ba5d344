package app

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/internal/base/clock"
	"github.com/rshub/rshub/journal"
)

// How often retention checks every topic: while something is published, and otherwise.
// It looks sooner whether a topic that grew exceeds its own limit.
const (
	retentionBusy = 10 * time.Second
	retentionIdle = time.Minute
	retentionGrew = time.Second
)

// ageParts is how often in the time of --retention-age retention checks the age of the
// oldest notification of every topic. The heads do not contain it, so this takes one request
// for each topic.
const ageParts = 100

// topicsPage is how many heads are read from the store at once.
const topicsPage = 256

// retention trims the journal.
type retention struct {
	store interface {
		journal.Trimmer
		Head(ctx context.Context, topic string) (journal.Head, error)
		Hints(ctx context.Context, f func(journal.Hint))
	}
	rule journal.Retention
	// owns reports whether this hub trims a partition. Nil: it trims all of them.
	owns func(partition int) bool
	log  *zap.Logger
	// clock has the time of day, and storeTime reads the clock of the store. Nil: the
	// store has no clock.
	clock     *clock.Clock
	storeTime func(context.Context) (time.Time, error)

	// used gets what the topics of this hub retain, at each trim. It may be nil.
	used func(admin.JournalNow)

	aged time.Time // when trim last checked ages
}

// mine are the partitions that this hub trims.
func (r *retention) mine() []int {
	var out []int
	for n := range journal.Partitions {
		if r.owns == nil || r.owns(n) {
			out = append(out, n)
		}
	}
	return out
}

func (r *retention) run(ctx context.Context) error {
	hints := journal.HintedTopics(ctx, r.store.Hints)
	tick := time.NewTicker(retentionBusy)
	defer tick.Stop()
	var last time.Time
	grew, grown := false, map[string]bool{}
	var look <-chan time.Time // at those that grew; nil: there is none
	for {
		// At the start there is nothing to trim until the hub owns shards.
		if (grew || time.Since(last) >= retentionIdle) && len(r.mine()) > 0 {
			last, grew = time.Now(), false
			r.report(ctx, r.trimNow(ctx))
		}
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				waiting = false
			case <-look:
				for topic := range grown {
					r.report(ctx, r.bound(ctx, topic))
				}
				clear(grown)
				look = nil
			case topic, ok := <-hints:
				if !ok {
					return nil
				}
				grew, grown[topic] = true, true
				if look == nil {
					look = time.After(retentionGrew)
				}
			}
		}
	}
}

// bound trims a topic that has become larger than its limit.
func (r *retention) bound(ctx context.Context, topic string) error {
	if r.rule.PerTopic <= 0 || r.owns != nil && !r.owns(journal.Partition(journal.TopicID(topic))) {
		return nil
	}
	head, err := r.store.Head(ctx, topic)
	if err != nil || head.Bytes <= r.rule.PerTopic {
		return err
	}
	_, err = r.store.Trim(ctx, topic, journal.Cut{KeepBytes: r.rule.PerTopic})
	return err
}

func (r *retention) report(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		r.log.Warn("the journal could not be trimmed; the hub tries again soon", zap.String("event", "retention_failed"), zap.Error(err))
	}
}

// failures counts the topics and partitions that failed, and has the first error.
type failures struct {
	first error
	n     int
}

func (f *failures) add(err error) {
	if err == nil {
		return
	}
	if f.n++; f.first == nil {
		f.first = err
	}
}

// err returns the first error, with the number of failures.
func (f *failures) err() error {
	if f.n > 1 {
		return fmt.Errorf("%d failures, the first: %w", f.n, f.first)
	}
	return f.first
}

// trimNow trims as of the earliest time that the clocks of the hub and of the store show,
// because trimming cannot be undone.
func (r *retention) trimNow(ctx context.Context) error {
	now := r.clock.Earliest()
	if r.storeTime != nil {
		at, err := r.storeTime(ctx)
		if err != nil {
			return fmt.Errorf("reading the clock of the store: %w", err)
		}
		if at.Before(now) {
			now = at
		}
	}
	return r.trim(ctx, now)
}

// trim deletes what the rule does not keep in the partitions of this hub. The hub's fraction
// of the total is its fraction of the partitions. Topics are spread over partitions at random,
// so all hubs together keep the total without reading each other's topics. If a few large
// topics make up most of the total, they may be trimmed before it is reached. If a topic or
// a partition cannot be read, the others are still trimmed. If the store does not answer,
// trim ends.
func (r *retention) trim(ctx context.Context, now time.Time) error {
	var topics []string
	var sizes []int64
	var failed failures
	var used admin.JournalNow
	mine, rule := r.mine(), r.rule
	if len(mine) == 0 {
		return nil
	}
	if rule.Total > 0 { // in floating point, as the product may be too large
		rule.Total = max(1, int64(float64(rule.Total)*(float64(len(mine))/journal.Partitions)))
	}
	for _, partition := range mine {
		for after, more := uuid.Nil, true; more; {
			heads, err := r.store.Topics(ctx, partition, after, topicsPage)
			if failed.add(err); unavailable(ctx, err) {
				return err
			}
			for _, h := range heads {
				if after = journal.TopicID(h.Topic); h.Entries > 0 {
					topics, sizes = append(topics, h.Topic), append(sizes, h.Bytes)
					used.Topics, used.Entries, used.Bytes = used.Topics+1, used.Entries+h.Entries, used.Bytes+h.Bytes
				}
			}
			more = err == nil && len(heads) == topicsPage
		}
	}
	if r.used != nil {
		used.Limit, used.AsOf = rule.Total, now.UTC()
		r.used(used)
	}
	cut := rule.Cut(now, sizes)
	old := rule.Age > 0 && now.Sub(r.aged).Abs() >= rule.Age/ageParts // a clock may go back
	for i, topic := range topics {
		if !old && (cut.KeepBytes < 0 || sizes[i] <= cut.KeepBytes) {
			continue
		}
		_, err := r.store.Trim(ctx, topic, cut)
		if failed.add(err); unavailable(ctx, err) {
			return err
		}
	}
	if old {
		r.aged = now
	}
	return failed.err()
}
