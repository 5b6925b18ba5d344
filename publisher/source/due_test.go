package source

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rshub/rshub/resourcesync"
)

// Whenever files are written: once it is quiet, every document says what there is
// within the time after which it is due, though no other change comes. Every document
// that waits for changes also waits for a time, and that ends after the last change.
func TestEveryDocumentIsTrueAtQuiet(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testQuiet(t, rand.New(rand.NewPCG(seed, 2))) })
		})
	}
}

func testQuiet(t *testing.T, random *rand.Rand) {
	seconds := func(from, most int) time.Duration { return time.Duration(from+random.IntN(most)) * time.Second }
	list, dump, archive, rotate := seconds(1, 3), seconds(1, 12), seconds(1, 12), seconds(2, 9)
	x := newBubble(t, func(o *Options) {
		o.Schedule = Schedule{ResourceList: list, Dump: dump, Archive: archive, Rotate: rotate, RotateAt: 3}
	})
	x.build()
	ctx, cancel := context.WithCancel(t.Context())
	g, ctx := errgroup.WithContext(ctx)
	x.sets[0].writeDocuments(ctx, g)
	for range 2 {
		for range 1 + random.IntN(12) {
			time.Sleep(time.Duration(random.IntN(900)) * time.Millisecond)
			x.churn(random, 1+random.IntN(2), time.Now())
			x.sets[0].moved.Broadcast()
		}
		// One document may wait for another, and each rests for a second at least.
		time.Sleep(max(list, dump, archive, rotate) + 4*time.Second)
		x.isTrue()
	}
	cancel()
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

// isTrue compares every document with the folder and the log.
func (x *site) isTrue() {
	x.t.Helper()
	there := make(map[string]string) // the bytes of each resource, by URL
	err := filepath.WalkDir(x.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		there[x.o.PublicURL+dataPath+EscapePath(strings.TrimPrefix(path, x.dir+"/"))] = string(text)
		return err
	})
	if err != nil {
		x.t.Fatal(err)
	}
	same := func(what string, got map[string]string) {
		x.t.Helper()
		for loc, text := range there {
			if got[loc] != text {
				x.t.Errorf("%s has %q of %s, want %q", what, got[loc], loc, text)
			}
		}
		if len(got) != len(there) {
			x.t.Errorf("%s has %d resources, and there are %d", what, len(got), len(there))
		}
	}
	same("the Resource List", x.fetchAll("/resourcelist.xml"))
	same("the Resource Dump", x.unpackAll("/resourcedump.xml"))
	_, lists := x.read("/resourcelist-archive.xml")
	same("the newest Resource List of the archive", x.fetchAll(lists[len(lists)-1].Loc))
	_, dumps := x.read("/resourcedump-archive.xml")
	same("the newest Resource Dump of the archive", x.unpackAll(dumps[len(dumps)-1].Loc))

	log := x.log(0)
	if _, listed := x.changes(x.lists()); len(listed) != len(log) {
		x.t.Errorf("%d changes are listed, and there were %d", len(listed), len(log))
	}
	periods := x.sets[0].shelf.current().History.Periods
	if n := len(periods); n == 0 || periods[n-1].Last != log[len(log)-1].Seq {
		x.t.Errorf("the last change is not in a closed list: %+v, and the log ends with %d", periods, log[len(log)-1].Seq)
		return
	}
	dumped := x.unpackAll("/changedump.xml")
	for loc, text := range there {
		if got, ok := dumped[loc]; ok && got != text {
			x.t.Errorf("the Change Dump has %q of %s, want %q", got, loc, text)
		}
	}
	for loc, text := range dumped {
		if _, ok := there[loc]; !ok && text != string(resourcesync.Deleted) {
			x.t.Errorf("the Change Dump has %q of %s, which is gone", text, loc)
		}
	}
	if p := periods[len(periods)-1]; p.Dump == "" {
		x.t.Errorf("the last Change List %s has no dump", p.Path)
	}
}
