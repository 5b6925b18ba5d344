package destination_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/destination"
)

func beside(o *destination.Options) { o.Beside = true }

// An audit works beside a copy that is followed, without writing anything: nothing that is
// half done counts as missing while changes come all the time, and what is wrong is found.
func TestAuditBesideFollow(t *testing.T) {
	s := newSource(t)
	for i := range 50 {
		s.put(fmt.Sprint("f", i), "first", 0)
	}
	p := followWith(t, s, []string{resourcesync.ResourceList}, soon)
	callback := p.subscribed()
	done := make(chan struct{})
	var pushing sync.WaitGroup
	pushing.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
			}
			name := fmt.Sprint("f", n%50)
			s.put(name, fmt.Sprint("body ", n), 0)
			p.push(callback, p.entryOf(name, resourcesync.Updated))
		}
	})
	c := s.open(p.dir, beside)
	r, err := c.Audit(t.Context(), false)
	if err != nil || r.Missing != 0 || r.Extra != 0 {
		t.Errorf("while changes come: %v %+v", err, r)
	}
	close(done)
	pushing.Wait()
	if _, err := c.Audit(t.Context(), true); !errors.Is(err, destination.ErrInUse) {
		t.Errorf("a repair: %v", err)
	}
	if r, err = c.Audit(t.Context(), false); err != nil || !r.InSync || r.Equal != 50 {
		t.Errorf("when all is quiet: %v %+v", err, r)
	}
	if err := os.Remove(filepath.Join(p.dir, "f7")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.dir, "stray"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err = c.Audit(t.Context(), false)
	if err != nil || r.InSync || r.Missing != 1 || r.Extra != 1 || r.Equal != 49 || len(r.Findings) != 2 {
		t.Errorf("with something wrong: %v %+v", err, r)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(p.dir, ".rssub", "audit-*")); len(left) != 0 {
		t.Errorf("%q are left over", left)
	}
}

// A resource that is being fetched is under way, and not missing. What is done until it is
// looked at again is right.
func TestAuditOfWhatIsUnderWay(t *testing.T) {
	s := newSource(t)
	s.put("a", "a", 0)
	p := followWith(t, s, []string{resourcesync.ResourceList}, soon)
	callback := p.subscribed()
	var first sync.Once
	began, answer := make(chan struct{}), make(chan struct{})
	s.put("slow", "slow", 0)
	s.set("/data/slow", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, "sl")
		_ = http.NewResponseController(w).Flush()
		first.Do(func() { close(began) })
		<-answer
		_, _ = fmt.Fprint(w, "ow")
	})
	p.push(callback, p.entryOf("slow", resourcesync.Created))
	<-began
	partly := func() bool {
		parts, _ := filepath.Glob(filepath.Join(p.dir, ".rssub", "parts", "*"))
		return len(parts) > 0
	}
	for patience := time.Now().Add(within); !partly() && time.Now().Before(patience); {
		time.Sleep(time.Millisecond)
	}
	var once sync.Once
	c := s.open(p.dir, beside, func(o *destination.Options) {
		o.Progress = func(at destination.Progress) {
			if at.Finished {
				once.Do(func() {
					close(answer)
					for e := range p.events { // pushed or listed, whichever came first
						if e.What == destination.Copied && e.Path == "slow" {
							return
						}
					}
				})
			}
		}
	})
	r, err := c.Audit(t.Context(), false)
	if err != nil || !r.InSync || r.Equal != 2 || r.Missing != 0 || r.UnderWay != 0 {
		t.Errorf("%v %+v", err, r)
	}
}

// A resource that was pushed before the Source's lists have it is not extra, nor does it
// differ from what they still say; a repair leaves it as it is.
func TestAuditOfWhatListsHaveNotYet(t *testing.T) {
	s := newSource(t)
	s.put("a", "first", 0)
	s.freezeList()
	p := follow(t, s)
	callback := p.subscribed()
	s.put("a", "second", 0)
	p.happens(destination.Copied, "a", p.push(callback, p.entryOf("a", resourcesync.Updated)))
	s.put("new", "new", 0)
	p.happens(destination.Copied, "new", p.push(callback, p.entryOf("new", resourcesync.Created)))
	p.end()
	c := s.open(p.dir)
	r, err := c.Audit(t.Context(), true)
	if err != nil || !r.InSync || r.Equal != 2 || r.Repaired != nil {
		t.Errorf("%v %+v", err, r)
	}
	p.same()
	// What is wrong by what was pushed is found all the same.
	if err := os.WriteFile(filepath.Join(p.dir, "a"), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err = c.Audit(t.Context(), true); err != nil || !r.InSync || r.Repaired == nil || r.Repaired.Copied != 1 {
		t.Errorf("%v %+v", err, r)
	}
	p.same()
}
