package source

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/publisher"
	"github.com/rshub/rshub/resourcesync"
)

func announcedIndex(t *testing.T, dir string) *Index {
	t.Helper()
	x, err := OpenIndex(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.beginAnnounced(time.Unix(1000, 0)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	return x
}

func says(name string, sum byte, changes ...Given) Announcement {
	if changes == nil {
		changes = []Given{{Change: resourcesync.Updated, Resource: Resource{URL: "https://example.org/" + name, Length: UnknownLength}}}
	}
	return Announcement{Name: name, Sum: [32]byte{sum}, Changes: changes}
}

// Two record changes at once, one of them from an older snapshot. Each change is recorded once, and nobody takes the
// older log for one that was begun anew.
func TestChangesAreRecordedOnce(t *testing.T) {
	s, err := Open(Options{
		PublicURL: "https://example.org/", StateDir: t.TempDir(), Sets: []Set{{Announced: true}}, Hubs: []publisher.Hub{{URL: "https://hub.example/"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := s.Announce("other", says("a", 1)); err == nil || !strings.Contains(err.Error(), `no set "other"`) {
		t.Error(err)
	}
	long := Given{Change: resourcesync.Created, Resource: Resource{Path: strings.Repeat("a/", 1020), Length: UnknownLength}}
	long.Resource.Path += "a" // its URL is longer by that of the Source
	if _, err := s.Announce("", says("long", 1, long)); !errors.Is(err, ErrGiven) || !strings.Contains(err.Error(), "2048 are the most") {
		t.Error(err)
	}
	x := s.sets[0]
	announce := func(name string) {
		if _, err := s.Announce("", says(name, 1)); err != nil {
			t.Fatal(err)
		}
	}
	announce("a")
	err = x.index.read(func(old *Snapshot) error {
		announce("b")
		return errors.Join(x.feed(t.Context()), x.feedFrom(t.Context(), old))
	})
	announce("c")
	if err = errors.Join(err, x.feed(t.Context())); err != nil {
		t.Fatal(err)
	}
	if n, offset := x.changes.Recorded(), x.shelf.current().History.Offset; n != 3 || offset != 0 {
		t.Errorf("the outbox has changes up to %d, and the log is %d behind it", n, offset)
	}
}

// A change that is none would keep everything after it in the log from being published.
func TestAnnounceRefusesWhatIsNoChange(t *testing.T) {
	x := announcedIndex(t, t.TempDir())
	for _, change := range []resourcesync.ChangeType{"", "upserted"} {
		wrong := Given{Resource: Resource{URL: "https://example.org/wrong"}, Change: change}
		if _, err := x.announce(time.Now(), []Announcement{says("good", 1), says("wrong", 2, wrong)}, nil); !errors.Is(err, ErrGiven) {
			t.Errorf("the change %q: %v", change, err)
		}
	}
	if got := logOf(t, x); len(got) > 0 {
		t.Errorf("logged %q", got)
	}
}

// Names are remembered for 72 hours, also over a restart, and forgotten then. There are never
// more than a limit, and one that is over it is refused.
func TestNamesAreRemembered(t *testing.T) {
	dir := t.TempDir()
	x := announcedIndex(t, dir)
	x.mostNames = 3
	now := time.Unix(2000, 0)
	want := func(r Receipt, a Announcement) {
		t.Helper()
		got, err := x.announce(now, []Announcement{a}, nil)
		if err != nil || got[0].Last != r.Last || got[0].Repeated != r.Repeated || !errors.Is(got[0].Err, r.Err) {
			t.Errorf("%s: %+v, %v, want %+v", a.Name, got, err, r)
		}
	}
	want(Receipt{Last: 1}, says("a", 1))
	want(Receipt{Last: 1, Repeated: true}, says("a", 1))
	want(Receipt{Err: ErrNameUsed}, says("a", 2))
	now = now.Add(nameKept)
	want(Receipt{Last: 1, Repeated: true}, says("a", 1))
	want(Receipt{Last: 2}, says("b", 1))
	want(Receipt{Last: 3}, says("c", 1))
	want(Receipt{Err: ErrManyNames}, says("d", 1))
	want(Receipt{Last: 3, Repeated: true}, says("c", 1))
	want(Receipt{Last: 4}, says("", 1))
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	x = announcedIndex(t, dir)
	x.mostNames = 3
	want(Receipt{Last: 1, Repeated: true}, says("a", 1))
	want(Receipt{Err: ErrManyNames}, says("d", 1))
	now = now.Add(time.Second) // a is too old
	want(Receipt{Last: 5}, says("d", 1))
	want(Receipt{Err: ErrManyNames}, says("a", 1))
	now = now.Add(2 * nameKept)
	want(Receipt{Last: 6}, says("a", 2))
	want(Receipt{Last: 7}, says("b", 2))
	want(Receipt{Last: 8}, says("c", 2))
	want(Receipt{Err: ErrManyNames}, says("e", 1))
}

// The same name twice in one write is one request, and an error leaves nothing of the write.
func TestAnnouncementsOfOneWrite(t *testing.T) {
	x := announcedIndex(t, t.TempDir())
	got, err := x.announce(time.Now(), []Announcement{says("a", 1), says("a", 1), says("a", 2), says("b", 1)}, nil)
	if err != nil || got[0].Last != 1 || got[0].Repeated || !got[1].Repeated || got[2].Err == nil || got[3].Last != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	bad := says("c", 1, Given{Change: resourcesync.Updated, Resource: Resource{URL: "https://example.org/a b"}})
	if got, err := x.announce(time.Now(), []Announcement{says("d", 1), bad}, nil); !errors.Is(err, ErrGiven) {
		t.Errorf("%+v, %v", got, err)
	}
	if seq := x.state().last.seq; seq != 2 {
		t.Errorf("there are %d changes", seq)
	}
}

// A state is of one kind of set for ever.
func TestKindsOfStateAreApart(t *testing.T) {
	state := t.TempDir()
	o := Options{PublicURL: "https://sync.example.org/", StateDir: state, Sets: []Set{{Announced: true}}}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	o.Sets = []Set{{Folder: FolderOptions{Dir: t.TempDir()}}}
	if s, err := Open(o); !errors.Is(err, errOrigin) {
		t.Errorf("a folder over a relay's state: %v, %v", s, err)
	}
	scanned, err := OpenIndex(filepath.Join(t.TempDir(), "index"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = scanned.Close() }()
	if err := scanned.baseline(time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := scanned.beginAnnounced(time.Now()); !errors.Is(err, errOrigin) {
		t.Errorf("a relay over a folder's state: %v", err)
	}
}

// What is announced is in the Change List and on the topic as it was announced, in its order,
// even if it repeats what was announced before; there is no Resource List, and no dump (SRC-15).
func TestAnnouncedSource_SRC15(t *testing.T) {
	hub := httptest.NewServer(nil)
	defer hub.Close()
	s, err := Open(Options{
		PublicURL: "https://sync.example.org/", StateDir: t.TempDir(), Sets: []Set{{Announced: true}},
		Hubs: []publisher.Hub{{URL: hub.URL}}, Every: time.Millisecond, Schedule: Schedule{ChangeList: time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- s.Run(ctx) }()
	defer func() {
		cancel()
		if err := errors.Join(<-done, s.Close()); err != nil {
			t.Error(err)
		}
	}()
	link := resourcesync.Link{Rel: "describedby", Href: "https://example.org/a.xml"}
	a := Resource{URL: "https://example.org/a", Length: 5, MediaType: "text/plain", Links: []resourcesync.Link{link}}
	a.SetHash("sha-1:da39a3ee5e6b4b0d3255bfef95601890afd80709")
	unknown := Resource{URL: "https://example.org/b", Length: UnknownLength}
	given := []Given{
		{Change: resourcesync.Deleted, Resource: unknown},
		{Change: resourcesync.Updated, Resource: a},
		{Change: resourcesync.Updated, Resource: a},
		{Change: resourcesync.Created, Resource: unknown},
		{Change: resourcesync.Created, Resource: unknown},
	}
	for i := range given {
		if _, err := s.Announce("", Announcement{Changes: given[i : i+1]}); err != nil {
			t.Fatal(err)
		}
	}
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "https://sync.example.org/"+path, nil))
		return w.Code, w.Body.String()
	}
	var all []resourcesync.Entry
	for end := time.Now().Add(time.Minute); len(all) < len(given) && time.Now().Before(end); time.Sleep(time.Millisecond) {
		code, text := get(changeListPath)
		if all = nil; code != 200 {
			continue
		}
		r := resourcesync.NewReader(strings.NewReader(text), resourcesync.ReadOptions{})
		for e, err := range r.Entries() {
			if err != nil {
				t.Fatalf("%v in %s", err, text)
			}
			all = append(all, e)
		}
	}
	for i := range given {
		if len(all) != len(given) || all[i].Change != given[i].Change || all[i].Loc != given[i].Resource.URL || i > 0 && !all[i].Datetime.After(all[i-1].Datetime) {
			t.Fatalf("the Change List has %+v", all)
		}
	}
	if e := all[1]; e.Length != 5 || !strings.HasPrefix(e.Hash, "sha-1:") || len(e.Links) != 1 || e.Links[0].Href != link.Href || all[3].HasLength {
		t.Errorf("%+v", e)
	}
	var listed []string
	for _, st := range s.Status().Sets {
		listed = append(listed, st.Documents...)
	}
	if fmt.Sprint(listed) != "[https://sync.example.org/capabilitylist.xml https://sync.example.org/changelist.xml]" {
		t.Errorf("the documents are %v", listed)
	}
	if code, _ := get(resourceListPath); code != 404 {
		t.Errorf("the Resource List answers %d", code)
	}
	if code, text := get("robots.txt"); code != 200 || strings.Contains(text, "Sitemap") {
		t.Errorf("robots.txt: %d, %s", code, text)
	}
	if code, _ := get(dataPath + "a"); code != 404 {
		t.Errorf("a resource answers %d", code)
	}
	if !slices.Equal(s.Topics(), []string{"https://sync.example.org/changes/", "https://sync.example.org/framework/"}) {
		t.Errorf("the topics are %v", s.Topics())
	}
}
