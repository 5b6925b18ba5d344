package app

import (
	"context"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/rshub/rshub/journal"
)

// How often retention looks at every topic: while something is published, and
// at any rate. A topic over its own limit is trimmed as soon as it is.
const (
	retentionBusy = 10 * time.Second
	retentionIdle = time.Minute
)

// topicsPage is how many heads are read from the store at once.
const topicsPage = 256

// retention trims the journal.
type retention struct {
	store interface {
		journal.Trimmer
		Head(ctx context.Context, topic string) (journal.Head, error)
		Hints(ctx context.Context) <-chan string
	}
	rule journal.Retention
	log  *zap.Logger
}

func (r *retention) run(ctx context.Context) error {
	hints := r.store.Hints(ctx)
	tick := time.NewTicker(retentionBusy)
	defer tick.Stop()
	var last time.Time
	grew := false
	for {
		if now := time.Now(); grew || now.Sub(last) >= retentionIdle {
			r.report(ctx, r.trim(ctx, now))
			last, grew = now, false
		}
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				waiting = false
			case topic, ok := <-hints:
				if !ok {
					return nil
				}
				grew = true
				r.report(ctx, r.bound(ctx, topic))
			}
		}
	}
}

// bound trims a topic that has become larger than one may be.
func (r *retention) bound(ctx context.Context, topic string) error {
	if r.rule.PerTopic <= 0 {
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
		r.log.Warn("the journal could not be trimmed; it is tried again soon", zap.String("event", "retention_failed"), zap.Error(err))
	}
}

// trim takes away what the rule does not keep.
func (r *retention) trim(ctx context.Context, now time.Time) error {
	var topics []string
	var sizes []int64
	for partition := range journal.Partitions {
		var after uuid.UUID
		for {
			heads, err := r.store.Topics(ctx, partition, after, topicsPage)
			if err != nil {
				return err
			}
			for _, h := range heads {
				if h.Entries > 0 {
					topics, sizes = append(topics, h.Topic), append(sizes, h.Bytes)
				}
			}
			if len(heads) < topicsPage {
				break
			}
			after = journal.TopicID(heads[len(heads)-1].Topic)
		}
	}
	cut := r.rule.Cut(now, sizes)
	for _, topic := range topics {
		if _, err := r.store.Trim(ctx, topic, cut); err != nil {
			return err
		}
	}
	return nil
}
