package source

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rshub/rshub/publisher"
)

// A resource in two sets is announced in both, under one URL, and each set pushes to hubs of
// its own (LNK-11).
func TestResourceInTwoSets_LNK11(t *testing.T) {
	one, other := newHub(t), newHub(t)
	x := newSite(t, func(o *Options) {
		all := o.Sets[0]
		all.Name, all.ResourceURL = "all", "https://museum.example/"
		prints := all
		prints.Name, prints.ResourceURL = "prints", "https://museum.example/prints/"
		prints.Folder.Dir = filepath.Join(all.Folder.Dir, "prints")
		prints.Hubs = []publisher.Hub{{URL: other.server.URL + "/"}}
		prints.Rules = ruled(t, "resources: [{for: '*', collection: 'https://museum.example/prints/'}]")
		if err := os.Mkdir(prints.Folder.Dir, 0o750); err != nil {
			t.Fatal(err)
		}
		o.Sets = []Set{all, prints}
		o.Hubs = []publisher.Hub{{URL: one.server.URL + "/"}}
		o.Every = time.Millisecond
	})
	x.write(map[string]string{"a": "1", "prints/b": "1"})
	x.build()
	for path, want := range map[string][]string{
		"/all/resourcelist.xml":    {"https://museum.example/a", "https://museum.example/prints/b"},
		"/prints/resourcelist.xml": {"https://museum.example/prints/b"},
	} {
		if got, _ := x.locs(path); !slices.Equal(got, want) {
			t.Errorf("%s has %v", path, got)
		}
	}
	x.write(map[string]string{"prints/b": "two"})
	x.build()
	x.write(map[string]string{"prints/c": "1"}) // after it, or their order is not certain
	x.build()
	if err := os.Remove(filepath.Join(x.dir, "prints/b")); err != nil {
		t.Fatal(err)
	}
	x.build()
	stop := x.run()
	eventually(t, "a change is not pushed in both sets", func() bool {
		return len(one.of(x.o.PublicURL+"all/changes/")) == 3 && len(other.of(x.o.PublicURL+"prints/changes/")) == 3
	})
	stop()
	if len(one.of(x.o.PublicURL+"prints/changes/"))+len(other.of(x.o.PublicURL+"all/changes/")) > 0 {
		t.Error("a set pushes to the hub of the other")
	}
	for i, e := range one.of(x.o.PublicURL + "all/changes/") {
		twin := other.of(x.o.PublicURL + "prints/changes/")[i]
		if e.Loc != twin.Loc || e.Change != twin.Change || len(e.Links) > 0 || len(twin.Links) != 1 && !twin.Change.Removes() {
			t.Errorf("change %d is %+v and %+v", i, e, twin)
		}
	}
	for set, hub := range map[string]*hub{"all": one, "prints": other} {
		a := x.get("/" + set + "/changes/")
		if a.status != http.StatusOK || !slices.Equal(x.Hubs(x.o.PublicURL+set+"/changes/"), []string{hub.server.URL + "/"}) {
			t.Errorf("%s answers %d", set, a.status)
		}
	}
	if out, err := follow(t, x); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
