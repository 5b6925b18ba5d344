package source

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A sorter yields each key once, in order, with the value that was added last, whether it lies in memory
// or in files; and it leaves no file.
func TestSorterProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "sorter")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir) //nolint:errcheck // of a test
		s := newSorter(dir)
		s.limit = rapid.IntRange(1, 2000).Draw(t, "limit")
		want := map[string]string{}
		for i := range rapid.IntRange(0, 200).Draw(t, "n") {
			key := rapid.StringMatching(`[a-c]{0,3}`).Draw(t, "key")
			want[key] = fmt.Sprint(i)
			if err := s.add(key, []byte(want[key])); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			var keys []string
			for x, err := range s.all() {
				if err != nil {
					t.Fatal(err)
				}
				keys = append(keys, string(x.key))
				if want[string(x.key)] != string(x.value) {
					t.Fatalf("%q has %q, want %q", x.key, x.value, want[string(x.key)])
				}
			}
			if !slices.Equal(keys, slices.Sorted(maps.Keys(want))) {
				t.Fatalf("got %q", keys)
			}
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Fatalf("%v is left", left)
		}
		s.close()
	})
}
