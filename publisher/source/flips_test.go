package source

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/rshub/rshub/test/flips"
)

// Whatever byte of the index is damaged or missing, no document gets a resource or a
// change that was not there, and none is missing without a word.
func TestDamagedBytes(t *testing.T) {
	flips.Run(t, flips.Kind{
		File: indexName, Advice: "move it away, and everything is scanned as new",
		Make: func(t *testing.T, dir string) {
			x, err := OpenIndex(dir)
			must(t, err)
			now := time.Now()
			fill := func(from, to int, content string) {
				var steps []step
				for i := from; i < to; i++ {
					path := fmt.Sprintf("folder %d/file %d.txt", i%5, i)
					steps = append(steps, step{key: path, now: made(path, content)})
				}
				_, err := x.apply(now, steps)
				must(t, err)
			}
			fill(0, 200, "first")
			must(t, x.baseline(now))
			fill(100, 300, "second")
			must(t, x.Close())
		},
		Read: func(t *testing.T, dir string) (map[string]string, error) {
			x, err := OpenIndex(dir)
			if err != nil {
				return nil, err
			}
			defer func() { _ = x.Close() }()
			s, err := x.Snapshot()
			if err != nil {
				return nil, err
			}
			defer s.Close()
			out := map[string]string{"length": fmt.Sprint(s.Len(), s.Last().Seq, s.Baseline())}
			for r, err := range s.Resources() {
				if err != nil {
					return out, err
				}
				one, ok, err := x.Get(r.Path)
				if err != nil || !ok || !reflect.DeepEqual(one, r) {
					t.Errorf("%s: %+v, %t, %v", r.Path, one, ok, err)
				}
				out[r.Path] = fmt.Sprintf("%+v", r)
			}
			for c, err := range s.Changes(0) {
				if err != nil {
					return out, err
				}
				out[fmt.Sprint("change ", c.Seq)] = fmt.Sprintf("%+v", c)
			}
			return out, nil
		},
	})
}
