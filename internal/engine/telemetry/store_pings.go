package telemetry

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
)

type timedPings struct {
	next journal.Pings
	m    *Metrics
}

func (t timedPings) Ping(ctx context.Context, now time.Time, topics []string) (err error) {
	defer t.m.done(opPing, time.Now(), &err)
	return t.next.Ping(ctx, now, topics)
}

func (t timedPings) PingRecord(ctx context.Context, topic string) (ping journal.PingRecord, err error) {
	defer t.m.done(opPingRecord, time.Now(), &err)
	return t.next.PingRecord(ctx, topic)
}

func (t timedPings) PingRecords(ctx context.Context, partition int, after uuid.UUID, limit int) (pings []journal.PingRecord, err error) {
	defer t.m.done(opPingRecords, time.Now(), &err)
	return t.next.PingRecords(ctx, partition, after, limit)
}

func (t timedPings) SetFetched(ctx context.Context, ping journal.PingRecord) (err error) {
	defer t.m.done(opSetFetched, time.Now(), &err)
	return t.next.SetFetched(ctx, ping)
}

func (t timedPings) DeletePingRecord(ctx context.Context, ping journal.PingRecord) (err error) {
	defer t.m.done(opDeletePingRecord, time.Now(), &err)
	return t.next.DeletePingRecord(ctx, ping)
}
