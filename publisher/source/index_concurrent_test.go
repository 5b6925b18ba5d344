package source

import (
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// Writers share commits, and a snapshot between them has exactly the changes up to its last one:
// its resources are what these changes make.
func TestSnapshotsAmongConcurrentWrites(t *testing.T) {
	x, err := OpenIndex(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = x.Close() }()
	if err := x.Begin(time.Now()); err != nil {
		t.Fatal(err)
	}
	const writers, each = 8, 30
	var writing, reading sync.WaitGroup
	done := make(chan struct{})
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				g := Given{Resource: Resource{URL: fmt.Sprintf("https://example.org/%d/%d", w, i%7), Length: int64(i)}}
				if i%5 == 4 {
					g.Change = resourcesync.Deleted
				}
				if _, err := x.Apply(time.Now(), g); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 3 {
		reading.Go(func() {
			for last := false; !last; {
				select {
				case <-done:
					last = true
				default:
				}
				if err := x.read(compareWithLog); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writing.Wait()
	close(done)
	reading.Wait()
	if n := x.state().last.seq; n != writers*each {
		t.Errorf("there are %d changes, and %d were applied", n, writers*each)
	}
}

// compareWithLog returns an error if the resources of a snapshot are not what its log makes.
func compareWithLog(snap *Snapshot) error {
	time.Sleep(time.Millisecond) // for others to write
	want, got := map[string]int64{}, map[string]int64{}
	for c, err := range snap.Changes(0) {
		if err != nil {
			return err
		}
		if want[c.Resource.Key()] = c.Resource.Length; c.Change.Removes() {
			delete(want, c.Resource.Key())
		}
	}
	for r, err := range snap.Resources() {
		if err != nil {
			return err
		}
		got[r.Key()] = r.Length
	}
	if !maps.Equal(want, got) || snap.Len() != len(got) {
		return fmt.Errorf("a snapshot up to change %d has %v (%d), and the log makes %v", snap.Last().Seq, got, snap.Len(), want)
	}
	return nil
}
