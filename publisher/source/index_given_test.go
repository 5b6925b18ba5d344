package source

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/resourcesync"
)

// whole is a resource with all that a catalogue or an application can give.
func whole(url string) Resource {
	r := Resource{
		URL: url, Path: "stored/a.pdf.gz", Content: "https://store.example.org/a", ModTime: time.Unix(1, 2).UTC(), Length: 5,
		MediaType: "application/pdf", Encoding: "gzip",
		Links: []resourcesync.Link{
			{
				Rel: "duplicate", Href: "https://mirror.example.org/a", Pri: 3, Length: 5, HasLength: true, Modified: time.Unix(9, 0).UTC(), Hash: "md5:x",
				Path: "/p", Type: "application/pdf", Encoding: "gzip", Profile: "https://example.org/p",
				Attributes: []resourcesync.Attribute{{Space: "urn:s", Name: "n", Value: "v"}, {Space: "urn:s", Name: "m"}},
			},
			{Rel: "collection", Href: "https://example.org/c"},
			{Rel: "http://www.openarchives.org/rs/terms/patch", Href: "https://example.org/a.diff", Type: "text/x-diff"},
		},
	}
	r.SetHash("sha-1:a9993e364706816aba3e25717850c26c9cd0d89d md5:900150983cd24fb0d6963f7d28e17f72 sha-256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
	return r
}

// extendedResources are resources that have more than a file, or less.
func extendedResources() []Resource {
	return []Resource{
		whole("https://example.org/a"),
		{URL: "https://example.org/a", Length: UnknownLength},
		{Path: "a", Length: UnknownLength, MediaType: "text/plain"},
		{Path: "a", Encoding: "gzip", Links: []resourcesync.Link{{Rel: "via", Href: "https://example.org/b"}}},
		{URL: "https://example.org/a", Digests: resourcesync.ParseHashes("sha-1:a9993e364706816aba3e25717850c26c9cd0d89d")},
	}
}

func TestExtendedRoundTrip(t *testing.T) {
	for _, r := range extendedResources() {
		g := Given{Resource: r}
		rec := g.step().now
		got, err := unpackRecord(r.Key(), packRecord(rec))
		if err != nil || !reflect.DeepEqual(got.Resource, r) {
			t.Errorf("%+v came back as %+v: %v", r, got.Resource, err)
		}
		if !r.equal(&got.Resource) {
			t.Errorf("%+v does not equal itself", r)
		}
		c := Change{Seq: 1, At: time.UnixMicro(5).UTC(), Change: resourcesync.Created, Resource: r}
		if again, err := unpackChange(seqKey(1), packChange(&c, rec.stat.mtime)); err != nil || !reflect.DeepEqual(again, c) {
			t.Errorf("%+v came back as %+v: %v", c, again, err)
		}
		for n := range packRecord(rec) {
			if _, err := unpackRecord(r.Key(), packRecord(rec)[:n]); err == nil {
				t.Errorf("%+v cut to %d bytes: no error", r, n)
			}
		}
	}
}

// Each attribute counts: a client that fetches the resource, or follows its links, gets something else.
func TestEqualByWhatIsKnown(t *testing.T) {
	const url = "https://example.org/a"
	base := whole(url)
	for what, change := range map[string]func(r *Resource){
		"length": func(r *Resource) { r.Length++ }, "type": func(r *Resource) { r.MediaType = "" }, "encoding": func(r *Resource) { r.Encoding = "" },
		"md5": func(r *Resource) { r.MD5[0]++ }, "sha-256": func(r *Resource) { r.SHA256[0]++ },
		"sha-1": func(r *Resource) {
			r.Digests = resourcesync.ParseHashes("sha-1:0000000000000000000000000000000000000000")
		},
		"a link":      func(r *Resource) { r.Links = r.Links[:1] },
		"a link's md": func(r *Resource) { r.Links[0].Pri++ },
		"time without digests": func(r *Resource) {
			r.SetHash("")
			r.ModTime = r.ModTime.Add(time.Second)
		},
	} {
		r := whole(url)
		if change(&r); r.equal(&base) || base.equal(&r) {
			t.Errorf("another %s makes no difference", what)
		}
	}
	for what, change := range map[string]func(r *Resource){
		"a time beside digests": func(r *Resource) { r.ModTime = time.Time{} },
		"an unknown length":     func(r *Resource) { r.Length = UnknownLength },
		"fewer digests":         func(r *Resource) { r.MD5, r.Digests = [16]byte{}, resourcesync.Digests{} },
		"another content URL":   func(r *Resource) { r.Content = "" },
	} {
		r := whole(url)
		if change(&r); !r.equal(&base) || !base.equal(&r) {
			t.Errorf("%s makes a difference", what)
		}
	}
}

func logOf(t *testing.T, x *Index) (all []string) {
	t.Helper()
	s := snap(t, x)
	defer s.Close()
	for c, err := range s.Changes(0) {
		must(t, err)
		all = append(all, fmt.Sprintf("%d %s %s", c.Seq, c.Change, c.Resource.Key()))
	}
	return all
}

// What is given is compared with the index, unless somebody says what happened.
func TestApplyLogsWhatIsGiven(t *testing.T) {
	x, dir := newIndex(t)
	const a, b = "https://example.org/a", "https://example.org/a/b"
	apply := func(given ...Given) []Change {
		t.Helper()
		logged, err := x.Apply(time.Now(), given...)
		must(t, err)
		return logged
	}
	if logged := apply(Given{Resource: whole(a)}); len(logged) != 0 {
		t.Errorf("before the baseline it logged %v", logged)
	}
	must(t, x.Begin(time.Now()))
	must(t, x.Begin(time.Now()))
	logged := apply(
		Given{Resource: whole(a)},                                       // as it is: nothing
		Given{Resource: whole(b)},                                       // beside a: that is no folder
		Given{Resource: whole(a), Change: resourcesync.Updated},         // as it is, and somebody says it
		Given{Resource: Resource{URL: b}, Change: resourcesync.Deleted}, // it is there
		Given{Resource: Resource{URL: b}, Change: resourcesync.Deleted}, // it is not, and somebody says it
		Given{Resource: Resource{Path: "p", Length: UnknownLength}},
	)
	want := []string{"1 created " + b, "2 updated " + a, "3 deleted " + b, "4 deleted " + b, "5 created p"}
	if got := logOf(t, x); !slices.Equal(got, want) || len(logged) != len(want) || logged[4].Seq != 5 || logged[4].At.IsZero() {
		t.Errorf("logged %q, and returned %+v", got, logged)
	}
	if n := x.Len(); n != 2 {
		t.Errorf("%d resources", n)
	}
	must(t, x.Close())
	x, err := OpenIndex(dir)
	must(t, err)
	defer x.Close() //nolint:errcheck // of a test
	if r, ok, err := x.Get(a); err != nil || !ok || !reflect.DeepEqual(r, whole(a)) {
		t.Errorf("%+v, %v, %v", r, ok, err)
	}
	if got := logOf(t, x); !slices.Equal(got, want) {
		t.Errorf("opened again: %q", got)
	}
}

// What no document can have is refused, with all that was given with it: one such entry would keep a
// whole list from being written.
func TestApplyRefusesWhatNoDocumentCanHave(t *testing.T) {
	x, _ := newIndex(t)
	must(t, x.Begin(time.Now()))
	good := Given{Resource: whole("https://example.org/good")}
	must(t, good.Check())
	for what, r := range map[string]Resource{
		"nothing": {}, "a relative URL": {URL: "/a/b"}, "a URL with a space": {URL: "https://example.org/a b"}, "a path that leads out": {Path: "../a"},
		"a control character": {URL: "https://example.org/a", MediaType: "text/\x00plain"},
		"a bad type":          {URL: "https://example.org/a", MediaType: "plain"},
		"a link to nowhere":   {URL: "https://example.org/a", Links: []resourcesync.Link{{Rel: "via"}}},
	} {
		g := Given{Resource: r}
		if err := g.Check(); !errors.Is(err, ErrGiven) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := x.Apply(time.Now(), good, g); !errors.Is(err, ErrGiven) {
			t.Errorf("%s: %v", what, err)
		}
	}
	unknown := Given{Resource: good.Resource, Change: "upserted"}
	if _, err := x.Apply(time.Now(), good, unknown); !errors.Is(err, ErrGiven) || unknown.Check() == nil {
		t.Errorf("an unknown change: %v", err)
	}
	if got := logOf(t, x); len(got) > 0 || x.Len() != 0 {
		t.Errorf("logged %q of %d resources", got, x.Len())
	}
}

// What is stored with the changes is stored with all of them or with none.
func TestApplyGivenIsOneTransaction(t *testing.T) {
	x, _ := newIndex(t)
	must(t, x.Begin(time.Now()))
	refused := errors.New("refused")
	given := []Given{{Resource: whole("https://example.org/a")}}
	if _, err := x.applyGiven(time.Now(), given, func(*boltfile.Tx, []Change) error { return refused }); !errors.Is(err, refused) {
		t.Error(err)
	}
	if n := x.Len(); n != 0 || len(logOf(t, x)) != 0 {
		t.Errorf("%d resources after an error", n)
	}
	seen := 0
	logged, err := x.applyGiven(time.Now(), given, func(_ *boltfile.Tx, logged []Change) error {
		seen = len(logged)
		return nil
	})
	if err != nil || seen != 1 || len(logged) != 1 {
		t.Errorf("%v, %d, %v", logged, seen, err)
	}
}

// An index of the format before is opened, and keeps that format until it gets what that cannot have.
func TestFormatIsRaisedWhenNeeded(t *testing.T) {
	dir := t.TempDir()
	older := fileOptions()
	older.Format, older.Oldest = formatPlain, 0
	db, err := boltfile.Open(filepath.Join(dir, indexName), older)
	must(t, err)
	must(t, db.Close())
	formatOf := func(given Resource) (format uint64) {
		x, err := OpenIndex(dir)
		must(t, err)
		_, err = x.Apply(time.Now(), Given{Resource: given})
		must(t, err)
		must(t, x.view(func(tx *boltfile.Tx) error {
			format = tx.Format()
			return nil
		}))
		must(t, x.Close())
		return format
	}
	if f := formatOf(Resource{Path: "a", Length: 1}); f != formatPlain {
		t.Errorf("a file made it format %d", f)
	}
	if f := formatOf(whole("https://example.org/a")); f != format {
		t.Errorf("what a catalogue gives left it at format %d", f)
	}
}
