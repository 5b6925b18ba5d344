package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

// journaled is a notification as the operator's API tells of it.
type journaled struct {
	ID     string    `json:"id"`
	From   time.Time `json:"from"`
	Until  time.Time `json:"until"`
	SHA256 string    `json:"sha256"`
	Seq    uint64    `json:"seq"`
}

// pushed is a change and the place in the journal of the interval that brought it.
type pushed struct {
	resourcesync.Entry
	interval int
}

// journal reads the hub's journal of a topic.
func (h *pushHub) journal(t *testing.T, topic string) (all []journaled, err error) {
	t.Helper()
	get := func(path string, into any) error {
		a, err := try(t.Context(), http.MethodGet, "http://"+h.admin+path, nil, nil)
		if err == nil && a.status != http.StatusOK {
			err = fmt.Errorf("GET %s is answered %d %q", path, a.status, a.body)
		}
		if err == nil {
			err = json.Unmarshal(a.body, into)
		}
		return err
	}
	var topics struct {
		Items []struct{ ID, URL string }
	}
	if err := get("/api/v1/topics", &topics); err != nil {
		return nil, err
	}
	for _, x := range topics.Items {
		for after, more := "", x.URL == topic; more; {
			var page struct {
				Items []journaled
				Next  string
			}
			if err := get("/api/v1/topics/"+x.ID+"/notifications?limit=500&after="+url.QueryEscape(after), &page); err != nil {
				return nil, err
			}
			all = append(all, page.Items...)
			after, more = page.Next, page.Next != ""
		}
	}
	return all, nil
}

// arrived reads the changes of a hub's journal out of what its subscriber has got;
// all has to be there. A notification that came more often has the same bytes.
func (b *pushBed) arrived(h *pushHub) ([]pushed, error) {
	b.t.Helper()
	journal, err := h.journal(b.t, b.topic())
	if err != nil {
		return nil, err
	}
	bodies := map[string][]byte{}
	for _, d := range h.subscriber.got() {
		if before, again := bodies[d.id]; again && string(before) != string(d.body) {
			b.t.Fatalf("%s was delivered with other bytes than before", d.id)
		}
		bodies[d.id] = d.body
	}
	var all []pushed
	for n, j := range journal {
		body, there := bodies[j.ID]
		switch {
		case !there:
			return nil, fmt.Errorf("interval %d of %s has not been delivered", n, h.name)
		case fmt.Sprintf("%x", sha256.Sum256(body)) != j.SHA256:
			return nil, fmt.Errorf("interval %d of %s was delivered with other bytes than the journal has", n, h.name)
		case n > 0 && (!j.From.Equal(journal[n-1].Until) || j.Seq != journal[n-1].Seq+1):
			return nil, fmt.Errorf("interval %d of %s is %+v, and follows on %+v", n, h.name, j, journal[n-1])
		}
		head, entries := b.read(j.ID, body)
		if !head.From.Equal(j.From) || !head.Until.Equal(j.Until) {
			return nil, fmt.Errorf("interval %d of %s says that it is from %v until %v", n, h.name, head.From, head.Until)
		}
		for _, e := range entries {
			if e.Datetime.Before(j.From) || e.Datetime.After(j.Until) {
				return nil, fmt.Errorf("%s was %s at %v, outside its interval %+v", e.Loc, e.Change, e.Datetime, j)
			}
			all = append(all, pushed{e, n})
		}
	}
	return all, nil
}

// read reads a document, and takes none that is not strictly valid.
func (b *pushBed) read(name string, body []byte) (resourcesync.Head, []resourcesync.Entry) {
	b.t.Helper()
	r := resourcesync.NewReader(strings.NewReader(string(body)), resourcesync.ReadOptions{Strict: true})
	var entries []resourcesync.Entry
	for e, err := range r.Entries() {
		if err != nil {
			b.t.Fatalf("%s: %v\n%s", name, err, body)
		}
		entries = append(entries, e)
	}
	head, err := r.Head()
	if err != nil {
		b.t.Fatalf("%s: %v\n%s", name, err, body)
	}
	return head, entries
}

// document fetches a list, or all lists of an index.
func (b *pushBed) document(name string) []resourcesync.Entry {
	b.t.Helper()
	a := do(b.t, http.MethodGet, name, nil, nil).want(b.t, http.StatusOK)
	head, entries := b.read(name, a.body)
	if !head.Index {
		return entries
	}
	var all []resourcesync.Entry
	for _, e := range entries {
		all = append(all, b.document(e.Loc)...)
	}
	return all
}

// path is the path in the folder that a URL stands for, as any client reads it.
func (b *pushBed) path(loc string) string {
	b.t.Helper()
	escaped, ok := strings.CutPrefix(loc, b.source+"data/")
	p, err := url.PathUnescape(escaped)
	if err != nil || !ok {
		b.t.Fatalf("%s is no resource of the Source: %v", loc, err)
	}
	return p
}

// judge holds each hub's journal against the Change Lists, the baseline and the
// folder, and returns how many changes and intervals there are.
func (b *pushBed) judge() {
	b.t.Helper()
	for _, h := range b.hubs {
		var changes []pushed
		var listed []resourcesync.Entry
		// Deletions come after all else that a scan found, and Change Lists may be
		// written a moment after the push.
		eventually(b.t, time.Minute, func() (err error) {
			if changes, err = b.arrived(h); err != nil {
				return err
			}
			if listed = b.document(b.source + "changelist.xml"); len(listed) != len(changes) {
				return fmt.Errorf("%s has %d changes, %d are listed", h.name, len(changes), len(listed))
			}
			return b.lead(changes)
		})
		for i, c := range changes {
			if l := listed[i]; c.Loc != l.Loc || c.Change != l.Change || c.Hash != l.Hash || c.Length != l.Length || !c.Datetime.Equal(l.Datetime) {
				b.t.Fatalf("change %d of %s is %+v, and is listed as %+v", i, h.name, c.Entry, l)
			}
		}
		b.follow(h.name, changes)
		b.t.Logf("%s: %d changes in %d intervals", h.name, len(changes), changes[len(changes)-1].interval+1)
	}
}

// lead returns an error unless changes lead from the baseline to the files that there
// are.
func (b *pushBed) lead(changes []pushed) error {
	b.t.Helper()
	now := maps.Clone(b.baseline)
	for _, c := range changes {
		if now[b.path(c.Loc)] = c.Hash; c.Change == resourcesync.Deleted {
			delete(now, b.path(c.Loc))
		}
	}
	err := walk(b.folder, func(p string, d fs.DirEntry) error {
		if _, there := now[p]; !there && !d.IsDir() {
			return fmt.Errorf("no change leads to %q", p)
		}
		delete(now, p)
		return nil
	})
	if err == nil && len(now) > 0 {
		err = fmt.Errorf("the changes lead to %d files that are not there", len(now))
	}
	return err
}

// follow follows changes from the baseline to the folder.
func (b *pushBed) follow(name string, changes []pushed) {
	b.t.Helper()
	now, once := maps.Clone(b.baseline), map[string]int{}
	var last time.Time
	for _, c := range changes {
		p := b.path(c.Loc)
		was, there := now[p]
		if !c.Datetime.After(last) {
			b.t.Errorf("%s: %q was %s at %v, and the change before was at %v", name, p, c.Change, c.Datetime, last)
		}
		last = c.Datetime
		if there == (c.Change == resourcesync.Created) || c.Change == resourcesync.Updated && was == c.Hash {
			b.t.Errorf("%s: %q was %s with %s in interval %d, where there was %q", name, p, c.Change, c.Hash, c.interval, was)
		}
		if delete(now, p); c.Change != resourcesync.Deleted {
			now[p] = c.Hash
		}
		if strings.HasPrefix(p, "once ") {
			once[p]++
		}
	}
	for p, n := range once {
		if n != 1 {
			b.t.Errorf("%s: %q was written once, and pushed %d times", name, p, n)
		}
	}
	if len(once) != b.once {
		b.t.Errorf("%s: %d files that were written once were pushed, of %d", name, len(once), b.once)
	}
	must(b.t, walk(b.folder, func(p string, d fs.DirEntry) error {
		if d.IsDir() {
			return nil
		}
		content, err := os.ReadFile(filepath.Join(b.folder, filepath.FromSlash(p)))
		if want := fmt.Sprintf("sha-256:%x", sha256.Sum256(content)); err == nil && !slices.Contains(strings.Fields(now[p]), want) {
			b.t.Errorf("%s: the changes lead to %q for %q, which has %s", name, now[p], p, want)
		}
		return err
	}))
}
