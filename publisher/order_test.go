package publisher

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/resourcesync"
)

// cutSome cuts intervals of one change each, and returns them. Large ones are in files.
func cutSome(t *testing.T, p *Publisher, n int, large bool) (is []interval) {
	t.Helper()
	for range n {
		for range map[bool]int{false: 1, true: 40}[large] {
			e := resourcesync.Entry{Loc: resource(n) + "/" + strings.Repeat("x", 1900), Change: resourcesync.Updated}
			if err := p.Record(t.Context(), Change{Entry: e}); err != nil {
				t.Fatal(err)
			}
		}
		cutAll(t, p)
	}
	is, err := boltfile.Read(p.box.db, func(tx *boltfile.Tx) []interval { return slices.Collect(intervalsFrom(tx, time.Time{})) })
	if err != nil || len(is) != n || is[0].InFile != large {
		t.Fatal(is, err)
	}
	return is
}

// An interval that is deleted after it was found is no damage: its copy is gone, and the topic, a sender and Resume look
// again.
func TestDeletedAfterItWasFound(t *testing.T) {
	for _, large := range []bool{false, true} {
		p := openAt(t, t.TempDir(), func(o *Options) { o.Hubs = []Hub{{URL: hubA}} })
		s := p.senders[0]
		is := cutSome(t, p, 3, large)
		if err := s.resume(t.Context(), is[2].From); err != nil {
			t.Fatal(err)
		}
		if err := p.trim(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		if err := p.trim(t.Context(), time.Now().Add(2*p.o.Keep)); err != nil || p.Status().Kept != 1 {
			t.Fatal(p.Status().Kept, err)
		}
		if _, err := p.box.body(is[0]); !errors.Is(err, errGone) {
			t.Errorf("its bytes: %v", err)
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, bedTopic, http.NoBody)
		if err := p.serve(httptest.NewRecorder(), r, "", is[0], "", ""); !errors.Is(err, errGone) {
			t.Errorf("served: %v", err)
		}
		if wait, err := s.attempt(t.Context(), is[0], s.round); wait != 0 || err != nil {
			t.Errorf("sent: %v, %v", wait, err)
		}
		if err := p.divide(t.Context(), is[0]); !errors.Is(err, errGone) {
			t.Errorf("divided: %v", err)
		}
		// What is looked for in the transaction that moves the cursor is still there when the cursor is there.
		if err := s.resume(t.Context(), is[0].From); !errors.Is(err, errNoBeginning) || !s.cursor().Until.Equal(is[2].From) {
			t.Errorf("resumed: %v, at %v", err, s.cursor().Until)
		}
	}
}

// What a hub lacks after Resume is not deleted, although it had it before.
func TestResumeBeforeTrim_SRC09(t *testing.T) {
	p := openAt(t, t.TempDir(), func(o *Options) { o.Hubs = []Hub{{URL: hubA}} })
	is := cutSome(t, p, 3, false)
	if err := p.senders[0].resume(t.Context(), is[2].From); err != nil {
		t.Fatal(err)
	}
	if err := p.trim(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := p.Resume(t.Context(), hubA, is[1].From); err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.trimSome(t.Context(), time.Now().Add(time.Hour), 0); err != nil {
		t.Fatal(err)
	}
	if i, _, ok, err := p.senders[0].next(t.Context()); !ok || err != nil || !i.From.Equal(is[1].From) {
		t.Errorf("next: %v, %v, %v", i.From, ok, err)
	}
}

// Intervals are not deleted while one is cut or divided: a part that is cut again has the file of the one before.
func TestTrimWaitsForTheCutter(t *testing.T) {
	p := openAt(t, t.TempDir(), nil)
	cutSome(t, p, 2, true)
	p.cutting.Lock()
	trimmed := make(chan error, 1)
	go func() {
		err := p.trim(t.Context(), time.Now())
		trimmed <- errors.Join(err, p.trim(t.Context(), time.Now().Add(2*p.o.Keep)))
	}()
	time.Sleep(50 * time.Millisecond)
	if kept := p.Status().Kept; kept != 2 {
		t.Errorf("%d kept", kept)
	}
	p.cutting.Unlock()
	if err := <-trimmed; err != nil || p.Status().Kept != 1 {
		t.Error(p.Status().Kept, err)
	}
}

// Resume without an instant goes on where the cursor is by then. It does not move it back.
func TestResumeWhereItIsByThen_SRC09(t *testing.T) {
	p := openAt(t, t.TempDir(), func(o *Options) { o.Hubs = []Hub{{URL: hubA}} })
	s := p.senders[0]
	is := cutSome(t, p, 2, false)
	if err := s.resume(t.Context(), is[0].From); err != nil {
		t.Fatal(err)
	}
	p.moving.Lock() // as while the cursor is moved
	resumed := make(chan error, 1)
	go func() { resumed <- p.Resume(t.Context(), hubA, time.Time{}) }()
	time.Sleep(50 * time.Millisecond)
	err := s.set(t.Context(), hubCursor{Until: is[1].From}, anywhere, func() {})
	p.moving.Unlock()
	if err := errors.Join(err, <-resumed); err != nil || !s.cursor().Until.Equal(is[1].From) {
		t.Errorf("%v, %v", s.cursor().Until, err)
	}
}

// What is stored of a POST and when the next one is due come together, so that Resume comes before both or after both.
func TestWaitComesWithTheResult(t *testing.T) {
	p := openAt(t, t.TempDir(), func(o *Options) { o.Hubs = []Hub{{URL: hubA}} })
	s := p.senders[0]
	for _, v := range []outcome{{step: again}, {step: again, wait: time.Hour}} {
		wait, ok := s.record(interval{}, s.round, Receipt{}, v, errors.New("down"))
		if st := s.status(); !ok || wait < v.wait || st.State != Waiting || st.Failures != 1 {
			t.Errorf("%v, %v, %+v", wait, ok, st)
		}
		if err := s.resume(t.Context(), time.Time{}); err != nil {
			t.Fatal(err)
		}
		if wait, ok := s.record(interval{}, s.round-1, Receipt{}, v, errors.New("down")); ok || wait != 0 || !s.status().NextAttempt.IsZero() {
			t.Errorf("after Resume: %v, %v, %+v", wait, ok, s.status())
		}
	}
}

// A Flush whose last hub gets everything as ctx ends has no error.
func TestFlushThatEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := openAt(t, t.TempDir(), func(o *Options) { o.Hubs = []Hub{{URL: hubA}} })
		s := p.senders[0]
		cutSome(t, p, 1, false)
		until := p.box.outboxState().Until
		for range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			flushed := make(chan error, 1)
			go func() { flushed <- p.Flush(ctx) }()
			synctest.Wait()
			s.mu.Lock()
			s.m.Until = until
			s.mu.Unlock()
			cancel()
			p.changed.Broadcast()
			if err := <-flushed; err != nil {
				t.Fatal(err)
			}
			s.mu.Lock()
			s.m.Until = time.Time{}
			s.mu.Unlock()
		}
	})
}
