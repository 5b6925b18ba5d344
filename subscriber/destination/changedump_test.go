package destination_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// changeDumps is the Change Dump of a Source: what happened, in packages.
type changeDumps struct {
	*source
	from    time.Time // of the dump
	entries []resourcesync.Entry
	n       int
}

// dumpsChanges has a Source offer its changes in dumps only.
func dumpsChanges(s *source) *changeDumps {
	d := &changeDumps{source: s, from: s.at}
	s.offers = []string{resourcesync.ResourceList, resourcesync.ChangeDump}
	s.set("/changedump.xml", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.write(w, resourcesync.Head{Capability: resourcesync.ChangeDump, From: d.from, Links: []resourcesync.Link{{Rel: "up", Href: s.URL + "/capabilitylist.xml"}}}, d.entries...)
	})
	return d
}

// change is one that a package has; body empty: a deletion.
type change struct {
	after      int // seconds
	name, body string
}

// add adds a package of changes to the dump, and makes them at the Source.
func (d *changeDumps) add(from, until int, changes ...change) (path string) {
	d.t.Helper()
	var out bytes.Buffer
	head := resourcesync.Head{
		Capability: resourcesync.ChangeDumpManifest, From: d.second(from), Until: d.second(until),
		Links: []resourcesync.Link{{Rel: "up", Href: d.URL + "/changedump.xml"}},
	}
	w, err := resourcesync.NewDumpWriter(&out, head, resourcesync.DumpWriteOptions{})
	for i, c := range changes {
		e := resourcesync.Entry{Loc: d.URL + "/data/" + c.name, Change: resourcesync.Deleted, Datetime: d.second(c.after)}
		var bodies []io.Reader
		d.mu.Lock()
		delete(d.files, c.name)
		if c.body != "" {
			d.files[c.name] = c.body
			e.Change, e.Path = resourcesync.Updated, fmt.Sprintf("/r/%d", i)
			bodies = append(bodies, strings.NewReader(c.body))
		}
		d.mu.Unlock()
		if err == nil {
			err = w.Write(e, bodies...)
		}
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		d.t.Fatal(err)
	}
	path = fmt.Sprintf("/part%d.zip", d.n)
	d.n++
	d.set(path, answer(out.String()))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entries = append(d.entries, resourcesync.Entry{
		Loc: d.URL + path, From: head.From, Until: head.Until, Hash: hashOf(out.String()), Length: int64(out.Len()), HasLength: true,
	})
	return path
}

func (d *changeDumps) second(n int) time.Time { return d.at.Add(time.Duration(n) * time.Second) }

// A copy catches up from Change Dumps: with the last change of each resource, with
// nothing but the packages, and with each of these once.
func TestChangeDumps(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	d := dumpsChanges(s)
	for _, name := range []string{"a", "b", "c", "folder"} {
		s.put(name, "first "+name, 0)
	}
	s.freezeList()
	c := s.open(dir)
	if r, err := c.Sync(t.Context()); err != nil || r.Copied != 4 {
		t.Fatalf("%v %+v", err, r)
	}
	var many []change
	for i := range 50 { // of one resource, the last one counts
		many = append(many, change{i, "a", fmt.Sprintf("a %d", i)})
	}
	one := d.add(0, 100, append(many, change{60, "b", ""}, change{61, "folder", ""}, change{62, "folder/in", "in it"}, change{63, "gone", "for a moment"}, change{64, "gone", ""})...)
	two := d.add(100, 200, change{150, "c", "second c"}, change{151, "b", "b again"})
	r, err := c.Sync(t.Context())
	if err != nil || !r.InSync() || r.Copied != 4 || r.Deleted != 1 || r.Baseline != "" {
		t.Errorf("%v %+v", err, r)
	}
	s.same(dir)
	three := d.add(200, 300, change{250, "d", strings.Repeat("large ", 100_000)})
	if r, err = c.Sync(t.Context()); err != nil || !r.InSync() || r.Copied != 1 {
		t.Errorf("%v %+v", err, r)
	}
	s.same(dir)
	for _, path := range []string{one, two, three} {
		if s.gets[path] != 1 {
			t.Errorf("%s was fetched %d times", path, s.gets[path])
		}
	}
	for path, n := range s.gets {
		if strings.HasPrefix(path, "/data/") && n != 1 || path == "/data/d" {
			t.Errorf("%s was fetched %d times", path, n)
		}
	}
	// The list is older than the copy: an audit takes the packages into account.
	if a, err := c.Audit(t.Context(), true); err != nil || !a.InSync || a.Equal != 5 || a.Repaired != nil || !a.AsOf.Equal(d.second(300)) {
		t.Errorf("%v %+v", err, a)
	}
	s.same(dir)
}

// A package that is not what its dump says changes nothing, and what the packages
// before it brought stays; the next run goes on from there.
func TestChangeDumpsThatAreDamaged(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	d := dumpsChanges(s)
	s.put("a", "first", 0)
	c := s.open(dir)
	if _, err := c.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	good := d.add(0, 100, change{50, "b", "from the first"})
	bad := d.add(100, 200, change{150, "a", "from the second"})
	whole := s.override[bad]
	s.set(bad, answer("PK nothing"))
	if r, err := c.Sync(t.Context()); err == nil || !strings.Contains(err.Error(), bad) {
		t.Errorf("%v %+v", err, r)
	}
	if a, b := read(dir, "a"), read(dir, "b"); a != "first" || b != "from the first" {
		t.Errorf("%q, %q", a, b)
	}
	s.set(bad, whole)
	if r, err := c.Sync(t.Context()); err != nil || r.Copied != 1 || s.gets[good] != 1 {
		t.Errorf("%v %+v; the first was fetched %d times", err, r, s.gets[good])
	}
	s.same(dir)
}

// Where the packages do not reach back far enough, a baseline is taken.
func TestChangeDumpsWithAHole(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	d := dumpsChanges(s)
	s.put("a", "first", 0)
	c := s.open(dir)
	if _, err := c.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.add(0, 100, change{50, "lost", "no package has it"})
	d.add(100, 200, change{150, "b", "b"})
	d.entries, d.from = d.entries[1:], d.second(100)
	r, err := c.Sync(t.Context())
	if err == nil || !strings.Contains(err.Error(), "try again when the Source has written a new list") { // the list is too old
		t.Errorf("%v %+v", err, r)
	}
	s.at = s.at.Add(200 * time.Second) // now it is not
	if r, err = c.Sync(t.Context()); err != nil || !r.InSync() || r.Baseline == "" {
		t.Errorf("%v %+v", err, r)
	}
	s.same(dir)
}

// A Source with nothing but a Change Dump has what its packages say: all of it, whenever the first one begins. What
// falls into a hole is lost, and everything after it is copied.
func TestChangeDumpAlone(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	d := dumpsChanges(s)
	s.offers = []string{resourcesync.ChangeDump}
	d.add(0, 100, change{50, "a", "a"}, change{60, "b", "b"})
	d.add(100, 200, change{150, "b", ""}, change{151, "c", "c"})
	c := s.open(dir)
	if r, err := c.Sync(t.Context()); err != nil || r.Copied != 2 {
		t.Errorf("%v %+v", err, r)
	}
	s.same(dir)
	d.add(200, 300, change{250, "lost", "no package has it"})
	delete(s.files, "lost")
	d.add(300, 400, change{350, "d", "d"})
	d.entries = append(d.entries[:2], d.entries[3])
	if r, err := c.Sync(t.Context()); err != nil || r.Copied != 1 {
		t.Errorf("behind a hole: %v %+v", err, r)
	}
	s.same(dir)
	if r, err := c.Sync(t.Context()); err != nil || r.Copied != 0 || s.gets["/part3.zip"] != 1 {
		t.Errorf("once more: %v %+v", err, r)
	}
}

// freezeList has the Resource List stay as it is.
func (s *source) freezeList() {
	s.t.Helper()
	resp, err := http.Get(s.URL + "/resourcelist.xml") //nolint:noctx // it is on loopback, and short
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	s.set("/resourcelist.xml", answer(string(raw)))
}
