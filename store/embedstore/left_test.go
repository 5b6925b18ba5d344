package embedstore

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"

	"github.com/rshub/rshub/subscriptions"
)

// When an Update has returned, its caller may use again what it reads and changes,
// even where the caller's time was up while others of the same transaction ran.
func TestNothingIsCalledAfterUpdateReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(t.TempDir(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close() //nolint:errcheck // it fails no more
		update := func(ctx context.Context, change func()) <-chan error {
			done := make(chan error, 1)
			go func() {
				_, err := s.Update(ctx, uuid.New(), func(rec subscriptions.Record) (subscriptions.Record, error) {
					change()
					return rec, nil
				})
				done <- err
			}()
			synctest.Wait()
			return done
		}
		ctx, leave := context.WithCancel(t.Context())
		gather, first := make(chan struct{}), make(chan struct{})
		a := update(t.Context(), func() { <-gather })
		// These two come into the writer's next transaction.
		b := update(t.Context(), func() { <-first })
		called := 0
		c := update(ctx, func() { called++ })
		close(gather)
		synctest.Wait()
		leave()
		if err := <-c; !errors.Is(err, context.Canceled) {
			t.Errorf("who left was told %v", err)
		}
		called = 0
		close(first)
		if err := errors.Join(<-a, <-b); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if called != 0 {
			t.Error("an Update went on that had returned")
		}
	})
}
