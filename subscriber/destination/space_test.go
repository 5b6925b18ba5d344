package destination_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/destination"
)

// sync syncs once with a limit, and returns the reasons of what failed by the names of
// resources.
func (s *source) sync(dir string, limit func(*destination.Options)) map[string]string {
	s.t.Helper()
	c := s.open(dir, limit)
	r, err := c.Sync(s.t.Context())
	if err != nil || r.InSync() != (r.Failed == 0) {
		s.t.Fatalf("%v %+v", err, r)
	}
	if err := c.Close(); err != nil {
		s.t.Error(err)
	}
	failed := map[string]string{}
	for _, p := range r.Problems {
		failed[strings.TrimPrefix(p.URL, s.URL+"/data/")] = p.Why
	}
	return failed
}

func maxTotal(n int64) func(*destination.Options) {
	return func(o *destination.Options) { o.MaxTotal = n }
}

// parts are the names of what is left in the folder of resources on their way.
func parts(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, ".rssub", "parts"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// What does not fit into the total fails by itself: unasked where the Source says its
// length, else as soon as too many bytes came. What is replaced makes room, and so does
// what is deleted.
func TestMaxTotal(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.offers = []string{resourcesync.ResourceList}
	s.put("a", strings.Repeat("a", 400), 0)
	s.put("b", strings.Repeat("b", 400), 0)
	if failed := s.sync(dir, maxTotal(1000)); len(failed) != 0 {
		t.Fatal(failed)
	}
	s.put("a", strings.Repeat("A", 600), 0)
	s.put("c", strings.Repeat("c", 401), 0)
	failed := s.sync(dir, maxTotal(1000))
	if len(failed) != 1 || !strings.Contains(failed["c"], "Options.MaxTotal allows 1000") || s.gets["/data/c"] != 0 {
		t.Errorf("%v, and it was asked for %d times", failed, s.gets["/data/c"])
	}
	if read(dir, "a") != s.files["a"] {
		t.Error("a file was not replaced that fits in place of the old one")
	}

	delete(s.files, "b") // whose room is free only after this run tried c
	if failed := s.sync(dir, maxTotal(1000)); len(failed) != 1 || failed["c"] == "" || read(dir, "b") != "" {
		t.Errorf("while the room is made: %v", failed)
	}
	if failed := s.sync(dir, maxTotal(1000)); len(failed) != 1 || !strings.Contains(failed["c"], "the copy has 600 bytes without it") {
		t.Errorf("a byte too much: %v", failed)
	}
	s.put("c", strings.Repeat("c", 400), 0)
	if failed := s.sync(dir, maxTotal(1000)); len(failed) != 0 {
		t.Errorf("the room of what was deleted: %v", failed)
	}
	s.same(dir)
	s.put("a", strings.Repeat("a", 601), 0)
	if failed := s.sync(dir, maxTotal(1000)); !strings.Contains(failed["a"], "the copy has 400 bytes without it") || len(read(dir, "a")) != 600 {
		t.Errorf("a replacement that is too long: %v", failed)
	}
	s.put("c", strings.Repeat("c", 4000), 0)
	if failed := s.sync(dir, maxTotal(-1)); len(failed) != 0 {
		t.Errorf("without a limit: %v", failed)
	}
	s.same(dir)
}

// A copy that stays open counts what it has once, however often it is brought in sync.
func TestMaxTotalOfACopyThatStaysOpen(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.offers = []string{resourcesync.ResourceList}
	c := s.open(dir, maxTotal(1000))
	for _, name := range []string{"a", "b", "c"} {
		s.put(name, strings.Repeat(name, 330), 0)
		if r, err := c.Sync(t.Context()); err != nil || r.Failed != 0 {
			t.Fatalf("%s: %v %+v", name, err, r)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	s.same(dir)
}

// What comes without a length counts as it comes, and nothing of it is left over.
func TestMaxTotalWithoutLength(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.offers = []string{resourcesync.ResourceList}
	s.put("good", "good", 0)
	s.set("/data/endless", endless)
	s.set("/resourcelist.xml", answer(document("urlset", "resourcelist",
		"<url><loc>"+s.URL+"/data/endless</loc></url><url><loc>"+s.URL+"/data/good</loc></url>")))
	for range 2 {
		// One after the other, as what is on its way takes room from what comes beside it.
		failed := s.sync(dir, func(o *destination.Options) { o.MaxTotal, o.Parallel = 3<<20, 1 })
		if len(failed) != 1 || !strings.Contains(failed["endless"], "Options.MaxTotal") || read(dir, "good") != "good" {
			t.Errorf("%v, and the copy has %q", failed, read(dir, "good"))
		}
		if names := parts(t, dir); len(names) != 0 {
			t.Errorf("%q are left over", names)
		}
	}
}

// What was fetched of a resource and is kept for the next run counts, in that too; the
// resource itself goes on with it.
func TestKeptPartsCount(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.offers = []string{resourcesync.ResourceList}
	body := bytes.Repeat([]byte("0123456789abcdef"), 3<<16)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.set("/data/large", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		_, _ = w.Write(body[:2<<20])
		_ = http.NewResponseController(w).Flush()
		for names := []string(nil); len(names) < 2; names = parts(t, dir) {
			if r.Context().Err() != nil {
				return
			}
		}
		cancel()
		<-r.Context().Done()
	})
	s.put("large", string(body), 0)
	c := s.open(dir, maxTotal(int64(len(body))))
	if _, err := c.Sync(ctx); err == nil {
		t.Fatal("it was not interrupted")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	names := parts(t, dir)
	if len(names) != 2 {
		t.Fatalf("%q are kept", names)
	}
	info, err := os.Stat(filepath.Join(dir, ".rssub", "parts", names[0]))
	if err != nil {
		t.Fatal(err)
	}
	delete(s.files, "large")
	s.put("other", strings.Repeat("x", len(body)), 0)
	failed := s.sync(dir, maxTotal(int64(len(body))))
	if !strings.Contains(failed["other"], fmt.Sprintf("the copy has %d bytes without it", info.Size())) {
		t.Errorf("beside a part of %d bytes: %v", info.Size(), failed)
	}
	s.put("large", string(body), 0)
	s.set("/data/large", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Range") == "" {
			t.Error("it is fetched from its beginning")
		}
		w.Header().Set("ETag", `"1"`)
		http.ServeContent(w, r, "", s.at, bytes.NewReader(body))
	})
	if failed := s.sync(dir, maxTotal(2*int64(len(body)))); len(failed) != 0 || len(parts(t, dir)) != 0 {
		t.Errorf("both in twice the room: %v, and %q are left over", failed, parts(t, dir))
	}
	s.same(dir)
}

// With too little free disk nothing is fetched, and deletions go on.
func TestMinFree(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.offers = []string{resourcesync.ResourceList}
	minFree := func(n int64) func(*destination.Options) { return func(o *destination.Options) { o.MinFree = n } }
	s.put("old", "old", 0)
	s.put("older", "older", 0)
	if failed := s.sync(dir, minFree(1)); len(failed) != 0 {
		t.Fatal(failed)
	}
	s.put("new", "new", 0)
	delete(s.files, "old")
	failed := s.sync(dir, minFree(1<<60))
	if len(failed) != 1 || !strings.Contains(failed["new"], "free") || !strings.Contains(failed["new"], "Options.MinFree") || s.gets["/data/new"] != 0 {
		t.Errorf("%v, and it was asked for %d times", failed, s.gets["/data/new"])
	}
	if read(dir, "old") != "" || read(dir, "older") != "older" {
		t.Error("a deletion was not carried out, or too much was deleted")
	}
	s.set("/data/new", endless)
	s.set("/resourcelist.xml", answer(document("urlset", "resourcelist",
		"<url><loc>"+s.URL+"/data/new</loc></url><url><loc>"+s.URL+"/data/older</loc></url>")))
	if failed := s.sync(dir, minFree(1<<60)); !strings.Contains(failed["new"], "Options.MinFree") || len(parts(t, dir)) != 0 {
		t.Errorf("without a length: %v, and %q are left over", failed, parts(t, dir))
	}
	s.set("/data/new", nil)
	s.set("/resourcelist.xml", nil)
	if failed := s.sync(dir, minFree(-1)); len(failed) != 0 {
		t.Error(failed)
	}
	s.same(dir)
}

// The files of a package need no room beside it.
func TestPackagesTakeNoRoom(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.offers = []string{resourcesync.ResourceDump}
	in := dumped(s, 20)
	sum := 0
	for _, body := range in {
		sum += len(body)
	}
	head := resourcesync.Head{Capability: resourcesync.ResourceDumpManifest, At: s.at, Links: []resourcesync.Link{{Rel: "up", Href: s.URL + "/capabilitylist.xml"}}}
	s.put("part.zip", pack(t, head, in, nil), 0)
	s.packages = []string{"part.zip"}
	c := s.open(dir, maxTotal(int64(sum)))
	for range 2 {
		if r, err := c.Sync(t.Context()); err != nil || !r.InSync() {
			t.Errorf("%v %+v", err, r)
		}
	}
	delete(s.files, "part.zip")
	s.same(dir)
	_ = c.Close()
	if got := total(t, dir, nil); got != fmt.Sprint(sum) {
		t.Errorf("the state says %s, and there are %d bytes", got, sum)
	}
}

// A state without the sum, such as one whose record was damaged, counts it once.
func TestTotalIsCountedAnew(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.offers = []string{resourcesync.ResourceList}
	s.put("a", strings.Repeat("a", 400), 0)
	s.put("b", strings.Repeat("b", 300), 0)
	if failed := s.sync(dir, maxTotal(1000)); len(failed) != 0 {
		t.Fatal(failed)
	}
	total(t, dir, func(meta boltfile.Bucket) error { return meta.Delete([]byte("bytes")) })
	s.put("c", strings.Repeat("c", 301), 0)
	if failed := s.sync(dir, maxTotal(1000)); !strings.Contains(failed["c"], "the copy has 700 bytes without it") {
		t.Error(failed)
	}
	if got := total(t, dir, nil); got != "700" {
		t.Errorf("the state says %s", got)
	}
}

// total is the sum that the state of a copy that is closed has on disk, after change.
func total(t *testing.T, dir string, change func(meta boltfile.Bucket) error) (sum string) {
	t.Helper()
	err := changeState(t, dir, func(tx *boltfile.Tx) error {
		sum = string(tx.Bucket([]byte("meta")).Get([]byte("bytes")))
		if change == nil {
			return nil
		}
		return change(tx.Bucket([]byte("meta")))
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// changeState changes the state of a copy that is closed.
func changeState(t *testing.T, dir string, change func(tx *boltfile.Tx) error) error {
	t.Helper()
	db, err := boltfile.Open(filepath.Join(dir, ".rssub", "copy.db"), destination.StateOptions())
	if err != nil {
		return err
	}
	return errors.Join(db.Update(change), db.Close())
}
