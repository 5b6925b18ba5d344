package e2e

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/test/redistest"
)

// damageFault deletes an entry from the middle of a topic's journal while all callbacks still wait for
// it. The hubs do not know. It is passed over after nemesisGiveUp,
// with a gap. The newest entry stays: without that one the tail is lost. So do those that callbacks have
// accepted: to one that has its place there, the loss of the entry looks like that of the tail. (The hubs may
// still deliver the next one from their memory.)
func (m *nemesis) damageFault(servers func() []*redistest.Server, prefix string) fault {
	return fault{name: "entry damaged", gaps: []string{journal.GapDamaged}, begin: func() func() {
		m.hold()
		topic := m.rnd.IntN(len(m.c.topics))
		m.mu.Lock()
		accepted := len(m.c.topics[topic].intervals)
		m.mu.Unlock()
		time.Sleep(m.between(300*time.Millisecond, time.Second)) // the Sources publish
		if n, ok := m.damage(servers(), prefix, topic, accepted); ok {
			m.t.Logf("interval %d of topic %d", n, topic)
		}
		m.release()
		return nil
	}}
}

// damage deletes one of the newest entries of a topic, and returns which interval it
// has: from is the first that may be deleted. False: there is none, or no server that is a master now has it.
func (m *nemesis) damage(servers []*redistest.Server, prefix string, topic, from int) (n int, ok bool) {
	const newest = 10
	id := uuid.NewSHA1(uuid.NameSpaceURL, []byte(m.c.topics[topic].url))
	key := fmt.Sprintf("%s:{p:%d}:entries:%v", prefix, shardOf(id), id)
	for _, s := range servers {
		got, err := s.Try("XREVRANGE", key, "+", "-", "COUNT", fmt.Sprint(newest))
		entries, _ := got.([]any)
		if err != nil || len(entries) < 2 {
			continue
		}
		_, last := m.entryIn(entries[0])
		choices := min(last-from, len(entries)-1)
		if choices < 1 {
			continue
		}
		at, n := m.entryIn(entries[1+m.rnd.IntN(choices)])
		if n < from { // others between were deleted before
			continue
		}
		m.mu.Lock()
		m.c.topics[topic].damaged[n] = true
		m.mu.Unlock()
		if gone, err := s.Try("XDEL", key, at); err == nil && gone == int64(1) {
			return n, true
		} else if err != nil && !strings.HasPrefix(err.Error(), "READONLY") {
			m.t.Logf("the entry could not be taken away: %v", err)
		}
	}
	return 0, false
}

// entryIn reads an element of what XRANGE answers: where it is, and which interval it has.
func (m *nemesis) entryIn(v any) (at string, n int) {
	m.t.Helper()
	at, packed := streamEntry(v)
	e, err := journal.UnpackEntry([]byte(packed))
	if err != nil {
		m.t.Fatal(err)
	}
	return at, number(e.From)
}

// streamEntry reads an element of what XRANGE answers: where it is, and what the
// store has in the field e.
func streamEntry(v any) (at, packed string) {
	entry, _ := v.([]any)
	if len(entry) != 2 {
		return "", ""
	}
	at, _ = entry[0].(string)
	fields, _ := entry[1].([]any)
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] == "e" {
			packed, _ = fields[i+1].(string)
		}
	}
	return at, packed
}
