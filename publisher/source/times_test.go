package source

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A change has the time at which it was detected, however old the file says it is,
// and no link to another origin (SRC-17).
func TestTimesAreThoseOfDetection_SRC17(t *testing.T) {
	x := newSite(t, nil)
	x.build()
	x.write(map[string]string{"old": "1"})
	modified := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	if err := os.Chtimes(filepath.Join(x.dir, "old"), modified, modified); err != nil {
		t.Fatal(err)
	}
	before := time.Now().Truncate(time.Microsecond)
	x.build()
	_, all := x.changes(x.lists())
	if len(all) != 1 || all[0].Datetime.Before(before) || !all[0].LastMod.Equal(modified) || len(all[0].Links) > 0 {
		t.Errorf("a file of %v that was found after %v is listed as %+v", modified, before, all)
	}
}
