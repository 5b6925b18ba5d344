package publisher

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/resourcesync"
)

func openAt(t *testing.T, dir string, change func(*Options)) *Publisher {
	t.Helper()
	o := Options{Dir: dir, Topic: bedTopic}
	if change != nil {
		change(&o)
	}
	p, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// cutEntries cuts all, and returns the entries of the intervals, one after the
// other.
func cutEntries(t *testing.T, p *Publisher) (is []interval, entries []resourcesync.Entry) {
	t.Helper()
	cutAll(t, p)
	at := time.Time{}
	for {
		found, err := boltfile.Read(p.box.db, func(tx *boltfile.Tx) []interval { return beginningAt(tx, at) })
		if err != nil {
			t.Fatal(err)
		}
		if len(found) == 0 {
			return is, entries
		}
		i := found[len(found)-1]
		body, err := p.box.body(i)
		if err != nil {
			t.Fatal(err)
		}
		r := resourcesync.NewNotificationReader(bytes.NewReader(body), resourcesync.Limits{})
		for {
			e, err := r.Next()
			if err != nil {
				break
			}
			entries = append(entries, e)
		}
		is, at = append(is, i), i.Until
	}
}

func change(seq uint64, at time.Time, loc string) Change {
	return Change{Seq: seq, At: at, Entry: resourcesync.Entry{Loc: loc, Change: resourcesync.Updated}}
}

// DOC-13, DOC-18: times strictly rise, whatever is given, and are kept where they
// do; intervals are half-open, and the first begins at From or before.
func TestTimesRise_DOC13_DOC18(t *testing.T) {
	base := time.Date(2026, 5, 1, 12, 0, 0, 123, time.UTC)
	p := openAt(t, t.TempDir(), func(o *Options) { o.From = base.Add(time.Hour); o.MaxEntries = 2 })
	given := []time.Duration{0, time.Nanosecond, time.Nanosecond, -time.Hour, time.Minute, 2 * time.Minute}
	for n, d := range given {
		if err := p.Record(t.Context(), change(0, base.Add(d), resource(n))); err != nil {
			t.Fatal(err)
		}
	}
	is, entries := cutEntries(t, p)
	want := []time.Duration{0, 1, 2, 3, time.Minute, 2 * time.Minute}
	for n, e := range entries {
		if !e.Datetime.Equal(base.Add(want[n])) {
			t.Errorf("change %d is at %v, want %v", n, e.Datetime, base.Add(want[n]))
		}
	}
	if len(is) != 3 || !is[0].From.Equal(base) || !is[2].Until.Equal(base.Add(2*time.Minute+1)) {
		t.Errorf("%d intervals: %+v", len(is), is)
	}
	// One that is in an interval that was cut comes after it.
	if err := p.Record(t.Context(), change(0, base, resource(9))); err != nil {
		t.Fatal(err)
	}
	if is, entries := cutEntries(t, p); !entries[6].Datetime.Equal(is[2].Until) {
		t.Errorf("%v", entries[6].Datetime)
	}
	// Without a time, whole microseconds, of now.
	before := time.Now().Truncate(time.Microsecond)
	if err := p.Record(t.Context(), change(0, time.Time{}, resource(10)), change(0, time.Time{}, resource(11))); err != nil {
		t.Fatal(err)
	}
	_, entries = cutEntries(t, p)
	if a, z := entries[7].Datetime, entries[8].Datetime; a.Before(before) || !z.After(a) || a.Nanosecond()%1000 != 0 || z.Nanosecond()%1000 != 0 {
		t.Errorf("%v, %v", a, z)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// A feeder may repeat itself, after a restart too: what has a Seq is recorded once.
func TestSeqIsRecordedOnce(t *testing.T) {
	dir := t.TempDir()
	for round := range 3 {
		p := openAt(t, dir, nil)
		if want := uint64(5 * round); p.Recorded() != want {
			t.Errorf("recorded: %d, want %d", p.Recorded(), want)
		}
		var all []Change
		for seq := 1; seq <= 5*round+5; seq++ {
			all = append(all, change(uint64(seq), time.Time{}, resource(seq)))
		}
		all = append(all, all[1])
		if err := p.Record(t.Context(), all...); err != nil {
			t.Fatal(err)
		}
		if round == 2 {
			_, entries := cutEntries(t, p)
			if len(entries) != 15 {
				t.Errorf("%d entries", len(entries))
			}
			for n, e := range entries {
				if e.Loc != resource(n+1) {
					t.Errorf("entry %d is %s", n, e.Loc)
				}
			}
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// DOC-60: no interval has more entries or bytes than are asked for.
func TestIntervalsAreLimited_DOC60(t *testing.T) {
	for _, limit := range []struct {
		entries, want int
		bytes         int64
	}{{10, 10, 0}, {50_000, 1, 10 << 20}, {0, 25, 3000}} {
		p := openAt(t, t.TempDir(), func(o *Options) { o.MaxEntries, o.MaxBytes = limit.entries, limit.bytes })
		var all []Change
		for n := range 100 {
			all = append(all, change(0, time.Time{}, resource(n)))
		}
		if err := p.Record(t.Context(), all...); err != nil {
			t.Fatal(err)
		}
		is, entries := cutEntries(t, p)
		if len(entries) != 100 || len(is) > limit.want {
			t.Errorf("%d entries in %d intervals, want at most %d", len(entries), len(is), limit.want)
		}
		for n, i := range is {
			if i.Entries > p.o.MaxEntries || i.Size > p.o.MaxBytes || n > 0 && !i.From.Equal(is[n-1].Until) {
				t.Errorf("%+v", i)
			}
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if o, err := (Options{Dir: "x", Topic: bedTopic, MaxEntries: 1 << 30, MaxBytes: 1 << 40}).withDefaults(); err != nil || o.MaxEntries != 50_000 || o.MaxBytes != 50<<20 {
		t.Errorf("%+v %v", o, err)
	}
}

// What can't be published is refused when it is recorded, and nothing of the call
// is kept.
func TestRecordRefuses_DOC17_DOC20_DOC60(t *testing.T) {
	good := change(0, time.Time{}, resource(0))
	for name, bad := range map[string]Change{
		"no loc":      {Entry: resourcesync.Entry{Change: resourcesync.Updated}},
		"no change":   {Entry: resourcesync.Entry{Loc: resource(1)}},
		"odd change":  {Entry: resourcesync.Entry{Loc: resource(1), Change: "moved"}},
		"not UTF-8":   change(0, time.Time{}, resource(1)+"\xff"),
		"too far":     change(0, time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC), resource(1)),
		"too long":    {Entry: resourcesync.Entry{Loc: resource(1), Change: resourcesync.Updated, Links: []resourcesync.Link{{Rel: "alternate", Href: "https://x.example/" + strings.Repeat("x", 1500)}}}},
		"a framework": {Entry: resourcesync.Entry{Loc: resource(1), Change: resourcesync.Updated, Capability: resourcesync.ResourceList}},
	} {
		p := openAt(t, t.TempDir(), func(o *Options) { o.MaxBytes = 1600 })
		if err := p.Record(t.Context(), good, bad); err == nil || !strings.Contains(err.Error(), "change 2 of 2") {
			t.Errorf("%s: %v", name, err)
		}
		if err := p.Record(t.Context(), change(0, time.Unix(-1, 0), resource(1))); err == nil || !strings.Contains(err.Error(), "1970") {
			t.Errorf("a first change before 1970: %v", err)
		}
		if st := p.Status(); st.Queued != 0 {
			t.Errorf("%s: %d are queued", name, st.Queued)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A deletion says nothing of bytes that are gone (DOC-17).
func TestDeletionHasNoHash_DOC17(t *testing.T) {
	p := openAt(t, t.TempDir(), nil)
	e := resourcesync.Entry{Loc: resource(0), Change: resourcesync.Deleted, Hash: "md5:0cc175b9c0f1b6a831c399e269772661", Type: "text/plain", Encoding: "gzip", Length: 3, HasLength: true}
	if err := p.Record(t.Context(), Change{Entry: e}); err != nil {
		t.Fatal(err)
	}
	if _, entries := cutEntries(t, p); entries[0].Hash+entries[0].Type+entries[0].Encoding != "" || entries[0].HasLength {
		t.Errorf("%+v", entries[0])
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// Framework notifications have the Capability List above them, or the Source
// Description where they are about Capability Lists (DOC-20).
func TestFrameworkNotifications_DOC20(t *testing.T) {
	const list, description = "https://source.example/capabilitylist.xml", "https://source.example/.well-known/resourcesync"
	p := openAt(t, t.TempDir(), func(o *Options) {
		o.Kind, o.CapabilityList, o.SourceDescription, o.MaxEntries = Framework, list, description, 1
	})
	for _, c := range []string{resourcesync.ResourceList, resourcesync.CapabilityList, resourcesync.ChangeListArchive} {
		if err := p.Record(t.Context(), Change{Entry: resourcesync.Entry{Loc: "https://source.example/" + c, Change: resourcesync.Updated, Capability: c}}); err != nil {
			t.Fatal(err)
		}
	}
	is, _ := cutEntries(t, p)
	for n, want := range []string{list, description, list} {
		body, err := p.box.body(is[n])
		if err != nil {
			t.Fatal(err)
		}
		got, err := resourcesync.CheckNotification(bytes.NewReader(body), resourcesync.Limits{})
		if err != nil || got.Up != want || got.Capability != resourcesync.FrameworkNotification {
			t.Errorf("%+v %v", got, err)
		}
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}
