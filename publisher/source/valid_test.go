package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/resourcesync"
)

// grown is a Source that has every kind of document, in parts where there can be.
func grown(t *testing.T) *site {
	t.Helper()
	x := newSite(t, func(o *Options) {
		withHub(o)
		o.Schedule.RotateAt = 5
	})
	x.sets[0].composer.limits = resourcesync.WriteOptions{MaxEntries: 4}
	for i := range 10 {
		x.write(map[string]string{fmt.Sprintf("d%d/%d.txt", i%3, i): fmt.Sprint(i)})
	}
	x.build()
	for turn := range 3 {
		for i := range 6 {
			x.write(map[string]string{fmt.Sprintf("d%d/%d.txt", i%3, i): fmt.Sprint(i, turn)})
		}
		if err := os.Remove(filepath.Join(x.dir, fmt.Sprintf("d%d/%d.txt", (9-turn)%3, 9-turn))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
		x.build()
	}
	return x
}

// Every document of a served Source passes every check that we have, strictly, and
// all agree with each other.
func TestValidateFollows(t *testing.T) {
	x := grown(t)
	out, err := follow(t, x)
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"description", "capabilitylist", "resourcelist index", "resourcelist at", "changelist index", "changelist from", "resourcedump at", "changedump from",
		"resourcelist-archive,", "resourcedump-archive,", "changelist-archive", "changedump-archive",
	} {
		if !strings.Contains(out, ": "+want) {
			t.Errorf("there is no %s among\n%s", want, out)
		}
	}
	if strings.Contains(out, "WARN") {
		t.Errorf("there are warnings:\n%s", out)
	}
}

// follow validates all documents of a Source, as rshub validate does.
func follow(t *testing.T, x *site) (said string, err error) {
	t.Helper()
	var out bytes.Buffer
	cmd := cli.Validate()
	cmd.SetArgs([]string{"--dev", "--follow", "--strict", "--pause", "0s", x.DescriptionURL()})
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceUsage = true
	err = cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// So do the documents of a Source without a single resource.
func TestValidateFollowsNothing(t *testing.T) {
	x := newSite(t, nil)
	x.build()
	if out, err := follow(t, x); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// They are valid by the schemas of sitemaps and of ResourceSync, but where these are
// narrower than the text (DOC-50).
func TestDocumentsAreValid_DOC51_DOC61(t *testing.T) {
	x := grown(t)
	for _, shelf := range []*shelf{x.site, x.sets[0].shelf} {
		for path, d := range shelf.current().Documents {
			if d.Type != xmlType {
				continue
			}
			text, err := os.ReadFile(filepath.Join(shelf.dir, d.File))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(text, []byte("<loc>")) {
				continue // DOC-50
			}
			if said, err := xmllint(t, text); err != nil {
				t.Errorf("%s: %v: %s", path, err, said)
			}
		}
	}
}

func xmllint(t *testing.T, text []byte) (string, error) {
	t.Helper()
	tool, err := exec.LookPath("xmllint")
	if err != nil {
		t.Skip("there is no xmllint on this machine; make test installs it")
	}
	root := "urlset"
	if bytes.Contains(text, []byte("<sitemapindex")) {
		root = "sitemapindex"
	}
	schema := filepath.Join("..", "..", "..", "shared", "spec-examples", root+".xsd")
	if _, err := os.Stat(schema); err != nil {
		t.Skipf("there are no schemas beside the project: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), tool, "--nonet", "--noout", "--schema", schema, "-")
	cmd.Stdin = bytes.NewReader(text)
	said, err := cmd.CombinedOutput()
	return string(said), err
}

// oddNames are file names that break programs.
func oddNames() []string {
	return []string{
		"plain.txt", "with space.txt", "per%cent.txt", "per%20cent.txt", "and&.txt", "hash#.txt", "question?.txt", "plus+.txt", "semi;colon=.txt",
		"quote\".txt", "apos'.txt", "less<than>.txt", "back\\slash.txt", "colon:.txt", "star*.txt", "pipe|.txt", "at@.txt", "comma,.txt",
		"ümläut.txt", "u\u0308nicode.txt", "日本語.txt", "😀.txt", "\u202eright-to-left.txt", "\u00a0nbsp.txt", "\ufeffbom.txt",
		"new\nline.txt", "tab\there.txt", "bell\a.txt", "\x80\xff not utf-8.txt", ".dot", "..two", "...three", ".hidden/.deeper/file",
		" leading", "trailing ", "trailing.", "-dash", "~tilde", "manifest.xml", "CON", "aux.txt", "no extension", ".well-known/resourcesync",
		"a/b/c/d/e/f/g/h/i/j/deep.txt", strings.Repeat("n", 255), strings.Repeat("ü", 127) + "n", "resourcelist.xml", "data/data/data",
	}
}

// Whatever a file is called and however long it is: its address in the list leads to
// its bytes, and so does its place in the dump (DOC-34, DOC-38, DOC-55, DOC-56).
func TestRoundTrip_DOC34_DOC38_DOC55_DOC56(t *testing.T) {
	x := newSite(t, withHidden)
	files := make(map[string]string)
	random := rand.New(rand.NewPCG(1, 1))
	for i, name := range oddNames() {
		text := make([]byte, random.IntN(100))
		for j := range text {
			text[j] = byte(random.Uint32())
		}
		files[name] = fmt.Sprint(i) + string(text)
	}
	files["empty"], files["large.bin"] = "", strings.Repeat("0123456789", 200_000)
	x.write(files)
	x.build()
	fetched := x.fetchAll("/resourcelist.xml")
	if len(fetched) != len(files) {
		t.Errorf("%d resources are listed, there are %d files", len(fetched), len(files))
	}
	unpacked := x.unpackAll("/resourcedump.xml")
	for name, want := range files {
		loc := x.server.URL + "/data/" + EscapePath(name)
		if got, ok := fetched[loc]; !ok || got != want {
			t.Errorf("%q: there is %d bytes (%v), want %d", name, len(got), ok, len(want))
		}
		if got, ok := unpacked[loc]; !ok || got != want {
			t.Errorf("%q: the dump has %d bytes (%v), want %d", name, len(got), ok, len(want))
		}
	}
}

// fetchAll fetches all that a list and its parts list, and compares it with what they
// say of it.
func (x *site) fetchAll(list string) map[string]string {
	x.t.Helper()
	all := make(map[string]string)
	h, entries := x.read(list)
	for _, e := range entries {
		if h.Index {
			for loc, text := range x.fetchAll(e.Loc) {
				all[loc] = text
			}
			continue
		}
		got := x.get(e.Loc)
		hasher := resourcesync.NewHasher(resourcesync.MD5, resourcesync.SHA256)
		_, _ = hasher.Write([]byte(got.body))
		if got.status != http.StatusOK || e.Length != hasher.Length() || resourcesync.ParseHashes(e.Hash) != hasher.Digests() || got.header.Get("Content-Type") != e.Type {
			x.t.Errorf("%s: %d, %v; the list says %+v", e.Loc, got.status, got.header, e)
		}
		all[e.Loc] = got.body
	}
	return all
}

// unpackAll reads all packages of a dump; those that were deleted have no bytes.
func (x *site) unpackAll(dump string) map[string]string {
	x.t.Helper()
	all := make(map[string]string)
	_, packages := x.read(dump)
	for _, p := range packages {
		body := x.get(p.Loc).body
		sum := resourcesync.NewHasher(resourcesync.SHA256)
		_, _ = sum.Write([]byte(body))
		if p.Length != int64(len(body)) || resourcesync.ParseHashes(p.Hash).Compare(sum.Digests()) != resourcesync.Equal {
			x.t.Errorf("%s is not what the dump says", p.Loc)
		}
		r, err := resourcesync.NewDumpReader(strings.NewReader(body), int64(len(body)), resourcesync.DumpReadOptions{Strict: true})
		if err != nil {
			x.t.Fatal(err)
		}
		for e, err := range r.Entries() {
			if err != nil {
				x.t.Fatal(err)
			}
			b, err := r.Open(e)
			if errors.Is(err, resourcesync.ErrNoBitstream) {
				all[e.Loc] = string(resourcesync.Deleted)
				continue
			}
			var text bytes.Buffer
			if err == nil {
				_, err = text.ReadFrom(b)
				_ = b.Close()
			}
			if err != nil {
				x.t.Fatal(err)
			}
			all[e.Loc] = text.String()
		}
		if len(r.Missing()) > 0 || len(r.Extra()) > 0 {
			x.t.Errorf("%s lacks %v and has %v too many", p.Loc, r.Missing(), r.Extra())
		}
	}
	return all
}

// 100,000 files need an index of Resource Lists, and all of them round-trip. It takes
// minutes: RSPUB_MANY_FILES=1 runs it.
func TestManyFiles_DOC35_DOC60(t *testing.T) {
	if os.Getenv("RSPUB_MANY_FILES") == "" {
		t.Skip("RSPUB_MANY_FILES is not set")
	}
	x := newSite(t, nil)
	const files = 100_000
	for i := range files {
		dir := filepath.Join(x.dir, fmt.Sprint(i%100))
		if i < 100 {
			if err := os.Mkdir(dir, 0o750); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.txt", i)), []byte(fmt.Sprint(i)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.Build(context.Background()); err != nil {
		t.Fatal(err)
	}
	if h, entries := x.read("/resourcelist.xml"); !h.Index || len(entries) != 2 {
		t.Errorf("the Resource List has %d entries, and is an index: %v", len(entries), h.Index)
	}
	fetched := x.fetchAll("/resourcelist.xml")
	for i := range files {
		if loc := fmt.Sprintf("%s/data/%d/%d.txt", x.server.URL, i%100, i); fetched[loc] != fmt.Sprint(i) {
			t.Fatalf("%s is %q", loc, fetched[loc])
		}
	}
	if unpacked := x.unpackAll("/resourcedump.xml"); len(unpacked) != files || len(fetched) != files {
		t.Errorf("%d fetched and %d unpacked, there are %d", len(fetched), len(unpacked), files)
	}
}
