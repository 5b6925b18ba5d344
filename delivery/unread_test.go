package delivery

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/journal"
)

// A body that the store does not give, as on a bad sector, keeps only the lanes waiting that stand
// before it. It is logged once, and they go on when it can be read.
func TestBodyThatCannotBeReadStopsNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, h, logs := hurtBed(t)
		b.subscribe(topicA, cb(0), served)
		h.body = func(_ string, e journal.Entry) error {
			if e.Seq == 1 {
				return errors.New("input/output error")
			}
			return nil
		}
		b.run()
		defer b.end()
		bad := b.publish(t, topicA, make([]byte, 100<<10))
		pass(10 * time.Second)
		b.tell(b.subscribe(topicA, cb(1), served))
		for range 20 {
			b.publish(t, topicA, []byte("small"))
			b.publish(t, topicA, make([]byte, 100<<10))
		}
		h.asked()
		pass(time.Minute)
		if n := len(b.at(cb(1))); n != 40 {
			t.Errorf("the lane beyond it got %d of 40", n)
		}
		if n := h.asked(); n > 100 {
			t.Errorf("%d reads in a minute", n)
		}
		if st := b.d.Stats(); st.Away != 1 || st.Damaged != 0 || len(b.d.Troubles(topicA)) != 1 {
			t.Errorf("%+v, %+v", st, b.d.Troubles(topicA))
		}
		if next := time.Until(b.d.Troubles(topicA)[0].NextLook); next < 0 || next > 2*storeBackoffMost {
			t.Errorf("the store is asked again in %v, says the report", next)
		}
		wantEvents(t, logs, "read_failed")
		h.set(func() { h.body = nil })
		pass(time.Minute)
		if got := b.at(cb(0)); len(got) != 41 || got[0].id != bad.ID.String() {
			t.Errorf("the lane before it got %d of 41", len(got))
		}
		wantEvents(t, logs, "read_recovered")
	})
}
