package publisher

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// SRC-09, SRC-10: a hub is down for an hour while another is up. 10,000 changes
// wait on disk in no more than bytesPerChange each, and arrive in order; the other
// hub has them at once. The hubs let in what the topic's content speaks for.
func TestHubDownForAnHour_SRC09_SRC10(t *testing.T) {
	// The text of a change is about 150 bytes. It is written to the queue first and
	// then to its interval, and pages that became free stay in the file.
	const changes, bytesPerChange = 10_000, 400
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, hubA, hubB)
		b.hubs[hubB].set(func(h *bedHub) { h.down = true })
		p := b.open(nil)
		stop := b.running(p)
		for n := range 100 {
			b.record(p, n*changes/100, (n+1)*changes/100, together)
			time.Sleep(36 * time.Second)
		}
		a := b.hubs[hubA].check(changes)
		if len(a) != 100 {
			t.Errorf("the hub that was up has %d intervals, want 100", len(a))
		}
		st := b.hubStatus(p, hubB)
		if st.State != Waiting || st.Pending != 100 || st.LastError == "" || st.Failures < 12 || st.Failures > 30 {
			t.Errorf("the hub that is down: %+v", st)
		}
		if size := diskUse(t, b.dir); size > changes*bytesPerChange {
			t.Errorf("%d changes take %d bytes", changes, size)
		} else {
			t.Logf("%d bytes for each of %d changes", size/changes, changes)
		}
		b.hubs[hubB].set(func(h *bedHub) { h.down = false })
		time.Sleep(retryMax + retryMax/5)
		b.hubs[hubB].check(changes)
		if st := p.Status(); st.Hubs[0].State != UpToDate || st.Hubs[1].State != UpToDate {
			t.Errorf("%+v", st)
		}
		stop()
	})
}

// With all hubs down, what is recorded waits to be cut: few and large intervals.
func TestAllHubsDown_SRC09(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, hubA)
		b.hubs[hubA].set(func(h *bedHub) { h.down = true })
		p := b.open(nil)
		stop := b.running(p)
		for n := range 1000 {
			b.record(p, n, n+1, oneByOne)
			time.Sleep(time.Second)
		}
		b.hubs[hubA].set(func(h *bedHub) { h.down = false })
		time.Sleep(retryMax + retryMax/5)
		if got := b.hubs[hubA].check(1000); len(got) > 3 {
			t.Errorf("%d intervals, want the one that was tried, and the rest", len(got))
		}
		stop()
	})
}

func diskUse(t *testing.T, dir string) (size int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		size += info.Size()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return size
}

// An answer that got lost: the hub has the interval, and says so when the same
// bytes come again.
func TestLostAnswerIsADuplicate_SRC08(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, hubA)
		b.hubs[hubA].set(func(h *bedHub) { h.deaf = 3 })
		p := b.open(nil)
		stop := b.running(p)
		b.record(p, 0, 10, together)
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.hubs[hubA].check(10)
		if last := b.posted[len(b.posted)-1]; len(b.posted) != 4 || !last.Receipt.Duplicate || last.Receipt.ID == "" {
			t.Errorf("%d posts, the last: %+v", len(b.posted), last)
		}
		stop()
	})
}

// A hub that lost its tail gets it again, with the same bytes; one that loses it
// over and over is not kept busy.
func TestHubThatLostItsTailGetsItAgain_SRC09(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, hubA, hubB)
		h := b.hubs[hubA]
		p := b.open(nil)
		stop := b.running(p)
		var restore func()
		for n := range 10 {
			if n == 4 {
				restore = h.backup()
			}
			b.record(p, 10*n, 10*n+10, together)
			if err := p.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		before := h.check(100)
		for n := range 2 {
			restore()
			h.check(40)
			b.record(p, 100+n, 101+n, oneByOne)
			if err := p.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		after := h.check(102)
		for n, e := range before {
			if after[n].SHA256 != e.SHA256 {
				t.Errorf("interval %d came again with other bytes", n)
			}
		}
		if log := b.logged(); strings.Count(log, "event=hub_rewound") != 2 {
			t.Errorf("the log: %s", log)
		}
		b.hubs[hubB].check(102)
		stop()
	})
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
		if err := p.Resume(t.Context(), hubA, expected.Add(1)); err == nil || !strings.Contains(err.Error(), "no interval begins") {
			t.Errorf("resuming within an interval: %v", err)
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

// 413: a hub that takes less gets parts, which are one after the other; a hub that
// has the whole keeps it.
func TestTooLargeIsDivided_HUB56(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, hubA, hubB)
		small := b.hubs[hubB]
		small.again(func() { small.max = 8 << 10 })
		p := b.open(nil)
		stop := b.running(p)
		b.record(p, 0, 1000, together)
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := b.hubs[hubA].check(1000); len(got) != 1 {
			t.Errorf("the hub that takes all got %d intervals", len(got))
		}
		parts := small.check(1000)
		for _, e := range parts {
			if e.Size > small.max || e.Size < small.max/4 {
				t.Errorf("a part of %d bytes", e.Size)
			}
		}
		// What is cut from now on is good for both.
		posts := small.count()
		b.record(p, 1000, 1030, together)
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		small.check(1030)
		b.hubs[hubA].check(1030)
		if n := small.count() - posts; n != 1 {
			t.Errorf("%d posts for what fits", n)
		}
		if st := p.Status(); st.Kept < 3 || st.Hubs[1].Pending != 0 {
			t.Errorf("%+v", st)
		}
		stop()
	})
}

// A change that alone is too large for a hub is not passed over: it waits for the
// hub to take it.
func TestOneChangeTooLarge_HUB56(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, hubA)
		h := b.hubs[hubA]
		h.again(func() { h.max = 300 })
		p := b.open(nil)
		stop := b.running(p)
		b.record(p, 0, 4, together)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := p.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "--max-body") {
			t.Errorf("%v", err)
		}
		if n := h.count(); n > 40 {
			t.Errorf("%d posts in an hour", n)
		}
		h.again(func() { h.max = 0 })
		if err := p.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		h.check(4)
		stop()
	})
}

// 429 and 503 are waited for as the hub says, within bounds (SRC-08).
func TestRetryAfterIsKept_SRC08(t *testing.T) {
	for _, after := range []struct {
		header      string
		least, most time.Duration
	}{
		{"100", 100 * time.Second, 120 * time.Second},
		{"", 500 * time.Millisecond, 2 * time.Second},
		{"9999999", time.Hour, 72 * time.Minute},
		{"-1", 500 * time.Millisecond, 2 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t, hubA)
			first := true
			b.hubs[hubA].set(func(h *bedHub) {
				h.answers = func(w http.ResponseWriter) bool {
					if first {
						w.Header().Set("Retry-After", after.header)
						w.WriteHeader(http.StatusTooManyRequests)
					}
					defer func() { first = false }()
					return first
				}
			})
			p := b.open(nil)
			stop := b.running(p)
			start := time.Now()
			b.record(p, 0, 1, together)
			if err := p.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took < after.least || took > after.most {
				t.Errorf("Retry-After %q: the next post came after %v", after.header, took)
			}
			stop()
		})
	}
}

// What does not mend itself is sent again all the same, and told loudly.
func TestRefusalsAreLoudAndTriedAgain_SRC08(t *testing.T) {
	for _, status := range []int{301, 307, 400, 401, 403, 404, 405, 409, 415, 422} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t, hubA)
				n := 0
				b.hubs[hubA].set(func(h *bedHub) {
					h.answers = func(w http.ResponseWriter) bool {
						if n++; n < 5 {
							w.Header().Set("Location", "https://elsewhere.example/")
							w.WriteHeader(status)
						}
						return n < 5
					}
				})
				p := b.open(nil)
				stop := b.running(p)
				b.record(p, 0, 1, together)
				time.Sleep(4 * time.Second)
				if st := b.hubStatus(p, hubA); st.State != Waiting || st.LastStatus != status || st.LastError == "" || st.NextAttempt.IsZero() {
					t.Errorf("%+v", st)
				}
				if err := p.Flush(t.Context()); err != nil {
					t.Error(err)
				}
				if log := b.logged(); !strings.Contains(log, "level=ERROR") {
					t.Errorf("the log: %s", log)
				}
				b.hubs[hubA].check(1)
				stop()
			})
		})
	}
}

// An empty interval is published as a heartbeat, and only then (DOC-13).
func TestHeartbeat_DOC13(t *testing.T) {
	for _, every := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t, hubA)
			p := b.open(func(o *Options) { o.Heartbeat = every })
			stop := b.running(p)
			time.Sleep(10*time.Minute + time.Second)
			b.record(p, 0, 1, together)
			time.Sleep(10 * time.Second)
			want := 1
			if every > 0 {
				want = 11
			}
			if got := b.hubs[hubA].check(1); len(got) != want {
				t.Errorf("heartbeat %v: %d intervals, want %d", every, len(got), want)
			}
			stop()
		})
	}
}

// What every hub has is kept for the time that was asked for, and what one lacks
// for ever.
func TestKeptForAHubThatLostItsTail_SRC09(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, hubA, hubB)
		b.hubs[hubB].set(func(h *bedHub) { h.down = true })
		p := b.open(nil)
		stop := b.running(p)
		for n := range 5 {
			b.record(p, n, n+1, oneByOne)
			time.Sleep(2 * time.Second)
		}
		time.Sleep(100 * time.Hour)
		if st := p.Status(); st.Kept != 5 || st.Hubs[1].Pending != 5 {
			t.Errorf("%+v", st)
		}
		b.hubs[hubB].set(func(h *bedHub) { h.down = false })
		time.Sleep(71 * time.Hour)
		if st := p.Status(); st.Kept != 5 || st.Hubs[1].Pending != 0 {
			t.Errorf("%+v", st)
		}
		time.Sleep(2 * time.Hour)
		if st := p.Status(); st.Kept != 1 { // the topic's URL serves it
			t.Errorf("%+v", st)
		}
		stop()
	})
}

// What every hub has goes before its time where room is short, and that is told.
func TestRoomBeforeKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, hubA)
		p := b.open(func(o *Options) { o.MaxStored = 20_000 })
		stop := b.running(p)
		for n := range 100 {
			b.record(p, 3*n, 3*n+3, together)
			time.Sleep(30 * time.Second)
		}
		b.hubs[hubA].check(300)
		if st := p.Status(); st.KeptBytes > 17_000 || st.KeptBytes < 10_000 {
			t.Errorf("%+v", st)
		}
		if log := b.logged(); !strings.Contains(log, "event=kept_too_short") {
			t.Error("nobody was told")
		}
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
