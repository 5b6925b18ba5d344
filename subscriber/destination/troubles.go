package destination

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// troubles are why sets are not in sync, by name. The empty name is the Source's.
type troubles struct {
	mu sync.Mutex
	of map[string]string
}

// set stores an error; nil: there is no trouble any more.
func (t *troubles) set(set string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		delete(t.of, set)
		return
	}
	if t.of == nil {
		t.of = map[string]string{}
	}
	why := err.Error()
	if set != "" {
		why = set + ": " + why
	}
	t.of[set] = why
}

// String lists them; empty: there is none.
func (t *troubles) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []string
	for _, set := range slices.Sorted(maps.Keys(t.of)) {
		out = append(out, t.of[set])
	}
	return strings.Join(out, "; ")
}
