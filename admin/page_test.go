package admin

import (
	"encoding/binary"
	"encoding/json"
	"iter"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/uuid"
)

// The pages of a list have every selected item once and in order, however few records the hub looks
// at for one page.
func TestPagesThatReadLittle(t *testing.T) {
	idOf := func(i int) (id uuid.UUID) {
		binary.BigEndian.PutUint64(id[8:], uint64(i))
		return id
	}
	const total = 30
	numbers := func(after string) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			for i := 1; i <= total; i++ {
				if idOf(i).String() > after && !yield(i, nil) {
					return
				}
			}
		}
	}
	sevenths := func(all iter.Seq2[int, error]) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			for i, err := range all {
				if (err != nil || i%7 == 0) && !yield(i, err) {
					return
				}
			}
		}
	}
	for read := 0; read <= total+1; read++ {
		ctx, read := t.Context(), read
		if read == 0 { // a page in a hurry, which has read one item when its time is over
			ctx, read = Hurried(ctx, time.Time{}), 1
		}
		for limit := 1; limit <= 5; limit++ {
			var got []int
			after, pages := "", 0
			for {
				w := httptest.NewRecorder()
				items := sevenths(bounded(ctx, numbers(after), read, idOf))
				if err := writePage(w, limit, items, func(i int) string { return idOf(i).String() }); err != nil {
					t.Fatal(err)
				}
				var p Page[int]
				if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
					t.Fatalf("%v: %s", err, w.Body)
				}
				if len(p.Items) > limit || p.Next != "" && p.Next <= after {
					t.Fatalf("read %d, limit %d, after %s: %s", read, limit, after, w.Body)
				}
				got, pages = append(got, p.Items...), pages+1
				if after = p.Next; after == "" {
					break
				}
			}
			if len(got) != 4 || got[0] != 7 || got[3] != 28 || pages < total/read {
				t.Errorf("read %d, limit %d: %v in %d pages", read, limit, got, pages)
			}
		}
	}
}
