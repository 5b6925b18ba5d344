package storetest

import (
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// RunFull checks a store that is full between fill and room: it refuses with ErrFull what
// strangers can make it store, it goes on with what makes room or delivers, it loses
// nothing, and it works again afterwards. The store is empty.
func RunFull(t T, s Store, fill, room func() error) {
	k := &kit{T: t, h: &Harness{Store: s}}
	entries := k.fill(topicName, 3)
	sub, ending := k.subscribed(1), k.subscribed(2)
	head := k.head(topicName)
	newcomer := subscription(3)
	refused := map[string]func() error{
		"Append": func() error {
			return errOf(s.Append(t.Context(), at(10), topicName, timed(3, 4, "refused"), head.Version))
		},
		"the first Append of a topic": func() error {
			return errOf(s.Append(t.Context(), at(10), topicName+"new", timed(0, 1, "refused"), ""))
		},
		"Ping": func() error { return s.Ping(t.Context(), at(10), []string{topicName + "new"}) },
		"a request": func() error {
			return errOf(s.Update(t.Context(), newcomer.ID, func(subscriptions.Record) (subscriptions.Record, error) {
				return subscriptions.Record{Request: request(newcomer)}, nil
			}))
		},
		"Room": func() error { return s.Room(t.Context()) },
	}
	k.ok(refused["Room"](), "Room, before the store is full")
	k.ok(fill(), "filling the store")
	for what, refuse := range refused {
		k.fails(refuse(), journal.ErrFull, "%s in a full store", what)
	}
	k.same("the head", k.head(topicName), head)
	k.same("what can be read", k.read(topicName, journal.Anchor{}), entries)
	k.same("the head of a refused topic", k.head(topicName+"new").Version, journal.Version(""))
	k.same("the record of a refused request", k.get(newcomer.ID), subscriptions.Record{})

	// Deliveries go on, subscriptions end, and old entries are trimmed.
	sub.Cursor = moved(sub.Cursor, 1)
	k.commit(subscriptions.Commit{ID: sub.ID, Cursor: sub.Cursor})
	k.same("the cursor", k.get(sub.ID).Subscription.Cursor, sub.Cursor)
	k.set(ending.ID, subscriptions.Record{})
	k.same("the ended subscription", k.get(ending.ID), subscriptions.Record{})
	k.trim(journal.Cut{Before: entries[0].ReceivedAt.Add(1), KeepBytes: -1})

	k.ok(room(), "making room")
	k.eventually("Room", func() bool { return s.Room(t.Context()) == nil })
	k.add(topicName, at(11), timed(3, 4, "accepted"))
	k.add(topicName+"new", at(11), timed(0, 1, "accepted"))
	k.ok(refused["Ping"](), "Ping, when there is room")
	k.ok(refused["a request"](), "a request, when there is room")
	k.expect(k.get(newcomer.ID).Request != nil, "the request is not stored")
	k.same("the last seq", k.head(topicName).Last.Seq, uint64(4))
}
