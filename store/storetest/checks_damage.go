package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
)

// Damage is a way in which what is stored of an entry is damaged.
type Damage int

// The ways.
const (
	DamagedEntry Damage = iota // it is there and cannot be read
	MissingEntry               // it is not there, though it was never trimmed
	DamagedBody                // a byte of its body is another
	ShortBody                  // the end of its body is missing
	MissingBody                // its body is missing, and the place for it is there
)

func (d Damage) String() string {
	return [...]string{"a damaged entry", "a missing entry", "a damaged body", "a short body", "a missing body"}[d]
}

// ofEntry tells whether the entry itself is damaged, and not only its body.
func (d Damage) ofEntry() bool { return d <= MissingEntry }

var everyDamage = []Damage{DamagedEntry, MissingEntry, DamagedBody, ShortBody, MissingBody}

// largeBody is one that no store keeps with its entry, nor can compress.
var largeBody = sync.OnceValue(func() string {
	b := make([]byte, 640<<10)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b)
	return string(b)
})

// damagedError returns the *journal.DamagedError in err.
func (k *kit) damagedError(what string, err error) *journal.DamagedError {
	k.Helper()
	var d *journal.DamagedError
	if !errors.As(err, &d) || !errors.Is(err, journal.ErrDamaged) {
		k.Fatalf("%s: %v, want a *journal.DamagedError", what, err)
	}
	return d
}

// damage damages an entry of a topic of its own, which has three. The name of the
// topic says what is damaged.
func (k *kit) damage(d Damage, i int) (topic string, entries []journal.Entry) {
	k.Helper()
	topic = fmt.Sprintf("https://source.example/%s/%d", strings.ReplaceAll(d.String(), " ", "-"), i)
	for n := range 3 {
		body := fmt.Sprint("body ", n)
		if n == i && !d.ofEntry() {
			body = largeBody()
		}
		entries = append(entries, k.add(topic, at(n+1), timed(n, n+1, body)))
	}
	k.ok(k.h.Damage(topic, entries[i], d), "damaging "+topic)
	return topic, entries
}

var damageChecks = []Check{
	{"DamagedEntryCanBePassedOver", func(k *kit) {
		if k.h.Damage == nil {
			return
		}
		for _, d := range everyDamage {
			for i := range 3 {
				topic, entries := k.damage(d, i)
				if i > 0 {
					k.same(topic+": what comes before", k.read(topic, journal.Anchor{}), entries[:i])
				}
				var before journal.Anchor
				if i > 0 {
					before = entries[i-1].Anchor()
				}
				_, err := k.h.Read(k.Context(), topic, before, 10, 1<<30)
				got := k.damagedError(topic+": Read", err)
				whole := entries[i].Anchor()
				if got.At.Seq != whole.Seq || !got.At.Until.Equal(whole.Until) {
					k.Errorf("%s: it is at %+v, and was at %+v", topic, got.At, whole)
				}
				if got.ID != uuid.Nil && got.ID != entries[i].ID {
					k.Errorf("%s: its id is %v, and was %v", topic, got.ID, entries[i].ID)
				}
				k.same(topic+": what comes after", k.read(topic, got.At), entries[i+1:])
				if d == DamagedEntry {
					k.same(topic+": what comes after its true anchor", k.read(topic, whole), entries[i+1:])
				}
			}
		}
	}},
	{"DamagedBodyIsNotHandedOut", func(k *kit) {
		if k.h.Damage == nil {
			return
		}
		for _, d := range everyDamage {
			topic, entries := k.damage(d, 1)
			if !d.ofEntry() {
				got, err := k.h.Read(k.Context(), topic, journal.Anchor{}, 10, 0)
				k.ok(err, topic+": Read without bodies")
				k.same(topic+": entries", len(got), 3)
			}
			if d != MissingEntry { // which cannot be told from one that was trimmed
				_, err := k.h.Body(k.Context(), topic, entries[1])
				if got := k.damagedError(topic+": Body", err); got.At != entries[1].Anchor() {
					k.Errorf("%s: Body: it is at %+v", topic, got.At)
				}
			}
			if d.ofEntry() {
				_, _, err := k.h.Find(k.Context(), entries[1].ID)
				_ = k.damagedError(topic+": Find", err)
			}
			for _, e := range []journal.Entry{entries[0], entries[2]} {
				body, err := k.h.Body(k.Context(), topic, e)
				k.ok(err, topic+": the body of another")
				k.same(topic+": the body of another", body, e.Body)
			}
		}
		// A small body is next to its entry, or with it.
		e := k.fill(topicName, 1)[0]
		k.ok(k.h.Damage(topicName, e, DamagedBody), "damaging a small body")
		_, err := k.h.Read(k.Context(), topicName, journal.Anchor{}, 10, 1<<30)
		_ = k.damagedError("Read of a small body", err)
		_, err = k.h.Body(k.Context(), topicName, e)
		_ = k.damagedError("a small body", err)
	}},
	{"DamageDoesNotStopTrim", func(k *kit) {
		if k.h.Damage == nil {
			return
		}
		for _, d := range everyDamage {
			for i := range 3 {
				for _, cut := range []journal.Cut{{Before: at(4), KeepBytes: -1}, {KeepBytes: 0}} {
					topic := fmt.Sprintf("https://source.example/trim/%d/%d/%d", d, i, cut.KeepBytes)
					entries := k.fill(topic, 3)
					k.ok(k.h.Damage(topic, entries[i], min(d, DamagedBody)), "damaging "+topic)
					last := k.head(topic).Last
					h, err := k.h.Trim(k.Context(), topic, cut)
					k.ok(err, topic+": Trim")
					if h.Entries != 0 || h.Bytes != 0 || h.Trimmed != last {
						k.Errorf("%s: Trim left %d entries of %d bytes, trimmed is %+v of %+v", topic, h.Entries, h.Bytes, h.Trimmed, last)
					}
					next := k.add(topic, at(9), timed(3, 4, "next"))
					k.same(topic+": what comes after", k.read(topic, last), []journal.Entry{next})
				}
			}
		}
	}},
	// What is left is counted as it is, and cursors on both sides go on.
	{"TrimUpToDamage", func(k *kit) {
		if k.h.Damage == nil {
			return
		}
		for _, d := range []Damage{DamagedEntry, MissingEntry} {
			topic := fmt.Sprintf("https://source.example/up-to/%d", d)
			entries := k.fill(topic, 4)
			k.ok(k.h.Damage(topic, entries[1], d), "damaging "+topic)
			_, err := k.h.Read(k.Context(), topic, entries[0].Anchor(), 10, 1<<30)
			passed := k.damagedError(topic+": Read", err).At
			// Received in the year of the position, for one that cannot be read.
			h, err := k.h.Trim(k.Context(), topic, journal.Cut{Before: entries[2].ReceivedAt.Add(1), KeepBytes: -1})
			k.ok(err, "Trim")
			size := entries[3].Size
			if h.Entries != 1 || h.Trimmed != entries[2].Anchor() || h.Bytes != size && d == DamagedEntry {
				k.Errorf("%s: Trim left %d entries of %d bytes, want 1 of %d; trimmed is %+v", topic, h.Entries, h.Bytes, size, h.Trimmed)
			}
			_, err = k.h.Read(k.Context(), topic, passed, 10, 100)
			if !errors.As(err, new(*journal.TrimmedError)) {
				k.Errorf("%s: Read after a damaged entry that was trimmed: %v", topic, err)
			}
			k.same(topic+": what is left", k.read(topic, h.Trimmed), entries[3:])
		}
	}},
	// The sizes of entries that are gone take no other one away.
	{"TrimByBytesBesideMissingEntries", func(k *kit) {
		if k.h.Damage == nil {
			return
		}
		entries := k.fill(topicName, 5)
		for _, i := range []int{1, 2} {
			k.ok(k.h.Damage(topicName, entries[i], MissingEntry), "damaging an entry")
		}
		h, err := k.h.Trim(k.Context(), topicName, journal.Cut{Before: entries[0].ReceivedAt.Add(1), KeepBytes: entries[3].Size + entries[4].Size})
		k.ok(err, "Trim")
		if want := entries[3].Size + entries[4].Size; h.Bytes != want || k.head(topicName).Bytes != want {
			k.Errorf("Trim left %d entries of %d bytes, want %d bytes", h.Entries, h.Bytes, want)
		}
		_, err = k.h.Read(k.Context(), topicName, h.Trimmed, 10, 1<<30)
		at := h.Trimmed
		if next, ok := journal.ReadOn(err); ok {
			at = next
		}
		k.same("what is left", k.read(topicName, at), entries[3:])
	}},
}
