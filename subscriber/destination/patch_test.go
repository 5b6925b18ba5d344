package destination_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/destination"
)

const patchRel = "http://www.openarchives.org/rs/terms/patch"

// counting is a response that counts the bytes of its body.
type counting struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (c counting) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return c.ResponseWriter.Write(p)
}

// A file of 50 MB that a diff of 1 KB changes moves under 100 KB, with all documents. The result of a
// patch counts only by the length and hash of the entry; else the whole resource is fetched, and so it
// is if the copy lacks the state before.
func TestPatches_LNK04(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	var sent atomic.Int64
	inner := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { inner.ServeHTTP(counting{w, &sent}, r) })
	lines := make([]string, 50_000)
	for i := range lines {
		lines[i] = fmt.Sprintf("%08d %s\n", i, strings.Repeat("x", 990))
	}
	whole := func() string { return strings.Join(lines, "") }
	s.put("big", whole(), 0)
	s.put("other", "1234567890", 0)
	s.freezeList()
	external := func(_ context.Context, p destination.Patch, out io.Writer) error {
		old, err := os.ReadFile(p.Old)
		patch, failed := os.ReadFile(p.File)
		if err = errors.Join(err, failed); err == nil {
			_, err = out.Write(append(old[:len(old)-len(patch)], patch...))
		}
		return err
	}
	c := s.open(dir, func(o *destination.Options) {
		o.Patches = map[string]destination.Patcher{"application/x-end": external}
	})
	if r, err := c.Sync(t.Context()); err != nil || r.Copied != 2 {
		t.Fatalf("%v %+v", err, r)
	}
	second := 0
	// change changes a file, with a link to a patch of some type.
	change := func(name, body, patch, kind string) {
		second++
		s.put(name, body, second)
		if patch == "" {
			return
		}
		at := fmt.Sprintf("/patch%d", second)
		s.set(at, answer(patch))
		s.changes[len(s.changes)-1].Links = []resourcesync.Link{{Rel: patchRel, Href: s.URL + at, Type: kind, Length: int64(len(patch)), HasLength: true, Hash: hashOf(patch)}}
	}
	sync := func(what string, patched int, most int64) {
		t.Helper()
		before := sent.Load()
		r, err := c.Sync(t.Context())
		if err != nil || !r.InSync() || r.Copied != 1 || r.Patched != patched || sent.Load()-before > most {
			t.Errorf("%s: %v %+v, %d bytes", what, err, r, sent.Load()-before)
		}
		s.same(dir)
	}
	diff := func(line int, to string) string {
		d := fmt.Sprintf("--- a\n+++ b\n@@ -%d +%d @@\n-%s+%s", line+1, line+1, lines[line], to)
		lines[line] = to
		return d
	}
	d := diff(40_000, "changed\n")
	change("big", whole(), d, "text/x-diff; charset=utf-8")
	sync("a diff", 1, 100_000)
	for i := range 3 {
		d := diff(20_000+i, "changed, too\n")
		change("big", whole(), d, "text/x-patch")
	}
	sync("three diffs in a row", 1, 100_000)
	const all = 1 << 30
	change("other", "12345678ab", "ab", "application/x-end")
	sync("a command", 1, all)
	change("other", "123456789c", "d", "application/x-end")
	sync("another result", 0, all)
	change("other", "123456789d", "d", "application/x-unknown")
	sync("an unknown type", 0, all)
	change("other", "12345678de", "123456789e", "application/x-end")
	sync("a long patch", 0, all)
	change("other", "x2345678de", "", "")
	change("other", "x2345678fg", "fg", "application/x-end")
	requests := s.gets[fmt.Sprintf("/patch%d", second)]
	sync("a state in between", 0, all)
	if n := s.gets[fmt.Sprintf("/patch%d", second)] - requests; n != 0 {
		t.Errorf("a patch for another state was requested %d times", n)
	}
	change("other", "x2345678gg", "fg", "application/x-end")
	change("other", "x2345678gh", "gh", "application/x-end")
	sync("a wrong patch in between", 0, all)
	change("other", "x2345678hi", "hi", "application/x-end")
	s.set(fmt.Sprintf("/patch%d", second), http.NotFound)
	sync("no patch", 0, all)
	change("other", "x2345678jk", "jk", "application/x-end")
	if err := os.WriteFile(dir+"/other", []byte("y2345678hi"), 0o600); err != nil {
		t.Fatal(err)
	}
	sync("a damaged file", 0, all)
	if left, _ := os.ReadDir(dir + "/.rssub/parts"); len(left) > 0 {
		t.Errorf("it leaves %v", left)
	}
	if a, err := c.Audit(t.Context(), false); err != nil || !a.InSync || a.Equal != 2 {
		t.Errorf("%v %+v", err, a)
	}
}

// A Patcher that writes too much, or hangs until its context ends, does no harm.
func TestPatchersThatMisbehave(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.put("a", "1234567890", 0)
	s.freezeList()
	c := s.open(dir, func(o *destination.Options) {
		o.Patches = map[string]destination.Patcher{
			"a/endless": func(_ context.Context, _ destination.Patch, out io.Writer) error {
				for {
					if _, err := io.WriteString(out, strings.Repeat("x", 1<<16)); err != nil {
						return err
					}
				}
			},
			"a/right-but-fails": func(_ context.Context, _ destination.Patch, out io.Writer) error {
				_, _ = io.WriteString(out, "second one")
				return errors.New("it changed its mind")
			},
		}
	})
	if r, err := c.Sync(t.Context()); err != nil || r.Copied != 1 {
		t.Fatalf("%v %+v", err, r)
	}
	for i, kind := range []string{"a/endless", "a/right-but-fails"} {
		s.put("a", []string{"first one!", "second one"}[i], i+1)
		s.set("/patch", answer("p"))
		s.changes[i].Links = []resourcesync.Link{{Rel: patchRel, Href: s.URL + "/patch", Type: kind, Length: 1, HasLength: true}}
		r, err := c.Sync(t.Context())
		if err != nil || !r.InSync() || r.Patched != 0 {
			t.Errorf("%s: %v %+v", kind, err, r)
		}
		s.same(dir)
	}
}

// A resource that could not be fetched, and its patch neither, for a passing cause: the next try uses the
// patch again.
func TestPatchesOfFailures_LNK04(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	s.put("a", strings.Repeat("a line\n", 100), 0)
	s.freezeList()
	c := s.open(dir)
	if r, err := c.Sync(t.Context()); err != nil || r.Copied != 1 {
		t.Fatalf("%v %+v", err, r)
	}
	d := "--- a\n+++ b\n@@ -1 +1 @@\n-a line\n+b line\n"
	s.put("a", "b line\n"+strings.Repeat("a line\n", 99), 1)
	s.changes[0].Links = []resourcesync.Link{{Rel: patchRel, Href: s.URL + "/diff", Type: "text/x-diff", Length: int64(len(d)), HasLength: true}}
	away := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }
	s.set("/diff", away)
	s.set("/data/a", away)
	if r, err := c.Sync(t.Context()); err != nil || r.InSync() || r.Failed != 1 {
		t.Fatalf("%v %+v", err, r)
	}
	s.set("/diff", answer(d))
	if r, err := c.Sync(t.Context()); err != nil || !r.InSync() || r.Copied != 1 || r.Patched != 1 {
		t.Fatalf("%v %+v", err, r)
	}
	s.same(dir)
}
