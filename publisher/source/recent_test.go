package source

import (
	"context"
	"encoding/xml"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rshub/rshub/resourcesync"
)

// pyClient keeps a copy by the habits of the Python library resync: it reads
// /changelist.xml and nothing else, takes from it what is not older than the last
// change that it saw, of each resource the last change alone, and nothing of what was
// created and deleted since. It does not look at from.
type pyClient struct {
	x    *site
	copy map[string]string
	seen string // the datetime of the last change
}

func (c *pyClient) baseline() {
	l := c.x.pyRead("/resourcelist.xml")
	c.copy, c.seen = make(map[string]string), l.MD[0].At
	for _, e := range l.URLs {
		c.copy[e.Loc[0]] = c.x.get(e.Loc[0]).body
	}
}

func (c *pyClient) incremental() {
	c.x.t.Helper()
	l := c.x.pyRead("/changelist.xml")
	if l.XMLName.Local != "urlset" || l.MD[0].Capability != "changelist" {
		c.x.t.Fatalf("/changelist.xml is a %s of the capability %s, which this client can't read", l.XMLName.Local, l.MD[0].Capability)
	}
	first, last := make(map[string]string), make(map[string]string)
	since, latest := when(c.x.t, c.seen), c.seen
	for _, e := range l.URLs {
		md := e.MD[0]
		if when(c.x.t, md.Datetime).Before(since) {
			continue
		}
		if latest = md.Datetime; first[e.Loc[0]] == "" {
			first[e.Loc[0]] = md.Change
		}
		last[e.Loc[0]] = md.Change
	}
	for loc, change := range last {
		switch {
		case change != "deleted":
			if got := c.x.get(loc); got.status == http.StatusOK {
				c.copy[loc] = got.body
			}
		case first[loc] != "created":
			delete(c.copy, loc)
		}
	}
	c.seen = latest
}

// A client that knows /changelist.xml alone finds a list there whatever happens, and
// may stay away over several rotations: its copy is right afterwards (DOC-39).
func TestPythonStaysAway_DOC39(t *testing.T) {
	for seed := range uint64(2) {
		random := rand.New(rand.NewPCG(seed, 9))
		x := newSite(t, func(o *Options) { o.Schedule.RotateAt = 7 })
		x.sets[0].reach.changes = 60
		x.churn(random, 10, time.Now())
		x.build()
		c := &pyClient{x: x}
		c.baseline()
		for turn := range 6 {
			rotated := len(x.sets[0].shelf.current().History.Periods)
			before := len(x.log(0))
			for random.IntN(6) > 0 && len(x.log(0)) < before+45 {
				x.churn(random, random.IntN(12), time.Now())
				x.step(x.sets[0].buildChangeLists)
				x.step(onRing(x.sets[0].buildRecent))
			}
			c.incremental()
			now := len(x.sets[0].shelf.current().History.Periods)
			t.Logf("seed %d, turn %d: %d changes and %d rotations", seed, turn, len(x.log(0))-before, now-rotated)
			there := files(t, x.dir)
			for path := range there {
				text, err := os.ReadFile(filepath.Join(x.dir, path))
				if err != nil {
					t.Fatal(err)
				}
				if got := c.copy[x.server.URL+"/data/"+path]; got != string(text) {
					t.Errorf("seed %d, turn %d: %s is %q in the copy, and %q at the Source", seed, turn, path, got, text)
				}
			}
			if len(c.copy) != len(there) {
				t.Errorf("seed %d, turn %d: the copy has %d resources, and there are %d", seed, turn, len(c.copy), len(there))
			}
		}
		if n := len(x.sets[0].shelf.current().History.Periods); n < 3 {
			t.Errorf("seed %d: there were %d rotations", seed, n)
		}
	}
}

// The list of recent changes has those of 30 days, or 50,000 of them if these are
// fewer; here 30 days or 40. It tells since when it has all, never has more than it may
// have, and the Capability List names the index instead.
func TestRecentChanges_DOC39_DOC60(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 4))
		x := newBubble(t, func(o *Options) { o.Schedule.RotateAt = 9 })
		s := x.sets[0]
		s.reach.changes = 40
		x.build()
		for turn := range 24 {
			if turn%2 == 0 {
				time.Sleep(time.Duration(random.IntN(8)) * day)
			}
			x.churn(random, 1+random.IntN(9), time.Now())
			x.step(s.buildChangeLists)
			x.step(onRing(s.buildRecent))
			if turn%6 == 0 {
				x.step(s.buildDumps) // prunes the log
			}
			log, now := x.log(x.begins()), time.Now()
			h, listed := x.read("/changelist.xml")
			if h.Index || !h.Until.IsZero() || len(listed) > 40 {
				t.Fatalf("turn %d: %+v with %d changes", turn, h, len(listed))
			}
			if index, ok := h.Link("index"); len(s.shelf.current().History.Periods) > 0 && (!ok || index.Href != x.o.PublicURL+changeListIndexPath || x.lists() != "/"+changeListIndexPath) {
				t.Fatalf("turn %d: its index is %q, and the Capability List names %s", turn, index.Href, x.lists())
			}
			want := log[max(0, len(log)-40):]
			for len(want) > 0 && now.Sub(want[0].At) > recentAge {
				want = want[1:]
			}
			if len(listed) < len(want) {
				t.Fatalf("turn %d: it has %d changes, and should have %d", turn, len(listed), len(want))
			}
			tail := log[len(log)-len(listed):]
			for i, c := range tail {
				if !listed[i].Datetime.Equal(c.At) || listed[i].Change != c.Change {
					t.Errorf("turn %d: change %d is %+v in the list and %+v in the log", turn, i, listed[i], c)
				}
			}
			if n := len(log) - len(listed); n > 0 && !h.From.After(log[n-1].At) || len(tail) > 0 && h.From.After(tail[0].At) {
				t.Errorf("turn %d: it says to have all since %v", turn, h.From)
			}
		}
		if x.begins() == 0 {
			t.Error("the log was never pruned")
		}
		if out, err := xmlRoot(x.get("/changelist-index.xml").body); err != nil || out != "sitemapindex" {
			t.Errorf("the index is a %s: %v", out, err)
		}
	})
}

func xmlRoot(text string) (string, error) {
	var root struct{ XMLName xml.Name }
	err := xml.Unmarshal([]byte(text), &root)
	return root.XMLName.Local, err
}

// begins is the change after which the log begins.
func (x *site) begins() uint64 {
	x.t.Helper()
	snap, err := x.sets[0].index.Snapshot()
	if err != nil {
		x.t.Fatal(err)
	}
	defer snap.Close()
	seq, _ := snap.Begin()
	return seq
}

// Names may be so long that 50,000 of them are more than a document can hold. Lists are
// closed earlier then, and the list of recent changes reaches back less (DOC-60).
func TestLongNamesFillLists_DOC60(t *testing.T) {
	x := newSite(t, func(o *Options) { o.Schedule.RotateAt = 50 })
	s := x.sets[0]
	s.composer.limits = resourcesync.WriteOptions{MaxBytes: 6000}
	x.build()
	for i := range 8 {
		files := make(map[string]string)
		for j := range 9 {
			files[fmt.Sprintf("%d-%d-%s", i, j, strings.Repeat("n", 10+20*i))] = "text"
		}
		x.write(files)
		x.build()
		for path, d := range s.shelf.current().Documents {
			if strings.HasPrefix(path, "changelist") && d.Length > 6000 {
				t.Errorf("%s has %d bytes", path, d.Length)
			}
		}
		if _, listed := x.changes(x.lists()); len(listed) != len(x.log(0)) {
			t.Errorf("%d changes are listed, and there were %d", len(listed), len(x.log(0)))
		}
	}
	if _, listed := x.read("/changelist.xml"); len(listed) < 5 || !listed[len(listed)-1].Datetime.Equal(x.log(0)[len(x.log(0))-1].At) {
		t.Errorf("the list of recent changes has %d of them", len(listed))
	}
}

// A long list is not written for each change: the time between two writes grows with
// its length. What comes meanwhile is in it when that has passed, without another change.
func TestLongListsRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var written atomic.Int32
		x := newBubble(t, func(o *Options) {
			o.Schedule = Schedule{Archive: -1, Dump: -1, ResourceList: -1}
			o.Hooks.Built = func(_ string, urls []string) {
				if slices.Contains(urls, "https://source.example.org/changelist.xml") {
					written.Add(1)
				}
			}
		})
		random := rand.New(rand.NewPCG(1, 5))
		x.build()
		for len(x.log(0)) < 2000 {
			x.churn(random, 400, time.Now())
		}
		ctx, cancel := context.WithCancel(t.Context())
		g, ctx := errgroup.WithContext(ctx)
		x.sets[0].writeDocuments(ctx, g)
		change := func() {
			x.churn(random, 2, time.Now())
			x.sets[0].moved.Broadcast()
		}
		time.Sleep(10 * time.Second)
		before, listed := written.Load(), len(x.log(0))
		for range 100 {
			change()
			time.Sleep(500 * time.Millisecond)
		}
		if n := written.Load() - before; n < 13 || n > 17 {
			t.Errorf("in 50 s a list of %d changes was written %d times, want some 16", listed, n)
		}
		time.Sleep(6 * time.Second)
		if _, all := x.read("/changelist.xml"); len(all) != len(x.log(0)) {
			t.Errorf("it has %d changes, and there were %d", len(all), len(x.log(0)))
		}
		time.Sleep(6 * time.Second)
		before, listed = written.Load(), len(x.log(0))
		for len(x.log(0)) == listed {
			x.churn(random, 2, time.Now())
		}
		x.sets[0].moved.Broadcast()
		time.Sleep(time.Millisecond)
		if written.Load() == before {
			t.Error("a change after a while of quiet is not in the list at once")
		}
		cancel()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
}
