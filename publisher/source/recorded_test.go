package source

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/publisher"
	"github.com/rshub/rshub/resourcesync"
)

// The hook gets each change once, with and without a hub, and none again when a hub is added or the Source starts
// again.
func TestRecordedWithoutAHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		x := newBubble(t, func(o *Options) {
			o.Hooks.Recorded = func(set string, changes []Change) {
				for _, c := range changes {
					got = append(got, fmt.Sprint(set, c.Seq, " ", c.Change, " ", c.Resource.Path))
				}
			}
		})
		x.write(map[string]string{"a": "1"})
		x.build()
		if changed := x.Status().Sets[0].Changed; !changed.IsZero() {
			t.Errorf("nothing changed, and the status says %v", changed)
		}
		time.Sleep(time.Second)
		x.write(map[string]string{"a": "2"}) // a scan may report two files in either order
		x.build()
		time.Sleep(time.Second)
		x.write(map[string]string{"b": "1"})
		x.build()
		want := []string{"1 updated a", "2 created b"}
		if !slices.Equal(got, want) {
			t.Errorf("without a hub %q were reported, want %q", got, want)
		}
		if changed := x.Status().Sets[0].Changed; !changed.Equal(snapshotOf(t, x).Last().At) {
			t.Errorf("the status says that it changed at %v", changed)
		}
		x.close()
		withHub(&x.o)
		x.open()
		x.step(onRing(x.sets[0].feed))
		time.Sleep(time.Second)
		x.write(map[string]string{"c": "1"})
		x.build()
		x.step(onRing(x.sets[0].feed))
		if want = append(want, "3 created c"); !slices.Equal(got, want) {
			t.Errorf("when a hub was added %q were reported, want %q", got, want)
		}
	})
}

// Changes that several goroutines record are reported in the order of the log.
func TestRecordedInOrder(t *testing.T) {
	var got []uint64
	o := Options{
		PublicURL: "https://source.example.org/", StateDir: t.TempDir(), Sets: []Set{{Announced: true}},
		Hooks: Hooks{Recorded: func(_ string, changes []Change) {
			for _, c := range changes {
				got = append(got, c.Seq)
			}
		}},
	}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			change := Given{Resource: Resource{URL: fmt.Sprintf("https://example.org/%d", i)}, Change: resourcesync.Updated}
			if _, err := s.Announce("", Announcement{Changes: []Given{change, change}}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if len(got) != 40 || !slices.IsSorted(got) {
		t.Errorf("%v were reported", got)
	}
}

// A relay whose log begins anew after many changes, and whose outbox is new, accepts changes: nothing waits.
func TestLogBegunAnewIsNotFull(t *testing.T) {
	s, err := Open(Options{
		PublicURL: "https://source.example.org/", StateDir: t.TempDir(), Sets: []Set{{Announced: true}},
		Hubs: []publisher.Hub{{URL: "https://hub.example.org/"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // of the test
	if err := s.sets[0].index.restart(time.Now(), place{seq: 2 * mostWaiting}); err != nil {
		t.Fatal(err)
	}
	receipts, err := s.Announce("", Announcement{Changes: []Given{{Resource: Resource{URL: "https://example.org/a"}, Change: resourcesync.Updated}}})
	if err != nil || receipts[0].Err != nil {
		t.Errorf("%v, %+v", err, receipts)
	}
}
