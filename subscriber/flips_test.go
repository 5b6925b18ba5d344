package subscriber

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rshub/rshub/test/flips"
)

// Whatever byte of the state is damaged or missing, the application gets nothing that
// was not received, and nothing is missing without a word.
func TestDamagedBytes(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	flips.Run(t, flips.Kind{
		File: "subscriber.db", Advice: "restore the folder",
		Make: func(t *testing.T, dir string) {
			s, err := Open(Options{Dir: dir, Topic: "https://source.example/"})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 40 {
				at := start.Add(time.Duration(i) * time.Second)
				b := batch{ID: fmt.Sprint("id ", i), Received: at, Content: true, MediaType: "text/plain"}
				err := s.inbox.update(func(tx *tx) error {
					gap := Gap{From: at, Until: at.Add(1), State: GapOpen}
					_, err := s.inbox.accept(tx, b, bytes.Repeat([]byte{byte(i)}, 100+i%3*3000))
					return errors.Join(err, putGap(tx, &gap), putSubscription(tx, subscription{Token: fmt.Sprint("token ", i), Topic: "topic", Secret: "secret"}))
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		},
		Read: func(_ *testing.T, dir string) (map[string]string, error) {
			s, err := Open(Options{Dir: dir, Topic: "https://source.example/"})
			if err != nil {
				return nil, err
			}
			defer func() { _ = s.Close() }()
			out := map[string]string{}
			st, err := s.Status()
			if st.AsOf = (time.Time{}); err == nil {
				raw, _ := json.Marshal(st)
				out["status"] = string(raw)
			}
			err = errors.Join(err, s.inbox.db.View(func(tx *tx) error {
				return errors.Join(tx.Bucket(inboxBucket).ForEach(func(k, v []byte) error {
					b, payload, err := unpackBatch(v)
					out[fmt.Sprint("batch ", fromNumber(k))] = fmt.Sprintf("%+v %s", b, payload)
					return err
				}))
			}), s.inbox.db.View(func(tx *tx) error {
				for i := range 40 {
					if id := fmt.Sprint("id ", i); known(tx.Bucket(idsBucket), id) {
						out[id] = "known"
					}
				}
				return nil
			}))
			return out, err
		},
	})
}
