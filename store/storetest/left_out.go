package storetest

import (
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
)

// RunLeftOut checks a topic whose head and ping record cannot be read. A store that reports damage, to
// reported, leaves them out of its lists and changes. A store that does not returns an error. The function
// damage damages the head and the ping record that a topic has, and silence ends the reports.
func RunLeftOut(t *testing.T, s Store, reported map[uuid.UUID]error, damage func(partition int, id uuid.UUID) error, silence func()) {
	const partition = 7
	k := &kit{T: t, h: &Harness{Store: s}}
	topics := topicsOf(partition, 5)
	for _, topic := range topics {
		k.fill(topic, 1)
	}
	k.ok(s.Ping(t.Context(), start, topics), "Ping")
	bad := journal.TopicID(topics[0])
	k.ok(damage(partition, bad), "damaging "+topics[0])
	list := func() (heads, pings int, err error) {
		for after := uuid.Nil; ; heads++ {
			page, err := s.Topics(t.Context(), partition, after, 1)
			if err != nil || len(page) == 0 {
				return heads, pings, err
			}
			m, err := s.PingRecords(t.Context(), partition, after, 1)
			if err != nil {
				return heads, pings, err
			}
			pings += len(m)
			after = journal.TopicID(page[0].Topic)
		}
	}
	heads, pings, err := list()
	k.expect(heads == 4 && pings == 4 && err == nil && len(reported) == 1, "%d heads and %d ping records, %v, reported: %v", heads, pings, err, reported)
	k.fails(reported[bad], journal.ErrPacked, "the report about %s", topics[0])
	clear(reported)
	changed, since := k.changes(partition, 0)
	k.expect(len(changed) == 4 && !slices.Contains(changed, topics[0]), "changed: %v", changed)
	k.fails(reported[bad], journal.ErrPacked, "the report of Changes about %s", topics[0])
	k.fill(topics[1], 2)
	changed, _ = k.changes(partition, since)
	k.same("changed since", changed, topics[1:2])
	silence()
	_, _, err = list()
	k.fails(err, journal.ErrPacked, "with nothing to report to")
	_, _, err = s.Changes(t.Context(), partition, 0)
	k.fails(err, journal.ErrPacked, "Changes with nothing to report to")
	k.ok(s.Ping(t.Context(), start, []string{topics[1], topics[0], topicName + "new"}), "pings beside a damaged ping record")

	// Among topics without a head, a damaged ping record takes a place, and is the first to make room.
	k.ok(s.Ping(t.Context(), start, topicsOf(partition, len(topics)+journal.MaxPingRecords)[len(topics):]), "pings of as many topics as may wait")
	more := topicsOf(partition, len(topics)+journal.MaxPingRecords+2)[len(topics):]
	waiting, more := more[0], more[journal.MaxPingRecords:]
	k.fails(s.Ping(t.Context(), start, more[:1]), journal.ErrTooManyPings, "one more")
	k.ok(damage(partition, journal.TopicID(waiting)), "damaging "+waiting)
	k.ok(s.Ping(t.Context(), start, more[:1]), "one more, with a damaged ping record")
	k.fails(s.Ping(t.Context(), start, more[1:]), journal.ErrTooManyPings, "yet another")
	k.fails(s.Ping(t.Context(), start, []string{waiting}), journal.ErrTooManyPings, "the one that made room")
}
