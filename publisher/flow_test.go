package publisher

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
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
		if size := diskUse(t, b.dir) - boltfile.DefaultMaxLog; size > changes*bytesPerChange {
			t.Errorf("%d changes take %d bytes, without the write-ahead log", changes, size)
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

// Nobody waits for a hub that a closed Publisher will never send to.
func TestFlushEndsWhenClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, hubA)
		p := b.open(nil)
		b.record(p, 0, 1, together)
		flushed := make(chan error, 1)
		go func() { flushed <- p.Flush(t.Context()) }()
		synctest.Wait()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if err := <-flushed; !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		if err := p.Flush(t.Context()); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
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

// A hub that lost its tail and then has it after all, as in a failover in which there
// are two stores for a moment, is followed; one that has more than it was ever sent is
// not.
func TestHubThatHasItsTailAfterAll_SRC09(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, hubA)
		h := b.hubs[hubA]
		p := b.open(nil)
		stop := b.running(p)
		for n := range 10 {
			b.record(p, n, n+1, together)
			if err := p.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		entries := h.journal()
		expects := func(instants ...time.Time) {
			h.set(func(h *bedHub) {
				h.answers = func(w http.ResponseWriter) bool {
					if len(instants) == 0 {
						return false
					}
					w.WriteHeader(http.StatusConflict)
					_, _ = fmt.Fprintf(w, `{"expected_from":%q}`, instants[0].Format(time.RFC3339Nano))
					instants = instants[1:]
					return true
				}
			})
		}
		for n, at := range []time.Time{entries[9].Until, entries[7].From} {
			expects(entries[4].From, at)
			b.record(p, 10+n, 11+n, together)
			if err := p.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		h.check(12)
		if log := b.logged(); strings.Count(log, "event=hub_rejoined") != 2 {
			t.Errorf("the log: %s", log)
		}
		expects(entries[4].From, entries[9].Until.Add(time.Hour))
		b.record(p, 12, 13, together)
		if err := p.Flush(t.Context()); err == nil || p.Status().Hubs[0].Stopped == "" {
			t.Errorf("a hub that has what it was never sent: %v, %+v", err, p.Status().Hubs[0])
		}
		stop()
	})
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

// A hub that loses its tail over and over is not kept busy with it.
func TestTailIsNotSentInALoop_SRC09(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, hubA)
		h := b.hubs[hubA]
		p := b.open(nil)
		stop := b.running(p)
		for n := range 3 {
			b.record(p, n, n+1, together)
			if err := p.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		first := h.journal()[0].From
		posts := 0
		h.set(func(h *bedHub) {
			h.answers = func(w http.ResponseWriter) bool { // the first three are taken, the fourth never is
				if posts++; posts%4 != 1 {
					return true
				}
				w.WriteHeader(http.StatusConflict)
				_, _ = fmt.Fprintf(w, `{"type": "#gap", "expected_from": %q}`, stamp(first))
				return true
			}
		})
		b.record(p, 3, 4, together)
		time.Sleep(10 * time.Minute)
		h.set(func(*bedHub) {
			if posts < 20 || posts > 4*60+8 {
				t.Errorf("%d posts in ten minutes", posts)
			}
		})
		stop()
	})
}
