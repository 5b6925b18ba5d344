package source

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/publisher"
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

// Where a clock was ahead, what is published stays ahead, and without a hub nobody would say so.
func TestPublishedTimesAheadOfTheClockAreReported(t *testing.T) {
	state, dir := t.TempDir(), t.TempDir()
	for _, ahead := range []time.Duration{0, time.Minute, 48 * time.Hour} {
		x, err := OpenIndex(filepath.Join(state, "index"))
		if err != nil {
			t.Fatal(err)
		}
		err = x.write(time.Now().Add(ahead), func(b *batch) error {
			b.head.ready, b.head.floor = true, b.now
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		s, err := Open(Options{
			PublicURL: "https://example.org/", StateDir: state, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Sets: []Set{{Folder: FolderOptions{Dir: dir}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(log.String(), "event=clock_ahead") != (ahead > publisher.MaxAhead) {
			t.Errorf("%v ahead:\n%s", ahead, log.String())
		}
	}
}
