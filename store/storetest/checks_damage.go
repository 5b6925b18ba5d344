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

// Damage is a way to damage a stored entry.
type Damage int

// The ways.
const (
	DamagedEntry Damage = iota // it is there but cannot be read
	MissingEntry               // it is not there, but was never trimmed
	DamagedBody                // a byte of its body is changed
	ShortBody                  // the end of its body is missing
	MissingBody                // its body is missing, but the entry is there
)

func (d Damage) String() string {
	return [...]string{"a damaged entry", "a missing entry", "a damaged body", "a short body", "a missing body"}[d]
}

// ofEntry reports whether the entry itself is damaged, and not only its body.
func (d Damage) ofEntry() bool { return d <= MissingEntry }

var everyDamage = []Damage{DamagedEntry, MissingEntry, DamagedBody, ShortBody, MissingBody}

// largeBody is a body that no store keeps with its entry, and that does not compress.
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

// damage makes a topic with three entries and damages one of them. The name of the topic says
// what is damaged.
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

// ifDamaged leaves a check out where the store under test cannot be damaged.
func ifDamaged(check func(k *kit)) func(k *kit) {
	return func(k *kit) {
		if k.h.Damage != nil {
			check(k)
		}
	}
}

// damagedAt reads after an anchor and returns the *journal.DamagedError of that.
func (k *kit) damagedAt(topic string, after journal.Anchor) *journal.DamagedError {
	k.Helper()
	return k.damagedError(topic+": Read", errOf(k.h.Read(k.Context(), topic, after, 10, 1<<30)))
}

var damageChecks = []Check{
	{"DamagedEntryCanBePassedOver", ifDamaged(func(k *kit) {
		for _, d := range everyDamage {
			for i := range 3 {
				topic, entries := k.damage(d, i)
				var before journal.Anchor
				if i > 0 {
					k.same(topic+": what comes before", k.read(topic, before), entries[:i])
					before = entries[i-1].Anchor()
				}
				got := k.damagedAt(topic, before)
				whole := entries[i].Anchor()
				k.expect(got.At.Seq == whole.Seq && got.At.Until.Equal(whole.Until), "%s: it is at %+v, and was at %+v", topic, got.At, whole)
				k.expect(got.ID == uuid.Nil || got.ID == entries[i].ID, "%s: its id is %v, and was %v", topic, got.ID, entries[i].ID)
				k.same(topic+": what comes after", k.read(topic, got.At), entries[i+1:])
				if d == DamagedEntry {
					k.same(topic+": what comes after its true anchor", k.read(topic, whole), entries[i+1:])
				}
			}
		}
	})},
	{"DamagedBodyIsNotHandedOut", ifDamaged(func(k *kit) {
		for _, d := range everyDamage {
			topic, entries := k.damage(d, 1)
			if !d.ofEntry() {
				k.same(topic+": entries", len(call(k.h.Read(k.Context(), topic, journal.Anchor{}, 10, 0)).must(k, topic+": Read without bodies")), 3)
			}
			if d != MissingEntry { // it looks like one that was trimmed
				got := k.damagedError(topic+": Body", errOf(k.h.Body(k.Context(), topic, entries[1])))
				k.same(topic+": Body: the place of the damage", got.At, entries[1].Anchor())
			}
			if d.ofEntry() {
				_ = k.damagedError(topic+": Find", find(k.Context(), k.h, entries[1].ID).err)
			}
			for _, e := range []journal.Entry{entries[0], entries[2]} {
				k.same(topic+": the body of another", call(k.h.Body(k.Context(), topic, e)).must(k, topic+": Body of another"), e.Body)
			}
		}
		// A store may keep a small body together with its entry.
		e := k.fill(topicName, 1)[0]
		k.ok(k.h.Damage(topicName, e, DamagedBody), "damaging a small body")
		_ = k.damagedAt(topicName, journal.Anchor{})
		_ = k.damagedError("a small body", errOf(k.h.Body(k.Context(), topicName, e)))
	})},
	{"DamageDoesNotStopTrim", ifDamaged(func(k *kit) {
		for _, d := range everyDamage {
			for i := range 3 {
				for _, cut := range []journal.Cut{{Before: at(4), KeepBytes: -1}, {KeepBytes: 0}} {
					topic := fmt.Sprintf("https://source.example/trim/%d/%d/%d", d, i, cut.KeepBytes)
					entries := k.fill(topic, 3)
					k.ok(k.h.Damage(topic, entries[i], min(d, DamagedBody)), "damaging "+topic)
					last := k.head(topic).Last
					h := call(k.h.Trim(k.Context(), topic, cut)).must(k, topic+": Trim")
					k.expect(h.Entries == 0 && h.Bytes == 0 && h.Trimmed == last, "%s: Trim left %d entries of %d bytes, trimmed is %+v of %+v", topic, h.Entries, h.Bytes, h.Trimmed, last)
					next := k.add(topic, at(9), timed(3, 4, "next"))
					k.same(topic+": what comes after", k.read(topic, last), []journal.Entry{next})
				}
			}
		}
	})},
	// The head counts only what is left, and cursors on both sides go on.
	{"TrimUpToDamage", ifDamaged(func(k *kit) {
		for _, d := range []Damage{DamagedEntry, MissingEntry} {
			topic := fmt.Sprintf("https://source.example/up-to/%d", d)
			entries := k.fill(topic, 4)
			k.ok(k.h.Damage(topic, entries[1], d), "damaging "+topic)
			passed := k.damagedAt(topic, entries[0].Anchor()).At
			// Received in the year of the position, for one that cannot be read.
			h := call(k.h.Trim(k.Context(), topic, journal.Cut{Before: entries[2].ReceivedAt.Add(1), KeepBytes: -1})).must(k, "Trim")
			size := entries[3].Size
			k.expect(h.Entries == 1 && h.Trimmed == entries[2].Anchor() && (h.Bytes == size || d != DamagedEntry), "%s: Trim left %d entries of %d bytes, want 1 of %d; trimmed is %+v", topic, h.Entries, h.Bytes, size, h.Trimmed)
			k.trimmedAs("after a damaged entry that was trimmed", topic, passed, journal.TrimmedError{To: h.Trimmed, Reason: journal.GapRetention})
			k.same(topic+": what is left", k.read(topic, h.Trimmed), entries[3:])
		}
	})},
	// The sizes of missing entries cause no other entry to be trimmed.
	{"TrimByBytesBesideMissingEntries", ifDamaged(func(k *kit) {
		entries := k.fill(topicName, 5)
		for _, i := range []int{1, 2} {
			k.ok(k.h.Damage(topicName, entries[i], MissingEntry), "damaging an entry")
		}
		h := k.trim(journal.Cut{Before: entries[0].ReceivedAt.Add(1), KeepBytes: entries[3].Size + entries[4].Size})
		k.same("the bytes that Trim left", h.Bytes, entries[3].Size+entries[4].Size)
		k.same("the bytes that the head counts", k.head(topicName).Bytes, h.Bytes)
		at := h.Trimmed
		if next, ok := journal.ReadOn(errOf(k.h.Read(k.Context(), topicName, at, 10, 1<<30))); ok {
			at = next
		}
		k.same("what is left", k.read(topicName, at), entries[3:])
	})},
}
