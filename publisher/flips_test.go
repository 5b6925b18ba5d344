package publisher

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/test/flips"
)

// Whatever byte of the outbox is damaged or missing, nothing is sent that was not cut,
// and nothing is missing without a word.
func TestDamagedBytes(t *testing.T) {
	flips.Run(t, flips.Kind{
		File: databaseName, Advice: "put a backup of its folder in its place",
		Make: func(t *testing.T, dir string) {
			p := openAt(t, dir, func(o *Options) { o.MaxEntries = 7 })
			record := func(from, to int) {
				for n := from; n < to; n++ {
					if err := p.Record(t.Context(), change(uint64(n+1), time.Time{}, resource(n)+strings.Repeat("x", 300))); err != nil {
						t.Fatal(err)
					}
				}
			}
			record(0, 60)
			cutAll(t, p)
			record(60, 100)
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
		},
		Read: func(_ *testing.T, dir string) (map[string]string, error) {
			p, err := Open(Options{Dir: dir, Topic: bedTopic})
			if err != nil {
				return nil, err
			}
			defer func() { _ = p.Close() }()
			s := p.box.outboxState()
			s.since = time.Time{}
			out := map[string]string{"outboxState": fmt.Sprintf("%+v", s)}
			var is []interval
			err = p.box.db.View(func(tx *boltfile.Tx) error {
				return errors.Join(tx.Bucket(bucketIntervals).ForEach(func(k, v []byte) error {
					i, err := unpackInterval(k, v)
					is = append(is, i)
					return err
				}), tx.Bucket(bucketQueue).ForEach(func(k, v []byte) error {
					q, err := unpackQueued(v)
					out[fmt.Sprintf("queued %x", k)] = fmt.Sprintf("%v %s", q.at, q.text)
					return err
				}))
			})
			for _, i := range is {
				body, bodyErr := p.box.body(i)
				if err = errors.Join(err, bodyErr); bodyErr == nil {
					out[i.name()] = string(body)
				}
			}
			return out, err
		},
	})
}
