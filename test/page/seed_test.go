package page

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

const (
	// A large hub: this many subscriptions to this many topics, half of them to one.
	largeSubscriptions = 100_000
	largeTopics        = 10_000
	// deepTopic has this many notifications.
	deepNotifications = 2000
	wideTopic         = "https://library.example.org/wide/capabilitylist.xml"
	deepTopic         = "https://library.example.org/deep/capabilitylist.xml"
)

// store is the part of a store that fills it.
type store interface {
	subscriptions.Registry
	journal.Appender
	Close() error
}

// seed fills an empty store as a large hub would, and closes it.
func seed(t *testing.T, s store) {
	t.Helper()
	type one struct {
		topic string
		n     int // subscriptions, then
		deep  int // notifications
	}
	todo := make(chan func() error)
	var workers sync.WaitGroup
	for range 256 {
		workers.Go(func() {
			for do := range todo {
				if err := do(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var heads sync.WaitGroup
	others := largeTopics - 2
	topics := []one{{wideTopic, largeSubscriptions / 2, 3}, {deepTopic, 5, deepNotifications}}
	for i := range others {
		topics = append(topics, one{fmt.Sprintf("https://library.example.org/%05d/capabilitylist.xml", i), largeSubscriptions / 2 / others, 1})
	}
	last := make([]journal.Anchor, len(topics))
	for i, o := range topics {
		heads.Add(1)
		todo <- func() (err error) {
			defer heads.Done()
			last[i], err = fill(t, s, o.topic, o.deep)
			return err
		}
	}
	heads.Wait()
	for i, o := range topics {
		for n := range o.n {
			todo <- func() error {
				sub := subscribed(o.topic, fmt.Sprintf("https://mirror-%d.example.net/notify/%d-%d", n%997, i, n), last[i])
				_, err := s.Update(t.Context(), sub.ID, func(subscriptions.Record) (subscriptions.Record, error) {
					return subscriptions.Record{Subscription: &sub}, nil
				})
				return err
			}
		}
	}
	close(todo)
	workers.Wait()
	if err := s.Close(); err != nil || t.Failed() {
		t.Fatal("filling the store: ", err)
	}
}

// fill appends n notifications to a topic, a minute each, and returns the anchor of the last.
func fill(t *testing.T, s store, topic string, n int) (last journal.Anchor, err error) {
	version, until := journal.Version(""), time.Now().UTC().Truncate(time.Minute).Add(-time.Duration(n)*time.Minute)
	for i := range n {
		from := until
		until = from.Add(time.Minute)
		body := []byte(document(from, until, "https://library.example.org/items/"+fmt.Sprint(i)))
		e, err := s.Append(t.Context(), time.Now(), topic, journal.Entry{
			From: from, Until: until, Kind: journal.KindChange, MediaType: "application/xml", Counts: journal.Counts{Created: 1},
			SHA256: sha256.Sum256(body), Size: int64(len(body)), Body: body,
		}, version)
		if err != nil {
			return last, err
		}
		last = e.Anchor()
		head, err := s.Head(t.Context(), topic)
		if err != nil {
			return last, err
		}
		version = head.Version
	}
	return last, nil
}

// subscribed is a subscription that got everything up to an anchor.
func subscribed(topic, callback string, last journal.Anchor) subscriptions.Subscription {
	now := time.Now()
	return subscriptions.Subscription{
		ID: subscriptions.ID(topic, callback), Topic: topic, Callback: callback, Secret: "a secret",
		CreatedAt: now, VerifiedAt: now, ExpiresAt: now.Add(240 * time.Hour), Start: last,
		Cursor: journal.Cursor{Generation: journal.MintGeneration(0, now), Anchor: last},
	}
}
