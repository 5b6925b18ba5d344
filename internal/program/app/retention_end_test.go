package app

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/embedstore"
	"github.com/rshub/rshub/store/redisstore"
	"github.com/rshub/rshub/test/redistest"
)

// askedStore counts how often topics are listed.
type askedStore struct {
	hubStore
	asked int
}

func (s *askedStore) Topics(ctx context.Context, partition int, after uuid.UUID, limit int) ([]journal.Head, error) {
	s.asked++
	return s.hubStore.Topics(ctx, partition, after, limit)
}

// If the store does not answer, trimming ends at the first question: the others would fail for the same
// reason, each after a long wait.
func TestRetentionEndsWithItsStore(t *testing.T) {
	inRedis := func(t *testing.T, server *redistest.Server) hubStore {
		s, err := redisstore.Open(t.Context(), redisstore.Options{URL: server.URL(), Prefix: "app-" + uuid.NewString()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	for name, tc := range map[string]struct {
		gone func(t *testing.T) hubStore
		want error
	}{
		"embedded, closed": {func(t *testing.T) hubStore {
			s, err := embedstore.Open(t.TempDir(), embedstore.Options{})
			if err = errors.Join(err, s.Close()); err != nil {
				t.Fatal(err)
			}
			return s
		}, embedstore.ErrClosed},
		"Redis, closed": {func(t *testing.T) hubStore {
			s := inRedis(t, redistest.Standalone(t))
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return s
		}, redisstore.ErrClosed},
		"Redis, away": {func(t *testing.T) hubStore {
			server := redistest.Standalone(t)
			s := inRedis(t, server)
			server.Kill(t)
			return s
		}, redisstore.ErrAway},
	} {
		t.Run(name, func(t *testing.T) {
			store := &askedStore{hubStore: tc.gone(t)}
			r := &retention{store: store, log: zap.NewNop(), rule: journal.Retention{Age: time.Hour}}
			if err := r.trim(t.Context(), time.Now()); !errors.Is(err, tc.want) || store.asked != 1 {
				t.Errorf("it was asked %d times, and trimming ended with: %v", store.asked, err)
			}
		})
	}
}
