package resourcesync

import "testing"

// Each attribute is found by its name.
func TestFieldOf(t *testing.T) {
	for i, name := range fieldNames {
		if got := fieldOf([]byte(name)); got != 1<<i {
			t.Errorf("%s is taken for %#x", name, got)
		}
		if got := fieldOf([]byte(name[:1] + "?" + name[len(name)-1:])); got != 0 {
			t.Errorf("another name is taken for %s", got.name())
		}
	}
}
