package subscriber

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/websub"
)

const labIndex, labArchive, labOld, labNew = "https://source.example/index", "https://source.example/archive", "https://source.example/old", "https://source.example/new"

// list serves a Change List from and until seconds, until < 0 being open.
func (l *lab) list(url string, from, until float64, seconds ...float64) {
	h := resourcesync.Head{Capability: resourcesync.ChangeList, From: l.second(from)}
	if until >= 0 {
		h.Until = l.second(until)
	}
	l.serve(url, h, l.changes(seconds...)...)
}

func (l *lab) serve(url string, h resourcesync.Head, entries ...resourcesync.Entry) {
	l.page(url, func(w http.ResponseWriter, _ *http.Request) { l.write(w, h, entries...) })
}

func (l *lab) raw(url, text string) {
	l.page(url, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) })
}

func (l *lab) member(url string, from, until float64) resourcesync.Entry {
	e := resourcesync.Entry{Loc: url, From: l.second(from)}
	if until >= 0 {
		e.Until = l.second(until)
	}
	return e
}

func (l *lab) index() resourcesync.Head {
	return resourcesync.Head{Capability: resourcesync.ChangeList, Index: true, From: l.from}
}

func gone(w http.ResponseWriter, _ *http.Request) { http.Error(w, "gone", http.StatusNotFound) }

// A gap from 10 to 30 is repaired from whatever lists a Source has (DST-16, DST-19),
// told apart by their roots (DST-18); links in them are not followed (DST-17). Where
// none reaches back far enough the application needs a baseline.
func TestRepair_DST16_DST17_DST18_DST19(t *testing.T) {
	toIndex := []resourcesync.Link{{Rel: "index", Href: labIndex}, {Rel: "up", Href: labCaps}}
	for name, c := range map[string]struct {
		set  func(l *lab)
		want string
		gaps string
	}{
		"open":               {func(l *lab) { l.list(labList, 0, -1, 5, 15, 25, 35) }, "15 25 35", "missed repaired 10-30:2"},
		"closed, to its end": {func(l *lab) { l.list(labList, 0, 30, 5, 15) }, "15 35", "missed repaired 10-30:1"},
		"a change links elsewhere": {func(l *lab) {
			e := l.change(15)
			e.Links = []resourcesync.Link{{Rel: "https://example.org/strange", Href: "https://nowhere.example/"}}
			l.serve(labList, resourcesync.Head{Capability: resourcesync.ChangeList, From: l.from}, e, l.change(35))
		}, "15 35", "missed repaired 10-30:1"},
		"closed, and the index has the next": {func(l *lab) {
			l.serve(labList, resourcesync.Head{Capability: resourcesync.ChangeList, From: l.from, Until: l.second(20), Links: toIndex}, l.changes(5, 15)...)
			l.serve(labIndex, l.index(), l.member(labList, 0, 20), l.member(labNew, 20, -1))
			l.list(labNew, 20, -1, 25, 35)
		}, "15 25 35", "missed repaired 10-30:2"},
		"open, and the index has the one before": {func(l *lab) {
			l.serve(labList, resourcesync.Head{Capability: resourcesync.ChangeList, From: l.second(20), Links: toIndex}, l.changes(25, 35)...)
			l.serve(labIndex, l.index(), l.member(labOld, 0, 20), l.member(labList, 20, -1))
			l.list(labOld, 0, 20, 5, 15)
		}, "15 25 35", "missed repaired 10-30:2"},
		"closed, without an index: the Capability List has the next": {func(l *lab) {
			l.o.ChangeList = labOld
			l.serve(labOld, resourcesync.Head{Capability: resourcesync.ChangeList, From: l.from, Until: l.second(20), Links: toIndex[1:]}, l.changes(5, 15)...)
			l.list(labList, 20, -1, 25, 35)
		}, "15 25 35", "missed repaired 10-30:2"},
		"an index where the list is looked for": {func(l *lab) {
			l.serve(labList, l.index(), l.member(labOld, 0, 20), l.member(labNew, 20, -1))
			l.list(labOld, 0, 20, 15)
			l.list(labNew, 20, -1, 25, 35)
		}, "15 25 35", "missed repaired 10-30:2"},
		"an index that tells nothing of its members": {func(l *lab) {
			l.raw(labList, `<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="changelist"/>`+
				`<sitemap><loc>`+labNew+`</loc></sitemap><sitemap><loc>`+labOld+`</loc></sitemap></sitemapindex>`)
			l.list(labOld, 0, 20, 15)
			l.list(labNew, 20, -1, 25, 35)
		}, "15 25 35", "missed repaired 10-30:2"},
		"the archive": {func(l *lab) {
			l.o.ChangeList, l.o.ChangeListArchive = labList, labArchive
			l.list(labList, 20, -1, 25, 35)
			l.serve(labArchive, resourcesync.Head{Capability: resourcesync.ChangeListArchive}, l.member(labOld, 0, 20))
			l.list(labOld, 0, 20, 15)
		}, "15 25 35", "missed repaired 10-30:2"},
		"too late": {func(l *lab) { l.list(labList, 20, -1, 25, 35) }, "baseline 10-20 25 35", "missed baseline 10-20:0, missed repaired 20-30:1"},
		"too late, and the archive is gone": {func(l *lab) {
			l.o.ChangeList, l.o.ChangeListArchive = labList, labArchive
			l.page(labArchive, gone)
			l.list(labList, 50, -1)
		}, "baseline 10-30 35", "missed baseline 10-30:0"},
		"a hole": {func(l *lab) {
			l.serve(labList, l.index(), l.member(labOld, 0, 15), l.member(labNew, 20, -1))
			l.list(labOld, 0, 15, 12)
			l.list(labNew, 20, -1, 25, 35)
		}, "baseline 10-20 25 35", "missed baseline 10-20:0, missed repaired 20-30:1"},
		"an index that lies": {func(l *lab) {
			l.serve(labList, l.index(), l.member(labNew, 0, -1))
			l.list(labNew, 20, -1, 25, 35)
		}, "baseline 10-20 25 35", "missed baseline 10-20:0, missed repaired 20-30:1"},
		"no list": {func(l *lab) {
			l.serve(labCaps, resourcesync.Head{Capability: resourcesync.CapabilityList},
				resourcesync.Entry{Loc: labTopic, Capability: resourcesync.ChangeNotification, Links: []resourcesync.Link{{Rel: "hub", Href: labHub}}})
		}, "baseline 10-30 35", "missed baseline 10-30:0"},
		"a list of the future": {func(l *lab) { l.list(labList, 0, -1, 15, 25, 35, 1e8) }, "15 25 35", "missed repaired 10-30:2"},
		"changes out of order": {func(l *lab) {
			l.raw(labList, listOf(l, `from="`+stamp(l, 0)+`"`, 25, 15, 35))
		}, "15 25 35", "missed repaired 10-30:2"},
	} {
		t.Run(name, func(t *testing.T) {
			subscribed(t, nil, func(l *lab) {
				c.set(l)
				l.restart()
				l.pushed(0, 10, 5)
				l.pushed(30, 40, 35)
				l.want("5")
				l.after(time.Minute)
				l.want(c.want)
				if got := l.gaps(); got != c.gaps || l.status().Trouble != "" {
					l.Errorf("%s, trouble %q; want %s", got, l.status().Trouble, c.gaps)
				}
				l.pushed(40, 50, 45)
				l.want("45")
			})
		})
	}
}

func stamp(l *lab, s float64) string { return resourcesync.FormatDatetime(l.second(s)) }

// listOf is a Change List as text.
func listOf(l *lab, attributes string, seconds ...float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="changelist" %s/>`, attributes)
	for _, s := range seconds {
		fmt.Fprintf(&b, `<url><loc>https://source.example/r/%g</loc><rs:md change="updated" datetime="%s"/></url>`, s, stamp(l, s))
	}
	return b.String() + `</urlset>`
}

// A list that is behind the hub is asked again, patiently; if it stays behind, nobody
// has what is missing.
func TestListIsBehind(t *testing.T) {
	subscribed(t, nil, func(l *lab) {
		l.list(labList, 0, -1, 5)
		l.pushed(0, 10, 5)
		l.pushed(30, 40, 35)
		l.after(5 * time.Minute)
		l.want("5")
		if st := l.status(); !strings.Contains(st.Trouble, "does not have it yet") || l.gaps() != "missed open 10-30:0" {
			l.Errorf("%s, %+v", l.gaps(), st)
		}
		l.list(labList, 0, -1, 5, 15) // still behind
		l.after(2 * time.Minute)
		l.restart() // and patience goes on
		l.list(labList, 0, -1, 5, 15, 25, 35)
		l.after(repairMax)
		l.want("15 25 35")
		if got := l.gaps(); got != "missed repaired 10-30:2" || l.status().Trouble != "" {
			l.Errorf("%s %q", got, l.status().Trouble)
		}
	})
	subscribed(t, nil, func(l *lab) {
		l.list(labList, 0, -1, 5)
		l.pushed(0, 10, 5)
		l.pushed(30, 40, 35)
		l.after(repairPatience - time.Minute)
		l.want("5")
		l.after(repairMax + time.Minute)
		l.want("baseline 10-30 35")
		if got := l.gaps(); got != "missed baseline 10-30:0" {
			l.Error(got)
		}
	})
}

// Lists that can't be had are asked for a day, after ever longer pauses; then the
// stream goes on with a baseline.
func TestListIsAway(t *testing.T) {
	subscribed(t, nil, func(l *lab) {
		var asked atomic.Int32
		l.page(labList, func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			http.Error(w, "away", http.StatusBadGateway)
		})
		l.pushed(30, 40, 35)
		l.after(repairGiveUp - time.Hour)
		l.want("")
		if n := asked.Load(); n < 200 || n > 400 {
			l.Errorf("asked %d times in a day", n)
		}
		l.after(2 * time.Hour)
		l.want("baseline 0-30 35")
	})
}

// What comes late closes the gap, also while a repair is under way.
func TestComesLate(t *testing.T) {
	subscribed(t, nil, func(l *lab) {
		l.list(labList, 0, -1, 5)
		l.pushed(20, 30, 25)
		l.after(time.Minute)
		l.pushed(0, 10, 5)
		l.after(time.Minute)
		l.pushed(10, 20, 15)
		l.want("5 15 25")
		l.after(repairMax)
		if got := l.gaps(); strings.Contains(got, GapOpen) || l.status().Trouble != "" {
			l.Errorf("%s, %q", got, l.status().Trouble)
		}
	})
}

// A list as the Python client writes it, without from and datetime: what was added to
// it since is handed on, once, and the gap is closed when the list is newer than it.
func TestPythonList(t *testing.T) {
	subscribed(t, nil, func(l *lab) {
		n, modified := 1, time.Time{}
		l.page(labList, func(w http.ResponseWriter, _ *http.Request) {
			l.mu.Lock()
			defer l.mu.Unlock()
			if !modified.IsZero() {
				w.Header().Set("Last-Modified", modified.UTC().Format(http.TimeFormat))
			}
			_, _ = fmt.Fprint(w, `<?xml version='1.0'?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="changelist"/>`)
			for i := range n {
				_, _ = fmt.Fprintf(w, `<url><loc>https://source.example/r/p%d</loc><lastmod>2001-01-01T00:00:00Z</lastmod><rs:md change="updated"/></url>`, i)
			}
			_, _ = fmt.Fprint(w, `</urlset>`)
		})
		if err := l.sub.CatchUp(l.Context()); err != nil {
			l.Fatal(err)
		}
		l.want("p0")
		l.pushed(0, 10, 5)
		l.pushed(30, 40, 35)
		l.mu.Lock()
		n = 3
		l.mu.Unlock()
		l.after(time.Minute)
		l.want("5 p1 p2")
		l.mu.Lock()
		n, modified = 4, l.second(50)
		l.mu.Unlock()
		l.after(repairMax)
		l.want("p3 35")
		if st := l.status(); len(st.Gaps) != 1 || !st.Gaps[0].Unproven || st.Gaps[0].State != GapRepaired || st.Gaps[0].Changes != 3 {
			l.Errorf("%+v", st.Gaps)
		}
	})
}

// Pulling alone, over and over, hands each change on once; it needs a beginning.
func TestCatchUp(t *testing.T) {
	subscribed(t, nil, func(l *lab) {
		for n := range 5 {
			l.listed(float64(2*n), float64(2*n+1))
			if err := l.sub.CatchUp(l.Context()); err != nil {
				l.Fatal(err)
			}
			l.want(fmt.Sprintf("%d %d", 2*n, 2*n+1))
		}
		if err := l.sub.CatchUp(l.Context()); err != nil {
			l.Fatal(err)
		}
		l.want("")
		if got := l.gaps(); got != "" {
			l.Error(got)
		}
		l.pushed(0, 20, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12)
		l.want("12")
		var seen []float64
		until, err := ReadChanges(l.Context(), l, Set{Documents: map[string]string{resourcesync.ChangeList: labList}}, l.second(7), ListLimit{}, func(e resourcesync.Entry) error {
			seen = append(seen, e.Datetime.Sub(l.from).Seconds())
			return nil
		})
		if err != nil || fmt.Sprint(seen) != "[7 8 9]" || !until.Equal(l.second(9)) {
			l.Errorf("%v until %v: %v", seen, until, err)
		}
	})
	subscribed(t, func(l *lab) { l.o.Start = time.Time{} }, func(l *lab) {
		if err := l.sub.CatchUp(l.Context()); err == nil || !strings.Contains(err.Error(), "Options.Start") {
			l.Errorf("without a beginning: %v", err)
		}
	})
}

// What is pulled may reach beyond what waits for others: that is dropped then, and
// nothing goes back behind it.
func TestCatchUpPassesWhatIsHeld(t *testing.T) {
	subscribed(t, nil, func(l *lab) {
		l.pushed(0, 10, 5)
		l.pushed(20, 30, 25)
		l.listed(5, 15, 25, 35)
		if err := l.sub.CatchUp(l.Context()); err != nil {
			l.Fatal(err)
		}
		l.want("5 15 25 35")
		if st := l.status(); st.Counts.Held != 0 || !st.Until.Equal(l.second(35)) {
			l.Errorf("until %v, %+v", st.Until, st.Counts)
		}
		l.pushed(30, 40, 35)
		l.want("")
	})
}

// A long repair is handed on in batches, in order, and does not outgrow the backlog.
func TestLongRepair(t *testing.T) {
	subscribed(t, func(l *lab) { l.o.MaxBacklog = 256 << 10 }, func(l *lab) {
		const n = 12_000
		var all []float64
		for i := range n {
			all = append(all, float64(i/10)) // ten at a time
		}
		entries := l.changes(all...)
		for i := range entries {
			entries[i].Loc = fmt.Sprintf("https://source.example/r/%d", i)
		}
		l.serve(labList, resourcesync.Head{Capability: resourcesync.ChangeList, From: l.from, Until: l.second(3000)}, entries...)
		l.pushed(3000, 3001, 3000)
		next := 0
		for range 30 {
			l.after(repairMax)
			if got := l.status().Counts.Backlog; got > 4<<20 {
				l.Fatalf("a backlog of %d", got)
			}
			for _, name := range strings.Fields(l.waiting()) {
				if next < n && name != fmt.Sprint(next) || next == n && name != "3000" {
					l.Fatalf("%s instead of %d", name, next)
				}
				next++
			}
		}
		if next != n+1 {
			l.Errorf("%d changes", next)
		}
	})
}

// All changes of a list come at once, however many batches they are, so whoever looks ahead finds them together.
func TestListComesAtOnce(t *testing.T) {
	subscribed(t, nil, func(l *lab) {
		const n = 2*batchEntries + 1
		l.pushed(0, 1, 0)
		l.want("0")
		var all []float64
		for i := range n {
			all = append(all, float64(i+1))
		}
		l.serve(labList, resourcesync.Head{Capability: resourcesync.ChangeList, From: l.from}, l.changes(all...)...)
		done := make(chan error, 1)
		go func() { done <- l.sub.CatchUp(l.Context()) }()
		got := 0
		for start := (Cursor{Batch: 1}); got == 0 && l.Context().Err() == nil; runtime.Gosched() {
			for range l.sub.Ahead(l.Context(), start) {
				got++
			}
		}
		if err := <-done; err != nil || got != n {
			l.Errorf("%d of %d came at once: %v", got, n, err)
		}
	})
}

// Ahead looks beside a range, from a change on, and leaves both as they are.
func TestAhead(t *testing.T) {
	subscribed(t, nil, func(l *lab) {
		l.pushed(0, 10, 1, 2, 3)
		l.pushed(10, 20, 11)
		got := ""
		for c := range l.sub.Waiting(l.Context()) {
			got += l.name(&c) + ":"
			for next := range l.sub.Ahead(l.Context(), c.Cursor) {
				got += l.name(&next) + " "
			}
		}
		if want := "1:2 3 11 2:3 11 3:11 11:"; got != want || l.sub.Err() != nil {
			l.Errorf("%q, want %q: %v", got, want, l.sub.Err())
		}
	})
}

// After a start the Change List is asked at once for what may not have been pushed; with
// CheckEvery negative it is not (DST-16).
func TestListIsAskedAtOnceAfterAStart(t *testing.T) {
	for _, every := range []time.Duration{time.Hour, -1} {
		subscribed(t, func(l *lab) { l.o.CheckEvery = every }, func(l *lab) {
			l.pushed(0, 10, 5)
			l.want("5")
			l.end()
			l.listed(5, 15, 16)
			l.start()
			if every < 0 {
				l.want("")
				return
			}
			l.want("15 16")
			if got := l.gaps(); got != "start repaired 10-16:2" {
				l.Error(got)
			}
			if l.requests() != 1 {
				l.Errorf("%d requests: the lease was renewed, although nothing is wrong with it", l.requests())
			}
		})
	}
}

// Where there is no Change List the application looks itself: at the start, when there is
// a lease again, and every CheckEvery. A gap needs a baseline at once.
func TestLookInPlaceOfAChangeList(t *testing.T) {
	var looks atomic.Int32
	subscribed(t, func(l *lab) { l.o.CheckEvery, l.o.Look = time.Hour, func() { looks.Add(1) } }, func(l *lab) {
		if n := looks.Load(); n != 2 {
			l.Errorf("%d looks after the start and the first lease", n)
		}
		l.after(time.Hour + time.Second)
		if n := looks.Load(); n != 3 {
			l.Errorf("%d looks after an hour", n)
		}
		l.pushed(10, 20, 15)
		l.after(11 * time.Second)
		l.want("baseline 0-10 15")
	})
}

// A topic that names no hub, or that is no page, is subscribed to at a hub that others
// know; one that is away is waited for (SRC-11).
func TestHubsThatOthersKnow_SRC11(t *testing.T) {
	others := func(l *lab) { l.o.Hubs = []string{labHub} }
	for name, page := range map[string]http.HandlerFunc{
		"no hub": func(http.ResponseWriter, *http.Request) {}, "no page": http.NotFound,
	} {
		subscribed(t, func(l *lab) { others(l); l.page(labTopic, page) }, func(l *lab) {
			if f := l.form(0); f.Get(websub.ParamTopic) != labTopic {
				l.Errorf("%s: %v", name, f)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, others, func(l *lab) {
			l.page(labTopic, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "", http.StatusBadGateway) })
		})
		l.after(time.Second)
		if l.requests() != 0 {
			l.Errorf("%d requests", l.requests())
		}
	})
}

// A Change List over Options.MaxEntries is refused by an error that names the option.
func TestMaxEntries_DOC60(t *testing.T) {
	subscribed(t, func(l *lab) { l.o.MaxEntries = 2 }, func(l *lab) {
		l.listed(1, 2, 3)
		if err := l.sub.CatchUp(l.Context()); err == nil || !strings.Contains(err.Error(), "Options.MaxEntries allows 2 entries") {
			l.Errorf("three entries: %v", err)
		}
	})
}

// Late changes wait for room like all others, and come once.
func TestLateChangesWaitForRoom(t *testing.T) {
	subscribed(t, func(l *lab) { l.o.MaxBacklog = 1 }, func(l *lab) {
		l.pushed(0, 50, 50)
		l.want("50")
		l.raw(labList, listOf(l, `from="`+stamp(l, 0)+`"`, 50))
		l.sub.repairer.catchUp(GapStart)
		l.after(time.Second)
		l.pushed(50, 60, 55)
		before := l.status().Counts.Backlog
		l.raw(labList, listOf(l, `from="`+stamp(l, 0)+`"`, 50, 20, 55, 30))
		l.sub.repairer.catchUp(GapStart)
		l.after(time.Hour)
		if got := l.status().Counts.Backlog; got != before {
			l.Errorf("a backlog of %d grew to %d", before, got)
		}
		l.want("55")
		l.after(repairMax)
		l.want("20 30")
		l.after(2 * repairMax)
		l.want("")
	})
}

// Where a Change List is somewhere else each time, its beginning is known all the same, and nothing is kept of the places
// where it was.
func TestChangeListRedirects(t *testing.T) {
	subscribed(t, nil, func(l *lab) {
		l.pushed(0, 50, 50)
		l.want("50")
		for i, list := range [][]float64{{50}, {50, 20}, {50, 20, 60}, {50, 20, 60, 30}} {
			at := fmt.Sprintf("https://source.example/signed?%d", i)
			l.page(labList, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", at)
				w.WriteHeader(http.StatusFound)
			})
			l.raw(at, listOf(l, `from="`+stamp(l, 0)+`"`, list...))
			if err := l.sub.CatchUp(l.Context()); err != nil {
				l.Fatal(err)
			}
			l.want([]string{"", "20", "60", "30"}[i])
		}
		l.raw("https://source.example/other", listOf(l, `from="`+stamp(l, 0)+`"`, 50))
		l.serve(labCaps, resourcesync.Head{Capability: resourcesync.CapabilityList}, resourcesync.Entry{Loc: "https://source.example/other", Capability: resourcesync.ChangeList},
			resourcesync.Entry{Loc: labTopic, Capability: resourcesync.ChangeNotification, Links: []resourcesync.Link{{Rel: "hub", Href: labHub}}})
		if err := l.sub.CatchUp(l.Context()); err != nil {
			l.Fatal(err)
		}
		var known []string
		_ = l.sub.inbox.db.View(func(tx *tx) error {
			for key := range tx.Bucket(metaBucket).From([]byte(seenPrefix)) {
				if strings.HasPrefix(string(key), seenPrefix) {
					known = append(known, string(key))
				}
			}
			return nil
		})
		if len(known) != 1 {
			l.Errorf("it knows %q", known)
		}
	})
}
