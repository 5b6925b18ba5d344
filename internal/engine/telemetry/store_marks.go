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

func (t timedMarks) Ping(ctx context.Context, now time.Time, topics []string) error {
	start := time.Now()
	err := t.next.Ping(ctx, now, topics)
	t.m.done(opPing, start, err)
	return err
}

func (t timedMarks) Mark(ctx context.Context, topic string) (journal.Mark, error) {
	start := time.Now()
	mark, err := t.next.Mark(ctx, topic)
	t.m.done(opMark, start, err)
	return mark, err
}

func (t timedMarks) Marks(ctx context.Context, partition int, after uuid.UUID, limit int) ([]journal.Mark, error) {
	start := time.Now()
	marks, err := t.next.Marks(ctx, partition, after, limit)
	t.m.done(opMarks, start, err)
	return marks, err
}

func (t timedMarks) SetFetched(ctx context.Context, mark journal.Mark) error {
	start := time.Now()
	err := t.next.SetFetched(ctx, mark)
	t.m.done(opSetFetched, start, err)
	return err
}

func (t timedMarks) Unmark(ctx context.Context, mark journal.Mark) error {
	start := time.Now()
	err := t.next.Unmark(ctx, mark)
	t.m.done(opUnmark, start, err)
	return err
}
