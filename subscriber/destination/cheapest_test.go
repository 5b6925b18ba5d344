package destination_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber"
	"github.com/rshub/rshub/subscriber/destination"
)

// dataGets returns how many resources were requested.
func dataGets(s *source) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, gets := range s.gets {
		if strings.HasPrefix(path, "/data/") {
			n += gets
		}
	}
	return n
}

// listedAndDumped makes a Source with 250 changes in its Change List, 200 of which are in two
// packages of its Change Dump.
func listedAndDumped(t *testing.T) (s *source, d *changeDumps) {
	s = newSource(t)
	d = dumpsChanges(s)
	s.offers = append(s.offers, resourcesync.ChangeList)
	name := func(i int) string { return fmt.Sprintf("d%d/%d", i%9, i) }
	for i := range 250 {
		s.put(name(i), "first", 0)
	}
	s.freezeList()
	return s, d
}

// change changes the resources with their numbers from first to last, one each second, and packs
// them if pack is set.
func (d *changeDumps) change(first, last int, pack bool) {
	var changes []change
	for i := first; i < last; i++ {
		name, body := fmt.Sprintf("d%d/%d", i%9, i), fmt.Sprintf("second %d", i)
		d.put(name, body, i+1)
		changes = append(changes, change{i + 1, name, body})
	}
	if pack {
		d.add(first, last, changes...)
	}
}

// Where packages of the Change Dump cost less than their changes one by one, these come from them:
// of 250 changes, 50 are requested. The report says so.
func TestChangesFromDumpsWhereCheaper(t *testing.T) {
	s, d := listedAndDumped(t)
	dir := t.TempDir()
	c := s.open(dir)
	if r, err := c.Sync(t.Context()); err != nil || r.Copied != 250 {
		t.Fatalf("%v %+v", err, r)
	}
	before := dataGets(s)
	d.change(0, 120, true)
	d.change(120, 200, true)
	d.change(200, 250, false)
	r, err := c.Sync(t.Context())
	if err != nil || !r.InSync() || r.Copied != 250 || r.Baseline != "" {
		t.Errorf("%v %+v", err, r)
	}
	if n := dataGets(s) - before; n != 50 || s.gets["/part0.zip"] != 1 || s.gets["/part1.zip"] != 1 {
		t.Errorf("%d resources were requested, and packages %d and %d times", n, s.gets["/part0.zip"], s.gets["/part1.zip"])
	}
	if got := r.Sets[0].Choices; len(got) != 1 || got[0].For != "changes" || got[0].Used != "dump" || !strings.Contains(got[0].Why, "2 requests, ") ||
		!strings.Contains(got[0].Why, "200 requests, ") || !strings.Contains(got[0].Why, "50 other changes") {
		t.Errorf("%+v", got)
	}
	s.same(dir)
	if a, err := c.Audit(t.Context(), false); err != nil || !a.InSync || a.Equal != 250 {
		t.Errorf("%v %+v", err, a)
	}
}

// One who follows and is not pushed to reads packages, too, where these cost less.
func TestFollowerReadsCheaperDumps(t *testing.T) {
	s, d := listedAndDumped(t)
	p := followWith(t, s, []string{resourcesync.ResourceList, resourcesync.ChangeList, resourcesync.ChangeDump}, func(o *destination.Options) {
		o.Via, o.Callback, o.PollEvery = subscriber.ViaAuto, "", 50*time.Millisecond // its hub has no stream
	})
	for i := range 250 {
		p.happens(destination.Copied, fmt.Sprintf("d%d/%d", i%9, i), "")
	}
	before := dataGets(s)
	there := make(chan struct{})
	s.set("/changelist.xml", func(w http.ResponseWriter, _ *http.Request) {
		<-there // what comes of it, comes of all changes
		http.Error(w, "", http.StatusServiceUnavailable)
	})
	d.change(0, 120, true)
	d.change(120, 200, true)
	d.change(200, 250, false)
	s.set("/changelist.xml", nil)
	close(there)
	for i := range 250 {
		p.happens(destination.Copied, fmt.Sprintf("d%d/%d", i%9, i), "")
	}
	// The changes come in several batches, and a batch of a few is fetched one by one.
	if n := dataGets(s) - before; n < 50 || n >= 60 || p.asked("/part0.zip") != 1 || p.asked("/part1.zip") != 1 {
		t.Errorf("%d resources were requested, and packages %d and %d times", n, p.asked("/part0.zip"), p.asked("/part1.zip"))
	}
	p.same()
}

// A package that costs more than its changes, that is wrong, or that Options.Changes does not want
// is not used, and one that Options.Changes wants is, whatever it costs.
func TestChoiceOfDumps(t *testing.T) {
	big := strings.Repeat("no package ", 1000)
	for name, c := range map[string]struct {
		changes  destination.Changes
		length   int64 // that the dump gives; -1: none, 0: the right one
		damaged  bool
		gets     int // of resources
		packages int // requests for them
	}{
		"cheaper":          {"", 0, false, 0, 1},
		"dearer":           {"", 1 << 30, false, 10, 0},
		"unknown":          {"", -1, false, 10, 0},
		"unknown, wanted":  {destination.ChangesDump, -1, false, 0, 1},
		"cheaper, refused": {destination.ChangesList, 0, false, 10, 0},
		"damaged":          {"", 0, true, 10, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s, d := listedAndDumped(t)
			dir := t.TempDir()
			copied := s.open(dir, func(o *destination.Options) { o.Changes = c.changes })
			if _, err := copied.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			before := dataGets(s)
			d.change(0, 10, true)
			switch {
			case c.length < 0:
				d.entries[0].HasLength = false
			case c.length > 0:
				d.entries[0].Length = c.length
			}
			if c.damaged {
				s.set("/part0.zip", answer(big))
			}
			r, err := copied.Sync(t.Context())
			if err != nil || !r.InSync() || r.Copied != 10 {
				t.Errorf("%v %+v", err, r)
			}
			if n := dataGets(s) - before; n != c.gets || s.gets["/part0.zip"] != c.packages {
				t.Errorf("%d resources were requested, and %d packages; %+v", n, s.gets["/part0.zip"], r.Sets)
			}
			s.same(dir)
		})
	}
}

// What a package has wrong is fetched by itself: the list says what the bytes have to be.
func TestListDecidesOverDump(t *testing.T) {
	s, d := listedAndDumped(t)
	dir := t.TempDir()
	c := s.open(dir)
	if _, err := c.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := dataGets(s)
	d.change(0, 10, true)
	s.changes[3] = s.entry("d3/3", resourcesync.Updated) // the package has it with other bytes
	s.put("d3/3", "third", 0)
	e := s.entry("d3/3", resourcesync.Updated)
	e.Datetime = d.second(4)
	s.changes[3] = e
	r, err := c.Sync(t.Context())
	if err != nil || !r.InSync() || r.Copied != 10 || dataGets(s)-before != 1 {
		t.Errorf("%v %+v; %d were requested", err, r, dataGets(s)-before)
	}
	s.same(dir)
}

// A new baseline comes from the Resource Dump where that costs less than what the copy lacks.
func TestBaselineFromCheaperDump(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	head := resourcesync.Head{Capability: resourcesync.ResourceDumpManifest, At: s.at, Links: []resourcesync.Link{{Rel: "up", Href: s.URL + "/capabilitylist.xml"}}}
	s.put("one", "body", 0)
	c := s.open(dir)
	if r, err := c.Sync(t.Context()); err != nil || r.Copied != 1 || len(r.Sets[0].Choices) > 0 {
		t.Fatalf("%v %+v", err, r)
	}
	in := map[string]string{s.URL + "/data/one": "body"}
	for i := range 20 {
		name, body := fmt.Sprint(i), fmt.Sprintf("body %d", i)
		s.put(name, body, 0)
		in[s.URL+"/data/"+name] = body
	}
	head.At = s.at.Add(time.Minute)
	s.at, s.changes = head.At, nil // the Change List does not reach back to the baseline
	part := pack(t, head, in, nil)
	s.set("/part.zip", answer(part))
	s.offers = append(s.offers, resourcesync.ResourceDump)
	s.set("/resourcedump.xml", func(w http.ResponseWriter, _ *http.Request) {
		s.write(w, resourcesync.Head{Capability: resourcesync.ResourceDump, At: s.at, Links: head.Links}, resourcesync.Entry{
			Loc: s.URL + "/part.zip", Length: int64(len(part)), HasLength: true,
		})
	})
	before := dataGets(s)
	r, err := c.Sync(t.Context())
	if err != nil || r.Copied != 20 || dataGets(s) != before || !strings.HasSuffix(r.Baseline, "/resourcedump.xml") {
		t.Errorf("%v %+v", err, r)
	}
	if got := r.Sets[0].Choices; len(got) != 1 || got[0].For != "baseline" || got[0].Used != "dump" || !strings.Contains(got[0].Why, "20 requests, ") {
		t.Errorf("%+v", got)
	}
	s.same(dir)
}
