package publisher

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

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

// What was wrong and what to do are two sentences.
func TestSentences(t *testing.T) {
	for _, cause := range []string{"connection refused", "It is full."} {
		if got := sentences(errors.New(cause), "Wait."); got != strings.TrimSuffix(cause, ".")+". Wait." {
			t.Error(got)
		}
	}
}
