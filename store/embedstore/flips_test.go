package embedstore

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
	"github.com/rshub/rshub/test/flips"
)

// Whatever byte of the database is damaged or missing, nothing is read that was not
// stored, and nothing is missing without a word.
func TestDamagedBytes(t *testing.T) {
	const topics, subs = 4, 60
	flips.Run(t, flips.Kind{
		File: databaseName, Advice: "put a backup of the folder in its place",
		Make: func(t *testing.T, dir string) {
			s := openStore(t, dir, Options{MinFree: -1})
			for i := range topics * 12 {
				add(t, s, fmt.Sprint(topic, i%topics), []int{10, 900, 9000}[i%3])
			}
			withSecrets(t, s, 0, subs)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		},
		Read: func(t *testing.T, dir string) (map[string]string, error) {
			s, err := Open(dir, Options{MinFree: -1})
			if err != nil {
				return nil, err
			}
			defer func() { _ = s.Close() }()
			out := map[string]string{"id": s.ID()}
			for i := range topics {
				name := fmt.Sprint(topic, i)
				h, headErr := s.Head(t.Context(), name)
				if headErr == nil {
					out[name] = fmt.Sprintf("%+v", h)
				}
				err = errors.Join(err, headErr, readAll(t, s, name, out))
			}
			for i := range subs {
				id := subscriptions.ID(topic, fmt.Sprintf("https://subscriber.example/%d", i))
				rec, recordErr := s.Get(t.Context(), id)
				err = errors.Join(err, recordErr)
				if rec.Subscription != nil {
					out["subscription "+id.String()] = fmt.Sprintf("%+v", *rec.Subscription)
				}
				if rec.Request != nil {
					out["request "+id.String()] = rec.Request.Secret
				}
			}
			for shard := range journal.Partitions {
				records, listErr := s.List(t.Context(), shard, uuid.Nil, subs)
				err = errors.Join(err, listErr)
				for _, rec := range records {
					out[fmt.Sprint("listed ", rec.Subscription.ID)] = rec.Subscription.Callback
				}
			}
			if err == nil { // it can be written to
				add(t, s, topic+"new", 10)
			}
			return out, err
		},
	})
}

// readAll reads the journal of a topic, and passes damaged entries over.
func readAll(t *testing.T, s *Store, name string, out map[string]string) (damaged error) {
	for after := (journal.Anchor{}); ; {
		entries, err := s.Read(t.Context(), name, after, 5, 1<<20)
		for _, e := range entries {
			out[fmt.Sprint(name, " ", e.Seq)] = fmt.Sprintf("%+v", e)
			after = e.Anchor()
		}
		if len(entries) > 0 {
			continue
		}
		at, more := journal.ReadOn(err)
		if damaged = errors.Join(damaged, err); !more || at == after {
			return damaged
		}
		after = at
	}
}
