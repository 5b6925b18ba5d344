package disk

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

func TestRoom(t *testing.T) {
	dir := t.TempDir()
	free, err := Free(dir)
	if err != nil || free <= 0 {
		t.Fatalf("%d bytes are free, %v", free, err)
	}
	for _, least := range []int64{-1, 0, 1} {
		if err := Room(dir, least, 0); err != nil {
			t.Errorf("at least %d: %v", least, err)
		}
	}
	if err := Room(dir, -1, 1<<60); err != nil {
		t.Errorf("without a limit: %v", err)
	}
	for _, r := range []struct{ least, size int64 }{{1 << 60, 0}, {0, 1 << 60}} {
		var full *FullError
		if err := Room(dir, r.least, r.size); !errors.As(err, &full) || !strings.Contains(err.Error(), dir) {
			t.Errorf("at least %d, and %d more: %v", r.least, r.size, err)
		}
	}
	var full *FullError
	if err := Room(filepath.Join(dir, "none"), 0, 0); err == nil || errors.As(err, &full) {
		t.Errorf("a folder that is not there: %v", err)
	}
}
