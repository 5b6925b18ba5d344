package admin

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

const (
	// removeTime is how long one call works on the removal of a topic. It leaves
	// time for the answer within changeTimeout.
	removeTime = 20 * time.Second
	// shardsAtOnce is how many shards are read at the same time, so that stores commit many
	// ends together.
	shardsAtOnce = 32
)

// removedNotice is the reason in the denials when the operator removes a topic.
const removedNotice = "The operator of the hub has removed the topic."

// removeTopic removes a topic. If there is not enough time, the next call continues with the
// subscriptions and entries that are left.
func (a *topicCalls) removeTopic(r *http.Request) (any, zap.Field, error) {
	id := mux.Vars(r)["id"]
	what := zap.String("topic", id)
	c, err := a.control()
	if err != nil {
		return nil, what, err
	}
	force, err := parseForce(r)
	if err == nil {
		err = noBody(r)
	}
	if err != nil {
		return nil, what, err
	}
	t, err := a.topicState(r.Context(), id)
	if err != nil {
		return nil, what, err
	}
	url := t.head.Topic
	what = zap.String("topic", url)
	ctx, cancel := context.WithTimeout(r.Context(), removeTime)
	defer cancel()
	done := Removal{ID: t.id().String(), URL: url}
	if force {
		done.Ended, err = a.eachActive(ctx, url, func(ctx context.Context, id uuid.UUID) error {
			return c.End(ctx, id, subscriptions.EndRemoved, removedNotice)
		})
	} else {
		err = a.refuseActive(ctx, url)
	}
	if err == nil {
		err = a.forgetTopic(ctx, url)
	}
	if err != nil && ctx.Err() != nil && r.Context().Err() == nil {
		return done, what, nil
	}
	done.Removed = err == nil
	return done, what, err
}

// parseForce reads ?force=.
func parseForce(r *http.Request) (bool, error) {
	q := r.URL.Query()
	force := q.Get("force")
	if q.Has("force") && force != "true" && force != "false" {
		return false, badRequest("force=%s is neither true nor false.", force)
	}
	return force == "true", nil
}

// refuseActive refuses to remove a topic that has active subscriptions.
func (a *topicCalls) refuseActive(ctx context.Context, topic string) error {
	n, known := 0, false
	if a.Subscribers != nil {
		n, known = a.Subscribers(topic)
	}
	if !known || n == 0 { // a subscription that just became active is in the store first
		var err error
		if n, err = a.eachActive(ctx, topic, func(context.Context, uuid.UUID) error { return nil }); err != nil {
			return err
		}
	}
	if n == 0 {
		return nil
	}
	return refuse(http.StatusConflict, "The topic has active subscriptions: %d. End them first, or have them ended with ?force=true (--force).", n)
}

// eachActive calls do with each active subscription of a topic, from several goroutines. It
// returns for how many that succeeded.
func (a *topicCalls) eachActive(ctx context.Context, topic string, do func(ctx context.Context, id uuid.UUID) error) (int, error) {
	var n atomic.Int64
	now := a.Now()
	shards, ctx := errgroup.WithContext(ctx)
	shards.SetLimit(shardsAtOnce)
	for shard := range journal.Partitions {
		shards.Go(func() error {
			for after := uuid.Nil; ; {
				records, err := a.Subscriptions.List(ctx, shard, after, batch)
				if err != nil || len(records) == 0 {
					return err
				}
				for _, rec := range records {
					after = recordID(rec)
					if s := rec.Subscription; s == nil || s.Topic != topic || !s.Live(now) {
						continue
					}
					if err := do(ctx, after); err != nil && !errors.Is(err, subscriptions.ErrNotFound) {
						return err
					}
					n.Add(1)
				}
			}
		})
	}
	err := shards.Wait()
	return int(n.Load()), err
}

// forgetTopic removes a topic and its ping record. It tries again if a publish or a ping
// arrives at the same time.
func (a *topicCalls) forgetTopic(ctx context.Context, topic string) error {
	for range maxResets {
		head, err := a.Topics.Head(ctx, topic)
		if err == nil {
			err = a.Topics.Remove(ctx, topic, head.Version)
		}
		if !errors.Is(err, journal.ErrHeadMoved) {
			return err
		}
	}
	return refuse(http.StatusConflict, "The topic is being published to so fast that it could not be removed; stop its Source first, or try again.")
}
