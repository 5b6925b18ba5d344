package destination

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// openHand opens the events of a folder. Hand gets the URL of each.
func openHand(t *testing.T, dir string, hand func(url string) error) *handover {
	t.Helper()
	h, err := openHandover(&Options{StateDir: dir, Log: slog.New(slog.DiscardHandler), Hand: func(_ context.Context, e Event) error { return hand(e.URL) }})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func events(urls ...string) (out []Event) {
	for _, u := range urls {
		out = append(out, Event{What: Copied, URL: u})
	}
	return out
}

// Events are handed over in order. One that fails is tried again, after ever longer pauses, and
// no other one before it. A restart begins with the first one that is not done.
func TestHandsOverInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		var got []string
		began := time.Now()
		h := openHand(t, dir, func(url string) error {
			got = append(got, fmt.Sprint(url, " after ", time.Since(began)))
			if url == "b" && len(got) < 4 || url == "c" {
				return errors.New("not now")
			}
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); h.run(ctx) }()
		synctest.Wait()
		if err := h.add(ctx, events("a", "b")); err != nil {
			t.Fatal(err)
		}
		if err := h.add(ctx, events("c", "d")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if want := []string{"a after 0s", "b after 0s", "b after 1s", "b after 3s", "c after 3s", "c after 4s"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		cancel()
		<-done
		if err := h.close(); err != nil {
			t.Error(err)
		}
		got = nil
		h = openHand(t, dir, func(url string) error { got = append(got, url); return nil })
		ctx, cancel = context.WithCancel(t.Context())
		done = make(chan struct{})
		go func() { defer close(done); h.run(ctx) }()
		synctest.Wait()
		if !slices.Equal(got, []string{"c", "d"}) || h.count() != 0 {
			t.Errorf("after a restart: %q, and %d wait", got, h.count())
		}
		cancel()
		<-done
		_ = h.close()
	})
}

// Events are counted as part of the transaction that stores them. After one that fails they are counted anew, so an event
// that is counted later would be counted twice, and in the end nothing could be added any more.
func TestHandoverCountsWhatIsStored(t *testing.T) {
	h := openHand(t, t.TempDir(), func(string) error { return nil })
	defer func() { _ = h.close() }()
	h.db.Intercept(func(commit func() error) error {
		err := commit()
		if n := h.count(); n != 2 {
			t.Errorf("%d are counted when two are stored", n)
		}
		return err
	})
	if err := h.add(t.Context(), events("a", "b")); err != nil {
		t.Fatal(err)
	}
	h.db.Intercept(func(func() error) error { return syscall.ENOSPC })
	if err := h.add(t.Context(), events("c")); !errors.Is(err, syscall.ENOSPC) || h.count() != 2 {
		t.Errorf("with a full disk: %v, and %d wait", err, h.count())
	}
}

// While too many events wait, nothing more is added, until there is room. At the end of the
// program what is in place already is stored all the same.
func TestHandoverHasABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHand(t, t.TempDir(), func(string) error { return nil })
		defer func() { _ = h.close() }()
		h.most = 20
		if err := h.add(t.Context(), events(make([]string, h.most)...)); err != nil {
			t.Fatal(err)
		}
		added := make(chan error, 1)
		go func() { added <- h.add(t.Context(), events("one more")) }()
		synctest.Wait()
		select {
		case err := <-added:
			t.Fatalf("there is no room, and it was added: %v", err)
		default:
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := h.add(ended, events("in place")); err != nil || h.count() != h.most+1 {
			t.Errorf("%v, and %d wait", err, h.count())
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); h.run(ctx) }()
		if err := <-added; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if h.count() != 0 {
			t.Errorf("%d still wait", h.count())
		}
		cancel()
		<-done
	})
}
