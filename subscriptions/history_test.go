package subscriptions

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/test/draws"
	"github.com/rshub/rshub/validate"
	"github.com/rshub/rshub/websub"
)

// Random histories: requests of all kinds, callbacks that change their mind,
// topics that are denied, crashes, an operator. Whatever happened, the last
// request decides in the end, generations only rise (invariants 3, 4), and
// nothing waits or is kept that should not be (invariant 12).
func TestRandomHistories(t *testing.T) {
	for seed := range draws.Seeds(40) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			o := Options{LeaseMin: time.Second, ResumeWithin: 10 * time.Minute, Workers: 8, MaxPerHost: 100}
			virtual(t, o, func(t *testing.T, w *world) {
				rnd := rand.New(rand.NewPCG(seed, 0))
				stop := w.run(t)
				for range 150 {
					switch host, cb := someCallback(rnd); rnd.IntN(12) {
					case 0, 1, 2:
						r := subscribe(cb)
						r.Secret = []string{"", "x", "y"}[rnd.IntN(3)]
						r.Lease, r.HasLease = time.Duration(1+rnd.IntN(3000))*time.Second, true
						w.accept(t, r)
					case 3:
						w.accept(t, unsubscribe(cb))
					case 4, 5:
						w.answer(host, []func(*http.Request) (int, string, error){nil, nil, hang, answering(404), answering(500), sluggish}[rnd.IntN(6)])
					case 6:
						w.checking([]func(string) error{nil, func(string) error { return &validate.DeniedError{} }, func(string) error { return errors.New("down") }}[rnd.IntN(3)])
					case 7:
						stop()
						w.restart(o)
						stop = w.run(t)
					case 8:
						if err := w.End(t.Context(), ID(topic, cb), EndRemoved, ""); err != nil && !errors.Is(err, ErrNotFound) {
							t.Error(err)
						}
					case 9:
						w.publish(uint64(rnd.IntN(50)))
					default:
						elapse(time.Duration(rnd.ExpFloat64() * float64(time.Minute)))
					}
				}
				lastWord(t, w, rnd)
				checkRising(t, w.told())
				checkEmpty(t, w.queue)
				stop()
			})
		})
	}
}

// someCallback draws one of six, on three hosts.
func someCallback(rnd *rand.Rand) (host, callback string) {
	host = fmt.Sprintf("h%d.example", rnd.IntN(3))
	return host, fmt.Sprintf("https://%s/%d", host, rnd.IntN(2))
}

// sluggish answers after most of the time it has.
func sluggish(r *http.Request) (int, string, error) {
	time.Sleep(14 * time.Second)
	return echo(r)
}

// lastWord has every callback confirm a last request, and checks that it counts.
func lastWord(t *testing.T, w *world, rnd *rand.Rand) {
	t.Helper()
	w.checking(nil)
	wanted := map[string]websub.SubscribeRequest{}
	for i := range 3 {
		w.answer(fmt.Sprintf("h%d.example", i), nil)
		for j := range 2 {
			cb := fmt.Sprintf("https://h%d.example/%d", i, j)
			r := subscribe(cb)
			r.Secret = fmt.Sprint("last ", rnd.IntN(2))
			if rnd.IntN(3) == 0 {
				r = unsubscribe(cb)
			}
			w.accept(t, r)
			wanted[cb] = r
		}
	}
	elapse(time.Hour)
	for cb, r := range wanted {
		rec := w.record(cb)
		if rec.Request != nil {
			t.Errorf("%s: a request still waits: %+v", cb, rec.Request)
		}
		live := rec.Subscription != nil && rec.Subscription.Live(time.Now())
		if live != (r.Mode == websub.ModeSubscribe) || live && rec.Subscription.Secret != r.Secret {
			t.Errorf("%s: after %s it is %+v", cb, r.Mode, rec.Subscription)
		}
	}
}

// checkRising checks that the changes which delivery is told of come in order.
func checkRising(t *testing.T, told []Subscription) {
	t.Helper()
	last := map[uuid.UUID]Subscription{}
	for _, s := range told {
		if before, ok := last[s.ID]; ok && s.Cursor.Compare(before.Cursor) < 0 {
			t.Errorf("%s: told of %+v after %+v", s.Callback, s.Cursor, before.Cursor)
		}
		last[s.ID] = s
	}
}
