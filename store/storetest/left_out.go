package storetest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
)

// RunLeftOut runs the checks of a topic whose head and ping record cannot be read: they hide no
// other where there is somebody to tell, told, and else are an error. Damage damages
// both, and silence takes told away.
func RunLeftOut(t *testing.T, s Store, told map[uuid.UUID]error, damage func(partition int, id uuid.UUID) error, silence func()) {
	const partition = 7
	k := &kit{T: t, h: &Harness{Store: s}}
	var topics []string
	for n := 0; len(topics) < 5; n++ {
		if name := fmt.Sprint(topicName, n); journal.Partition(journal.TopicID(name)) == partition {
			topics = append(topics, name)
			k.add(name, at(1), timed(0, 1, "x"))
		}
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
	if heads, pings, err := list(); heads != 4 || pings != 4 || err != nil || len(told) != 1 || !errors.Is(told[bad], journal.ErrPacked) {
		t.Errorf("%d heads and %d ping records, %v, told of %v", heads, pings, err, told)
	}
	silence()
	if _, _, err := list(); !errors.Is(err, journal.ErrPacked) {
		t.Errorf("with nobody to tell: %v", err)
	}
	if err := s.Ping(t.Context(), start, []string{topics[1], topics[0], topicName + "new"}); err != nil {
		t.Errorf("pings beside a damaged ping record: %v", err)
	}
}
