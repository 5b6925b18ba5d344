package telemetry

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
)

type timedMarks struct {
	next journal.Marks
	m    *Metrics
}

func (t timedMarks) Ping(ctx context.Context, now time.Time, topics []string) (err error) {
	defer t.m.done(opPing, time.Now(), &err)
	return t.next.Ping(ctx, now, topics)
}

func (t timedMarks) Mark(ctx context.Context, topic string) (mark journal.Mark, err error) {
	defer t.m.done(opMark, time.Now(), &err)
	return t.next.Mark(ctx, topic)
}

func (t timedMarks) Marks(ctx context.Context, partition int, after uuid.UUID, limit int) (marks []journal.Mark, err error) {
	defer t.m.done(opMarks, time.Now(), &err)
	return t.next.Marks(ctx, partition, after, limit)
}

func (t timedMarks) SetFetched(ctx context.Context, mark journal.Mark) (err error) {
	defer t.m.done(opSetFetched, time.Now(), &err)
	return t.next.SetFetched(ctx, mark)
}

func (t timedMarks) Unmark(ctx context.Context, mark journal.Mark) (err error) {
	defer t.m.done(opUnmark, time.Now(), &err)
	return t.next.Unmark(ctx, mark)
}
