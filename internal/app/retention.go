package app

import (
	"context"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/rshub/rshub/journal"
)

// retentionEvery is how often retention looks at the journal.
const retentionEvery = time.Minute

// topicsPage is how many heads are read from the store at once.
const topicsPage = 256

// retention trims the journal.
type retention struct {
	store journal.Trimmer
	rule  journal.Retention
	log   *zap.Logger
}

func (r *retention) run(ctx context.Context) error {
	tick := time.NewTicker(retentionEvery)
	defer tick.Stop()
	for {
		if err := r.trim(ctx, time.Now()); err != nil && ctx.Err() == nil {
			r.log.Warn("the journal could not be trimmed; it is tried again in a minute",
				zap.String("event", "retention_failed"), zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
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
