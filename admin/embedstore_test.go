package admin

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/embedstore"
	"github.com/rshub/rshub/subscriptions"
)

// The lists over the store that the hub runs on by default.
func TestOverTheEmbeddedStore(t *testing.T) {
	s, err := embedstore.Open(t.TempDir(), embedstore.Options{MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	const n = 600
	inParallel(t, n, func(ctx context.Context, i int) error {
		topic, callback := fmt.Sprintf("https://example.org/%d", i), fmt.Sprintf("https://%d.example/cb", i)
		body := []byte(topic)
		e := journal.Entry{From: noon, Until: noon.Add(time.Minute), Kind: journal.KindChange, MediaType: "application/xml", SHA256: sha256.Sum256(body), Size: int64(len(body)), Body: body}
		if _, err := s.Append(ctx, noon, topic, e, ""); err != nil {
			return err
		}
		id := subscriptions.ID(topic, callback)
		_, err := s.Update(ctx, id, func(subscriptions.Record) (subscriptions.Record, error) {
			return subscriptions.Record{Subscription: &subscriptions.Subscription{
				ID: id, Topic: topic, Callback: callback, CreatedAt: noon, VerifiedAt: noon, ExpiresAt: noon.Add(time.Hour),
			}}, nil
		})
		return err
	})
	base := start(t, Options{Topics: s, Subscriptions: s}) + "/api/v1/"
	topics, pages := collect(t, base+"topics?limit=100", func(v Topic) string { return v.URL })
	if len(topics) != n || pages != n/100 {
		t.Errorf("%d topics in %d pages", len(topics), pages)
	}
	subs, pages := collect(t, base+"subscriptions?limit=100", func(v Subscription) string { return v.ID })
	if len(subs) != n || pages != n/100 {
		t.Errorf("%d subscriptions in %d pages", len(subs), pages)
	}
	for _, listed := range topics {
		one := decode[Topic](t, base+"topics/"+listed.ID)
		if one.URL != listed.URL || one.Retained.Entries != 1 || one.Head.Seq != 1 || !one.LastUntil.Equal(noon.Add(time.Minute)) || one.Head.ID == uuid.Nil.String() {
			t.Fatalf("%+v", one)
		}
		break
	}
	for id := range subs {
		if one := decode[Subscription](t, base+"subscriptions/"+id); one.State != "active" || one.Lag == nil || *one.Lag != (Lag{Notifications: 1}) {
			t.Fatalf("%+v", one)
		}
		break
	}
}

// inParallel calls do for 0 to n-1, 1024 at a time, so that the store commits them
// in groups.
func inParallel(t *testing.T, n int, do func(ctx context.Context, i int) error) {
	t.Helper()
	work := make(chan int)
	var wg sync.WaitGroup
	for range 1024 {
		wg.Go(func() {
			for i := range work {
				if err := do(t.Context(), i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	wg.Wait()
}
