package destination

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/test/flips"
)

// Whatever byte of the state of a copy is damaged or missing, no file is taken for
// what it is not, and nothing is missing without a word.
func TestDamagedBytes(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	same := func(s string) string { return s }
	open := func(dir string) (*state, error) { return openState(dir, newSpace(&Options{Dir: dir})) }
	flips.Run(t, flips.Kind{
		File: stateFile, Advice: "Move it away and sync again",
		Make: func(t *testing.T, dir string) {
			s, err := open(dir)
			if err != nil {
				t.Fatal(err)
			}
			for round := range 3 {
				d := records{}
				for i := round * 20; i < 100; i++ {
					url := fmt.Sprint("https://source.example/data/", i)
					if i%7 == 0 {
						d[url] = record{failed: &failure{Set: "set", Why: strings.Repeat("away ", 10)}}
						continue
					}
					d[url] = record{file: &file{Path: fmt.Sprintf("data/%d", i), Set: "set", Length: int64(i), Hash: fmt.Sprint("hash ", round, i)}}
				}
				if err := s.store(d, same, now); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.putSet("set", setState{From: "the list", BaselineAt: now}); err != nil {
				t.Fatal(err)
			}
			if err := s.db.Close(); err != nil {
				t.Fatal(err)
			}
		},
		Read: func(_ *testing.T, dir string) (map[string]string, error) {
			s, err := open(dir)
			if err != nil {
				return nil, err
			}
			defer func() { _ = s.db.Close() }()
			out := map[string]string{"count": fmt.Sprint(s.count(), s.space.files)}
			for url, f := range s.files() {
				out[url] = fmt.Sprintf("%+v %s %v", f, s.owner(f.Path), s.members(url))
			}
			for url, f := range s.failures() {
				out["failed "+url] = fmt.Sprintf("%+v", f)
			}
			for name, st := range setsTable.all(s) {
				out["set "+name] = fmt.Sprintf("%+v", st)
			}
			return out, nil
		},
	})
}

// A number of bytes that cannot be read is counted again.
func TestDamagedByteCount(t *testing.T) {
	dir := t.TempDir()
	s, err := openState(dir, newSpace(&Options{Dir: dir}))
	if err != nil {
		t.Fatal(err)
	}
	d := records{"https://source.example/a": {file: &file{Path: "a", Length: 7}}, "https://source.example/b": {file: &file{Path: "b", Length: 5}}}
	if err := s.store(d, strings.ToLower, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := s.update(func(w *writer) { w.keep(w.Bucket(metaBucket).Put([]byte(bytesKey), nil)) }); err != nil {
		t.Fatal(err)
	}
	if err := s.db.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = openState(dir, newSpace(&Options{Dir: dir})); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.db.Close() }()
	if s.count() != 2 || s.space.files != 12 {
		t.Errorf("%d files with %d bytes", s.count(), s.space.files)
	}
}
