package destination

import (
	"maps"
	"slices"
	"testing"
	"time"
)

// What a set pushed counts over its older list, also if the file came from another set, or was changed
// for another reason; what came with a baseline does not.
func TestAddPushed(t *testing.T) {
	s, err := openState(t.TempDir(), newSpace(&Options{}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.db.Close() }()
	same := func(p string) string { return p }
	list := time.Now().Add(-time.Hour)
	early, late := list.Add(-time.Minute), list.Add(time.Minute)
	says := func(set string, at time.Time) *membershipChange {
		return &membershipChange{sets: []string{set}, at: at}
	}
	copied := func(set string, at time.Time) record {
		return record{file: &file{Path: set, Set: set, ChangedAt: at}, says: says(set, at)}
	}
	baseline := time.Time{}
	err = s.store(records{
		"baseline":     copied("a", baseline),
		"earlier":      copied("a", early),
		"later":        copied("a", late),
		"of another":   copied("b", late),
		"of both":      copied("b", baseline),
		"deleted":      {gone: true, pushed: &deletion{"a", late}},
		"deleted by b": {gone: true, pushed: &deletion{"b", late}},
	}, same, time.Now())
	if err == nil { // in step already, so only its members change
		err = s.store(records{"of both": {says: says("a", late)}}, same, time.Now())
	}
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]desired{}
	s.addPushed(namedSet{name: "a"}, list, got)
	if urls := slices.Sorted(maps.Keys(got)); !slices.Equal(urls, []string{"deleted", "later", "of both"}) {
		t.Errorf("%v were pushed", urls)
	}
	for url := range membersTable.all(s) { // the record of the file says who has the others
		if url != "of both" {
			t.Errorf("%s has a record of its members", url)
		}
	}
}
