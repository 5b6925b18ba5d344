package destination_test

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/destination"
	"github.com/rshub/rshub/test/draws"
)

// Random histories of a Source and its copy. What is drawn:
//
//   - two or three sets that overlap. A set has a Change List with datetimes, one
//     without, one where only every other change has one, or none; its documents give hashes and lengths, or neither;
//   - whether a set writes its addresses percent-encoded or as they are, and lists one that
//     nothing can be asked for at;
//   - names of resources out of historyNames, and steps: a resource is created,
//     updated, with a later lastmod or an earlier one, deleted, created again; a set
//     comes to list a resource that another has, or drops one; its Resource List is
//     written anew; its Change List loses what is older than now; it vanishes from the
//     Source Description and comes back; the Destination syncs, and is restarted;
//   - whether what no set lists any more is still served.
//
// At each quiet point, one Sync after the last step, the copy has every resource that a
// set lists, with the right bytes, and nothing else; what nothing can be asked for at is
// reported; an audit says the same.
const histories = 20 // that TestHistories draws; make histories multiplies them

// historyNames are the paths of resources below /data/, as they stand in a URL; a test
// of unusual names may add to them.
var historyNames = []string{"a", "b.txt", "c/d", "c/e", "f", "with%20spaces.txt", "100%25.txt", "a%7Cb", "%C3%A9"}

// unencoded are those of them that some sets write as they are, and historyPaths where
// some are in the copy.
var (
	unencoded    = map[string]string{"with%20spaces.txt": "with spaces.txt", "100%25.txt": "100%.txt", "a%7Cb": "a|b", "%C3%A9": "é"}
	historyPaths = map[string]string{"with spaces.txt": "with%20spaces.txt", "100%.txt": "100%25.txt", "é": "%C3%A9"}
)

// history is a Source with several sets.
type history struct {
	*source // its files are those that some set lists
	sets    []*historySet
	clock   time.Time
	served  map[string]string    // bodies by name
	lastMod map[string]time.Time // of each
	version int
}

// historySet is one of the sets.
type historySet struct {
	name    string
	changes string // timed, untimed, mixed or none
	hashes  bool
	raw     bool // its addresses are not encoded
	beyond  bool // it lists one that nothing can be asked for at
	away    bool // from the Source Description
	lists   map[string]bool
	list    []resourcesync.Entry
	at      time.Time // of the list
	log     []resourcesync.Entry
	from    time.Time // of the log
}

// newHistory begins one. The caller closes it.
func newHistory(t *testing.T, rt *rapid.T) *history {
	h := emptyHistory(t)
	for range rapid.IntRange(2, 3).Draw(rt, "sets") {
		s := h.add(rapid.SampledFrom([]string{"timed", "untimed", "mixed", "none"}).Draw(rt, "changes"), rapid.Bool().Draw(rt, "hashes"))
		s.raw, s.beyond = rapid.Bool().Draw(rt, "raw"), rapid.IntRange(0, 3).Draw(rt, "beyond") == 0
	}
	return h
}

// emptyHistory is a Source without sets.
func emptyHistory(t *testing.T) *history {
	h := &history{
		source: &source{t: t, files: map[string]string{}}, served: map[string]string{}, lastMod: map[string]time.Time{},
		clock: time.Now().Add(-24 * time.Hour).UTC().Truncate(time.Second),
	}
	h.Server = httptest.NewServer(http.HandlerFunc(h.serve))
	return h
}

// add gives the Source a set.
func (h *history) add(changes string, hashes bool) *historySet {
	s := &historySet{name: fmt.Sprintf("set%d", len(h.sets)), changes: changes, hashes: hashes, lists: map[string]bool{}, at: h.clock, from: h.clock}
	h.sets = append(h.sets, s)
	return s
}

func (h *history) serve(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	up := func(to string) []resourcesync.Link { return []resourcesync.Link{{Rel: "up", Href: h.URL + to}} }
	if r.URL.Path == "/.well-known/resourcesync" {
		var entries []resourcesync.Entry
		for _, s := range h.sets {
			if !s.away {
				entries = append(entries, resourcesync.Entry{Loc: h.URL + "/" + s.name + "/capabilitylist.xml", Capability: resourcesync.CapabilityList})
			}
		}
		h.write(w, resourcesync.Head{Capability: resourcesync.Description}, entries...)
		return
	}
	if name, ok := strings.CutPrefix(r.URL.EscapedPath(), "/data/"); ok {
		body, ok := h.served[name]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("ETag", fmt.Sprintf("%q", body))
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(body))
		return
	}
	for _, s := range h.sets {
		capabilities := up("/" + s.name + "/capabilitylist.xml")
		switch r.URL.Path {
		case "/" + s.name + "/capabilitylist.xml":
			entries := []resourcesync.Entry{{Loc: h.URL + "/" + s.name + "/resourcelist.xml", Capability: resourcesync.ResourceList}}
			if s.changes != "none" {
				entries = append(entries, resourcesync.Entry{Loc: h.URL + "/" + s.name + "/changelist.xml", Capability: resourcesync.ChangeList})
			}
			h.write(w, resourcesync.Head{Capability: resourcesync.CapabilityList, Links: up("/.well-known/resourcesync")}, entries...)
			return
		case "/" + s.name + "/resourcelist.xml":
			h.writeRaw(w, s, "", resourcesync.Head{Capability: resourcesync.ResourceList, At: s.at, Links: capabilities}, s.list)
			return
		case "/" + s.name + "/changelist.xml":
			h.writeRaw(w, s, resourcesync.Created, resourcesync.Head{Capability: resourcesync.ChangeList, From: s.from, Links: capabilities}, s.log)
			return
		}
	}
	http.NotFound(w, r)
}

// writeRaw writes a document as its set does, with addresses that no right Source writes.
func (h *history) writeRaw(w http.ResponseWriter, s *historySet, change resourcesync.ChangeType, head resourcesync.Head, entries []resourcesync.Entry) {
	if s.beyond {
		entries = append(slices.Clone(entries), resourcesync.Entry{Loc: h.URL + "/beyond", Change: change})
	}
	out := httptest.NewRecorder()
	h.write(out, head, entries...)
	body := out.Body.String()
	if s.raw {
		for name, raw := range unencoded {
			body = strings.ReplaceAll(body, "/data/"+name+"<", "/data/"+raw+"<")
		}
	}
	_, _ = io.WriteString(w, strings.ReplaceAll(body, h.URL+"/beyond<", "ftp://ftp.example/"+s.name+" x<")) // to somebody who may be gone
}

// beyond is how many addresses are listed that nothing can be asked for at.
func (h *history) beyond() (n int) {
	for _, s := range h.sets {
		if s.beyond && !s.away {
			n++
		}
	}
	return n
}

// says is what a set says of a resource, with a change of now or in a list.
func (h *history) says(s *historySet, name string, change resourcesync.ChangeType) resourcesync.Entry {
	e := resourcesync.Entry{Loc: h.URL + "/data/" + name, Change: change, LastMod: h.lastMod[name]}
	if change != "" && (s.changes == "timed" || s.changes == "mixed" && len(s.log)%2 == 1) {
		e.Datetime = h.clock
	}
	if body := h.served[name]; s.hashes && change != resourcesync.Deleted {
		sum := sha256.Sum256([]byte(body))
		e.Hash, e.Length, e.HasLength = "sha-256:"+hex.EncodeToString(sum[:]), int64(len(body)), true
	}
	return e
}

func (h *history) tell(s *historySet, name string, change resourcesync.ChangeType) {
	s.log = append(s.log, h.says(s, name, change))
	s.lists[name] = change != resourcesync.Deleted
}

// newList writes the Resource List of a set anew.
func (h *history) newList(s *historySet) {
	s.list, s.at = nil, h.clock
	for _, name := range slices.Sorted(maps.Keys(s.lists)) {
		if s.lists[name] {
			s.list = append(s.list, h.says(s, name, ""))
		}
	}
}

// settle keeps files what is listed by some set, after a step.
func (h *history) settle() {
	h.files = map[string]string{}
	for _, s := range h.sets {
		for name, is := range s.lists {
			if is && !s.away {
				h.files[name] = h.served[name]
			}
		}
		if s.changes == "none" { // the list is all that it has
			h.newList(s)
		}
	}
}

// put gives a resource other bytes, and has those sets say so that list it.
func (h *history) put(rt *rapid.T, name string) {
	h.version++
	h.served[name] = fmt.Sprintf("%s, version %d", name, h.version)
	h.lastMod[name] = h.clock
	if rapid.Bool().Draw(rt, "backdated") {
		h.lastMod[name] = h.clock.AddDate(-1, 0, 0)
	}
	listed := false
	for _, s := range h.sets {
		if s.lists[name] {
			h.tell(s, name, resourcesync.Updated)
			listed = true
		}
	}
	if !listed {
		h.tell(rapid.SampledFrom(h.sets).Draw(rt, "set"), name, resourcesync.Created)
	}
}

// drop has a set list a resource no more.
func (h *history) drop(rt *rapid.T, s *historySet, name string) {
	if !s.lists[name] {
		return
	}
	h.tell(s, name, resourcesync.Deleted)
	listed := slices.ContainsFunc(h.sets, func(s *historySet) bool { return s.lists[name] })
	if !listed && rapid.Bool().Draw(rt, "gone") {
		delete(h.served, name)
	}
}

// step is one of what may happen to the Source.
func (h *history) step(rt *rapid.T) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock = h.clock.Add(time.Duration(rapid.IntRange(1, 20).Draw(rt, "seconds")) * time.Second)
	name := rapid.SampledFrom(historyNames).Draw(rt, "name")
	s := rapid.SampledFrom(h.sets).Draw(rt, "set")
	switch rapid.SampledFrom([]string{"put", "put", "join", "join", "leave", "leave", "delete", "list", "rotate", "away"}).Draw(rt, "step") {
	case "put":
		h.put(rt, name)
	case "join":
		if _, ok := h.served[name]; ok && !s.lists[name] {
			h.tell(s, name, resourcesync.Created)
		}
	case "leave":
		h.drop(rt, s, name)
	case "delete":
		for _, s := range h.sets {
			h.drop(rt, s, name)
		}
	case "list":
		h.newList(s)
	case "rotate": // the list is newer, so that a baseline makes up for it
		h.newList(s)
		s.log, s.from = nil, h.clock
	case "away":
		others := slices.ContainsFunc(h.sets, func(o *historySet) bool { return o != s && !o.away })
		s.away = !s.away && others
	}
	h.settle()
}

// inCopy are the files of a copy, by the names of their resources.
func (h *history) inCopy(dir string) map[string]string {
	got := h.copied(dir)
	for path, name := range historyPaths {
		if body, ok := got[path]; ok {
			delete(got, path)
			got[name] = body
		}
	}
	return got
}

// LNK-11, DOC-16: a copy is equal to its Source at each quiet point, whatever happened to its
// resources, sets and documents between.
func TestHistories_LNK11(t *testing.T) {
	if err := flag.Set("rapid.checks", fmt.Sprint(histories*draws.Times())); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		h, dir := newHistory(t, rt), t.TempDir()
		defer h.Close()
		open := func() *destination.Copy {
			return h.open(dir, func(o *destination.Options) { o.MaxDelete = destination.Share{Part: 1} })
		}
		c := open()
		defer func() { _ = c.Close() }()
		for range rapid.IntRange(1, 8).Draw(rt, "quiet points") {
			for range rapid.IntRange(1, 6).Draw(rt, "steps") {
				h.step(rt)
			}
			if rapid.IntRange(0, 3).Draw(rt, "restart") == 0 {
				if err := c.Close(); err != nil {
					rt.Fatal(err)
				}
				c = open()
			}
			r, err := c.Sync(t.Context())
			if err != nil || r.Failed != h.beyond() || r.Held != 0 {
				rt.Fatalf("%v %+v", err, r)
			}
			if got := h.inCopy(dir); !maps.Equal(got, h.files) {
				rt.Fatalf("the copy has %v, the Source %v", got, h.files)
			}
			if a, err := c.Audit(t.Context(), false); err != nil || a.Missing != h.beyond() || a.Differing+a.Extra != 0 {
				rt.Fatalf("%v %+v", err, a)
			}
		}
	})
}
