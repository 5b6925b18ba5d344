package publisher

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/validate"
)

// A Source and a hub agree on how far ahead of the clock an interval may end.
func TestMaxAheadIsThatOfHubs(t *testing.T) {
	if MaxAhead != validate.MaxAhead {
		t.Errorf("a Source says %v, a hub %v", MaxAhead, validate.MaxAhead)
	}
}

// The hub is ahead of an outbox that was restored from a backup: nothing is sent
// to it, and everybody is told, until somebody decides.
func TestHubAheadIsNotGuessed_SRC09(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, hubA, hubB)
		p := b.open(nil)
		stop := b.running(p)
		b.record(p, 0, 10, together)
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		stop()
		saved := filepath.Join(t.TempDir(), "saved")
		if err := os.CopyFS(saved, os.DirFS(b.dir)); err != nil {
			t.Fatal(err)
		}
		only := func(o *Options) { o.Hubs = o.Hubs[:1] } // hub B knows nothing of what follows
		p = b.open(only)
		stop = b.running(p)
		b.record(p, 10, 20, together)
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		expected := p.Status().Until
		stop()

		time.Sleep(time.Minute)
		b.dir = saved
		p = b.open(nil)
		stop = b.running(p)
		b.record(p, 20, 25, together) // as if 10 to 20 were lost at the source too
		err := p.Flush(t.Context())
		st := b.hubStatus(p, hubA)
		if err == nil || !strings.Contains(err.Error(), hubA) || st.State != Stopped || !st.Expected.Equal(expected) || !strings.Contains(st.Stopped, "Resume") {
			t.Fatalf("%v, %+v", err, st)
		}
		if other := b.hubStatus(p, hubB); other.State != UpToDate {
			t.Errorf("the other hub: %+v", other)
		}
		if log := b.logged(); !strings.Contains(log, "level=ERROR") || strings.Count(log, "event=hub_stopped") != 1 {
			t.Errorf("the log: %s", log)
		}
		posts := b.hubs[hubA].count()
		time.Sleep(time.Hour)
		if n := b.hubs[hubA].count(); n != posts {
			t.Errorf("%d more posts while it is stopped", n-posts)
		}
		if err := p.Resume(t.Context(), hubA, b.hubs[hubA].journal()[0].From.Add(1)); err == nil || !strings.Contains(err.Error(), "no interval begins") {
			t.Errorf("resuming within an interval that it has: %v", err)
		}
		if err := p.Resume(t.Context(), "https://c.example/", expected); err == nil {
			t.Error("resuming a hub that is none")
		}
		// Its last notification stays the last, and what comes next goes on there: the
		// hub lacks 20 to 25, as it was decided.
		from := p.Status().Until
		b.hubs[hubA].set(func(h *bedHub) { resetTopic(t, h) })
		if err := p.Resume(t.Context(), hubA, from); err != nil {
			t.Fatal(err)
		}
		b.record(p, 25, 30, together)
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		entries := b.hubs[hubA].journal()
		if last := entries[len(entries)-1]; !last.From.Equal(from) || len(entries) != 3 {
			t.Errorf("%d intervals, the last from %v", len(entries), last.From)
		}
		if got := b.hubs[hubB].journal(); len(got) != 3 {
			t.Errorf("the other hub has %d intervals", len(got))
		}
		stop()
	})
}

// An outbox that was restored goes on where the hub is, within an interval that was cut meanwhile: the hub gets
// what changed since, and another hub the whole.
func TestResumeWithinAnInterval_SRC09(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, hubA, hubB)
		p := b.open(nil)
		stop := b.running(p)
		b.record(p, 0, 2, together)
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		stop()
		saved := filepath.Join(t.TempDir(), "saved")
		if err := os.CopyFS(saved, os.DirFS(b.dir)); err != nil {
			t.Fatal(err)
		}
		p = b.open(func(o *Options) { o.Hubs = o.Hubs[:1] })
		stop = b.running(p)
		time.Sleep(time.Minute)
		b.record(p, 2, 4, together)
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		expected := p.Status().Until
		stop()

		b.dir = saved
		p = b.open(nil)
		stop = b.running(p)
		time.Sleep(time.Minute)
		var changes []Change // found before the hub's last one, and after it
		for n, at := range []time.Time{expected.Add(-time.Second), expected, time.Now()} {
			c := Change{At: at}
			c.Entry.Loc, c.Entry.Change = resource(4+n), "updated"
			changes = append(changes, c)
		}
		if err := p.Record(t.Context(), changes...); err != nil {
			t.Fatal(err)
		}
		if err := p.Flush(t.Context()); err == nil || !strings.Contains(err.Error(), hubA) {
			t.Fatal(err)
		}
		if st := b.hubStatus(p, hubA); st.State != Stopped || !st.Expected.Equal(expected) {
			t.Fatalf("%+v", st)
		}
		if err := p.Resume(t.Context(), hubA, expected); err != nil {
			t.Fatal(err)
		}
		b.record(p, 7, 8, together)
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		lengths := func(hub string) (n []int) {
			for _, e := range b.hubs[hub].journal() {
				n = append(n, int(e.Counts.Updated))
			}
			return n
		}
		if got := lengths(hubA); !slices.Equal(got, []int{2, 2, 2, 1}) {
			t.Errorf("the hub that was ahead has intervals of %v changes", got)
		}
		if got := lengths(hubB); !slices.Equal(got, []int{2, 3, 1}) {
			t.Errorf("the other hub has intervals of %v changes", got)
		}
		if st := p.Status(); st.Hubs[0].State != UpToDate || st.Hubs[0].Pending != 0 || st.Hubs[1].State != UpToDate {
			t.Errorf("%+v", st.Hubs)
		}
		stop()
	})
}

// resetTopic does what the operator does with `rshub topic reset`.
func resetTopic(t *testing.T, h *bedHub) {
	t.Helper()
	head, err := h.store.Head(t.Context(), bedTopic)
	if err == nil {
		err = h.store.Reset(t.Context(), bedTopic, head.Version)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Where the hub is ahead of all that was cut, Resume cuts there; nothing that is
// recorded is lost on the other hubs.
func TestResumeAheadOfAllIntervals_SRC09(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, hubA, hubB)
		h := b.hubs[hubA]
		// Another publisher was here before.
		p := b.open(func(o *Options) { o.Dir = filepath.Join(t.TempDir(), "other"); o.Hubs = o.Hubs[:1] })
		stop := b.running(p)
		time.Sleep(time.Minute)
		b.record(p, 0, 3, together)
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		ahead := p.Status().Until
		stop()
		p = b.open(func(o *Options) { o.From = ahead.Add(-time.Hour) })
		stop = b.running(p)
		at := Change{At: ahead.Add(-time.Minute)}
		at.Entry.Loc, at.Entry.Change = resource(0), "updated"
		if err := p.Record(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		if err := p.Flush(t.Context()); err == nil {
			t.Fatal("a hub that is ahead took it")
		}
		if err := p.Resume(t.Context(), hubA, ahead); err != nil {
			t.Fatal(err)
		}
		b.record(p, 1, 3, together)
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := h.journal(); len(got) != 2 || !got[1].From.Equal(ahead) {
			t.Errorf("%d intervals", len(got))
		}
		b.hubs[hubB].check(3)
		stop()
	})
}

// A hub that was not among the hubs for so long that what it lacks is gone is not
// sent what comes later; it says so, and where it can go on.
func TestHubThatWasAwayTooLong_SRC09(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, hubA, hubB)
		only := func(o *Options) { o.Hubs = o.Hubs[:1] }
		p := b.open(nil)
		stop := b.running(p)
		b.record(p, 0, 1, together)
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		stop()
		p = b.open(only)
		stop = b.running(p)
		for n := range 3 {
			b.record(p, 1+n, 2+n, together)
			if err := p.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Hour)
		}
		stop()
		p = b.open(nil)
		stop = b.running(p)
		b.record(p, 4, 5, together)
		if err := p.Flush(t.Context()); err == nil || !strings.Contains(err.Error(), "not kept any more") {
			t.Errorf("%v", err)
		}
		b.hubs[hubB].check(1)
		b.hubs[hubA].check(5)
		b.hubs[hubB].set(func(h *bedHub) { resetTopic(t, h) })
		from := b.hubs[hubA].journal()[3].From
		if err := p.Resume(t.Context(), hubB, from); err != nil {
			t.Fatal(err)
		}
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := b.hubs[hubB].journal(); len(got) != 3 || !got[1].From.Equal(from) {
			t.Errorf("%d intervals", len(got))
		}
		stop()
	})
}

// Both parts of an interval that all hubs have are as done as it was, so that the outbox does not keep them for ever.
func TestPartsOfWhatIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, hubA)
		p := b.open(nil)
		stop := b.running(p)
		for n := range 2 {
			b.record(p, 2*n, 2*n+2, together)
			if err := p.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour)
		intervals := func() (all []interval) {
			err := p.box.db.View(func(tx *boltfile.Tx) error {
				all = slices.Collect(intervalsFrom(tx, time.Time{}))
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return all
		}
		first := intervals()[0]
		if first.Done.IsZero() {
			t.Fatal("the first interval is not done: the test shows nothing")
		}
		at := first.Until.Add(-time.Microsecond)
		if err := p.divideAt(t.Context(), first.From, at); err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, i := range intervals() {
			if i.From.Equal(first.From) && i.Until.Equal(at) || i.From.Equal(at) && i.Until.Equal(first.Until) {
				if n++; !i.Done.Equal(first.Done) {
					t.Errorf("a part is done at %v, want %v", i.Done, first.Done)
				}
			}
		}
		if n != 2 {
			t.Errorf("%d parts", n)
		}
		stop()
	})
}

// What a POST comes to that was under way when Resume was called does not count.
func TestResumeHasTheLastWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, hubA)
		p := b.open(nil)
		stop := b.running(p)
		for n := range 2 {
			b.record(p, n, n+1, together)
			if err := p.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		first := b.hubs[hubA].journal()[0].From
		posting, release := make(chan struct{}), make(chan struct{})
		slow := true
		b.hubs[hubA].set(func(h *bedHub) {
			h.answers = func(http.ResponseWriter) bool {
				if slow {
					slow = false
					close(posting)
					<-release
				}
				return false
			}
		})
		b.record(p, 2, 3, together)
		<-posting
		if err := p.Resume(t.Context(), hubA, first); err != nil {
			t.Fatal(err)
		}
		close(release)
		time.Sleep(time.Second)
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.hubs[hubA].check(3)
		b.mu.Lock()
		defer b.mu.Unlock()
		if got := len(b.posted); got != 6 { // the first two, the third, and all of them again
			t.Errorf("%d posts", got)
		}
		stop()
	})
}

// The cursor of a hub is found under its URL with and without the slash: nothing is
// sent again, and nothing is left out. Where there are both, the later one counts.
func TestHubURLWithoutItsSlash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, hubA)
		slashed := func(hubs ...string) func(*Options) {
			return func(o *Options) {
				o.Hubs = nil
				for _, h := range hubs {
					o.Hubs = append(o.Hubs, Hub{URL: h})
				}
			}
		}
		const bare = "https://a.example"
		for n, hub := range []string{bare, hubA, hubA, bare, bare, hubA} {
			p := b.open(slashed(hub))
			if n == 3 { // from before the two were one
				err := p.box.do(t.Context(), func(tx *boltfile.Tx, _ *outboxState) error {
					return tx.Bucket(bucketHubs).PutJSON([]byte(hubA), hubCursor{Until: p.senders[0].cursor().Until.Add(-time.Hour)})
				})
				if err != nil {
					t.Fatal(err)
				}
				if err := p.Close(); err != nil {
					t.Fatal(err)
				}
				p = b.open(slashed(hub))
			}
			if n == 4 { // what is recorded while it does not run is not left out
				b.hubs[hubA].check(n)
			}
			b.record(p, n, n+1, together)
			stop := b.running(p)
			if n == 0 {
				if err := p.Resume(t.Context(), hubA, time.Time{}); err != nil {
					t.Error(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			if err := p.Flush(ctx); err != nil {
				t.Error(err)
			}
			cancel()
			if st := p.Status(); len(st.Hubs) != 1 || st.Hubs[0].URL != hub {
				t.Errorf("%+v", st.Hubs)
			}
			marks := 0
			err := p.box.db.View(func(tx *boltfile.Tx) error {
				return tx.Bucket(bucketHubs).ForEach(func(_, _ []byte) error { marks++; return nil })
			})
			if err != nil || marks != 1 {
				t.Errorf("%d marks of one hub, %v", marks, err)
			}
			stop()
			b.hubs[hubA].check(n + 1)
		}
		if posts := b.hubs[hubA].count(); posts != 6 {
			t.Errorf("%d POSTs of 6 intervals", posts)
		}
		if _, err := Open(Options{Dir: b.dir, Topic: bedTopic, Client: b, Hubs: []Hub{{URL: bare}, {URL: hubA}}}); err == nil || !strings.Contains(err.Error(), "named twice") {
			t.Errorf("%v", err)
		}
	})
}

// What is cut while a hub's sender looks for more is no loss: the hub goes on.
func TestCutWhileTheSenderLooks_SRC09(t *testing.T) {
	p := openAt(t, t.TempDir(), nil)
	cut := func(n int) (end time.Time) {
		if err := p.Record(t.Context(), change(uint64(n), time.Time{}, resource(n))); err != nil {
			t.Fatal(err)
		}
		cutAll(t, p)
		return p.box.outboxState().Until
	}
	watermark := cut(1)
	look := func(tx *boltfile.Tx) (found int, deleted bool) {
		is, deleted := following(tx, watermark)
		return len(is), deleted
	}
	view := func(read func(tx *boltfile.Tx)) {
		if err := p.box.db.View(func(tx *boltfile.Tx) error { read(tx); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	view(func(tx *boltfile.Tx) {
		cut(2)
		if found, deleted := look(tx); found != 0 || deleted {
			t.Errorf("before the cut: %d intervals, deleted: %v", found, deleted)
		}
	})
	view(func(tx *boltfile.Tx) {
		if found, deleted := look(tx); found != 1 || deleted {
			t.Errorf("after the cut: %d intervals, deleted: %v", found, deleted)
		}
	})
	err := p.box.do(t.Context(), func(tx *boltfile.Tx, _ *outboxState) error {
		is, _ := following(tx, watermark)
		return tx.Bucket(bucketIntervals).Delete(is[0].key())
	})
	if err != nil {
		t.Fatal(err)
	}
	view(func(tx *boltfile.Tx) {
		if found, deleted := look(tx); found != 0 || !deleted {
			t.Errorf("after it was deleted: %d intervals, deleted: %v", found, deleted)
		}
	})
}
