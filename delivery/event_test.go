package delivery

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/journal"
)

// Each attempt is one event with its outcome, and so is each gap.
func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var got []Event
		var gaps []journal.Gap
		b := newBed(t, func(o *Options) {
			o.Event = func(e Event) { mu.Lock(); defer mu.Unlock(); got = append(got, e) }
			o.Gap = func(g journal.Gap) { mu.Lock(); defer mu.Unlock(); gaps = append(gaps, g) }
		})
		sub := b.subscribe(topicA, cb(0))
		answer := []int{500, 413, 413, 413, 413, 200, 410}
		b.set(cb(0), func(*http.Request, []byte) (*http.Response, error) {
			code := answer[0]
			answer = answer[1:]
			time.Sleep(time.Second)
			return status(code), nil
		})
		b.run()
		defer b.end()
		one := b.publish(t, topicA, []byte("one"))
		two := b.publish(t, topicA, []byte("a second one"))
		three := b.publish(t, topicA, []byte("three"))
		pass(time.Hour)

		first := got[0]
		if first.SubscriptionID != sub.ID || first.NotificationID != one.ID || first.Topic != topicA ||
			first.CallbackHost != "h0.example:80" || first.Duration != time.Second ||
			!first.ReceivedAt.Equal(one.ReceivedAt) || first.Bytes != 3 || first.Start.IsZero() {
			t.Errorf("the first attempt: %+v", first)
		}
		var short []string
		for _, e := range got {
			short = append(short, fmt.Sprintf("%d %s %d", e.Attempt, e.Outcome, e.Status))
		}
		want := "[1 retry 500 2 retry 413 3 retry 413 4 retry 413 5 passed_over 413 1 delivered 200 1 ended 410]"
		if fmt.Sprint(short) != want {
			t.Errorf("attempts\n got %v\nwant %v", short, want)
		}
		if got[5].NotificationID != two.ID || got[5].Bytes != 12 || got[6].NotificationID != three.ID {
			t.Errorf("the last two were of %v and %v", got[5].NotificationID, got[6].NotificationID)
		}
		if len(gaps) != 2 || gaps[0].Reason != journal.GapGaveUp || gaps[0].Count != 1 || gaps[1].Reason != journal.GapGone {
			t.Errorf("gaps %+v", gaps)
		}
	})
}

// The event of an attempt that does not count says so.
func TestEventsOfWhatDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := make(chan Event, 4)
		b := newBed(t, func(o *Options) { o.Event = func(e Event) { events <- e }; o.Drain = 0 })
		sub := b.subscribe(topicA, cb(0))
		b.set(cb(0), takes(5*time.Second))
		b.run()
		b.publish(t, topicA, []byte("one"))
		pass(time.Second)
		sub.Cursor.Generation++ // a replay
		b.d.Apply(sub)
		pass(5 * time.Second)
		if e := <-events; e.Outcome != OutcomeSuperseded || e.Status != 200 {
			t.Errorf("after a replay: %+v", e)
		}
		b.end() // while it is delivered again
		if e := <-events; e.Outcome != OutcomeCutOff || e.Status != 0 {
			t.Errorf("cut off: %+v", e)
		}
	})
}
