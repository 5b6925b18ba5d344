package delivery

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/google/uuid"

	"github.com/rshub/rshub/subscriptions"
)

// A lane has the callback byte for byte, however it is spelled and whatever the callbacks of the
// same host look like, and the secret of the last renewal.
func TestTextsOfALane(t *testing.T) {
	callbacks := []string{
		"http://h.example/a", "http://h.example/", "http://h.example", "http://h.example?q", "http://h.example/a?next=http://other.example/",
		"HTTP://h.example/a", "http://H.example/a", "http://h.example:80/a", "http://h.example:080/a", "http://h.example#f", "http://h.example.other/a", "", "h.example/a",
	}
	for range callbacks {
		callbacks = append(callbacks[1:], callbacks[0]) // each is the first of the host once
		b := newBed(t, single)
		b.take()
		s := &b.d.only().s
		for _, callback := range callbacks {
			sub := subscriptions.Subscription{ID: subscriptions.ID(topicA, callback), Topic: topicA, Callback: callback, Secret: "secret of " + callback, ExpiresAt: time.Now().Add(time.Hour)}
			for _, secret := range []string{sub.Secret, "", "/another", sub.Secret} {
				sub.Secret = secret
				if s.lane(sub.ID) == nil {
					s.add(&sub, "h.example:80", s.read())
				} else {
					s.lane(sub.ID).set(&sub)
				}
				if l := s.lane(sub.ID); l.callback() != callback || l.texts.secret() != secret {
					t.Errorf("after %q, %q with %q became %q with %q", callbacks[0], callback, secret, l.callback(), l.texts.secret())
				}
			}
		}
	}
}

// A lane fits into its size class: one byte more, and the next has 176.
func TestLaneIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(lane{}); size > 160 {
		t.Errorf("a lane has %d bytes, want 160 at most", size)
	}
}

// The lanes of a shard are what was added and not removed.
func TestLanesByID(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	var b byID
	want := map[uuid.UUID]*lane{}
	ids := make([]uuid.UUID, 50)
	for i := range ids {
		ids[i] = uuid.New()
	}
	for range 2000 {
		id := ids[rnd.IntN(len(ids))]
		if b.get(id) != want[id] {
			t.Fatalf("%v is %p, want %p", id, b.get(id), want[id])
		}
		switch l := want[id]; {
		case l == nil:
			want[id] = &lane{id: id}
			b.add(want[id])
		case rnd.IntN(2) == 0:
			if b.remove(&lane{id: id}); b.get(id) != l {
				t.Fatal("another lane was removed")
			}
			b.remove(l)
			delete(want, id)
		}
		if all := slices.Collect(b.all); len(all) != len(want) || slices.Contains(all, nil) {
			t.Fatalf("%d lanes, want %d", len(all), len(want))
		}
	}
}
