package destination

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/internal/base/egress"
)

// A clock that was far ahead, and was set back, delays neither retries nor audits until it gets there again, and its
// deletions use up nothing of what may be deleted now.
func TestClockWasSetBack(t *testing.T) {
	c, err := Open(Options{Source: "http://127.0.0.1:1/", Dir: t.TempDir(), Allow: egress.DevAllow()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	now := time.Now()
	for ahead, want := range map[time.Duration]struct {
		due     bool
		deletes int
	}{
		-2 * againMax: {true, 0}, -time.Minute: {true, 7}, time.Minute: {false, 7}, againMax: {false, 7}, 2 * againMax: {true, 0}, 365 * 24 * time.Hour: {true, 0},
	} {
		if got := (&failure{NextAt: now.Add(ahead)}).isDue(now); got != want.due {
			t.Errorf("a try that was planned for %v from now is due: %t", ahead, got)
		}
		err := c.state.update(func(w *writer) {
			for at := range deletesTable.all(c.state) {
				deletesTable.delete(w, at)
			}
			w.countDeletes(7, now.Add(ahead))
		})
		if got := c.state.deletes(now); err != nil || got != want.deletes {
			t.Errorf("of files that were deleted %v from now, %d count, %v; want %d", ahead, got, err, want.deletes)
		}
	}
}

func TestAuditAfterClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		a := &auditor{every: time.Hour, last: func() time.Time { return began.AddDate(1, 0, 0) }, ready: func() error { return nil }, audit: func(context.Context) {
			if after := time.Since(began); after != time.Hour {
				t.Errorf("the audit began after %v", after)
			}
			cancel()
		}}
		a.run(ctx)
		if time.Since(began) > 2*time.Hour {
			t.Error("no audit began")
		}
	})
}
