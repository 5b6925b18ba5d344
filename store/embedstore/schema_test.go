package embedstore

import (
	"slices"
	"testing"
)

// The names of the buckets are part of the schema. A store that has other names counts
// as damaged. If you change one, raise schema, and change this list, too.
func TestStoredNames(t *testing.T) {
	want := []string{"meta", "heads", "entries", "ids", "intervals", "marks", "notes", "shelf", "subscriptions", "cursors", "requests", "attempts"}
	var got []string
	for _, b := range buckets {
		got = append(got, string(b))
	}
	if schema != 3 || !slices.Equal(got, want) {
		t.Errorf("schema %d has the buckets %q, want schema 3 with %q", schema, got, want)
	}
}
