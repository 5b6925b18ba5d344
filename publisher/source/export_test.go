package source

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// files are the regular files below a folder, by path.
func files(t testing.TB, dir string) map[string]os.FileInfo {
	t.Helper()
	all := make(map[string]os.FileInfo)
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		all[strings.TrimPrefix(path, dir+"/")] = info
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// export builds and exports, and checks that the folder has the documents of this
// Export, those of the one before, and what there was besides.
func (x *site) export(out string, besides ...string) {
	x.t.Helper()
	x.build()
	if err := x.Export(out); err != nil {
		x.t.Fatal(err)
	}
	e, err := readExported(out)
	if err != nil {
		x.t.Fatal(err)
	}
	want := slices.Concat(e.Paths, e.Before, besides, []string{exportRecord})
	for _, s := range x.sets {
		if s.name != "" {
			want = append(want, s.name+"/"+exportRecord)
		}
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(files(x.t, out))); !slices.Equal(got, want) {
		x.t.Errorf("the folder has\n%q\nand should have\n%q", got, want)
	}
}

// However often it is run, with changes and without: nothing stays but what the last
// Export and the one before it wrote, and the folder does not grow.
func TestExportLeavesNothing(t *testing.T) {
	x := newSite(t, func(o *Options) { o.Schedule.Linger, o.Schedule.KeepDumps = -1, 1 })
	out := t.TempDir()
	large := strings.Repeat("0123456789abcdef", 1<<14)
	size := func() (sum int64) {
		for _, info := range files(t, out) {
			sum += info.Size()
		}
		return sum
	}
	var second int64
	for turn := range 6 {
		x.write(map[string]string{"large": large, "a": fmt.Sprint(turn / 2 * 2)})
		x.export(out)
		if turn == 3 {
			second = size()
		}
	}
	if now := size(); now > second+second/4 {
		t.Errorf("the folder grew from %d to %d bytes in two runs", second, now)
	}
}

// What earlier versions left is removed, and nothing that may be somebody's own.
func TestExportSweepsOldLeavings(t *testing.T) {
	x := newSite(t, func(o *Options) { o.Schedule.Linger, o.Schedule.KeepDumps = -1, 1 })
	out := t.TempDir()
	at := func(path string) string { return filepath.Join(out, path) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	x.write(map[string]string{"a": "1"})
	x.export(out)
	// A rename of one name of a file to another left both.
	e, err := readExported(out)
	must(err)
	for _, p := range e.Paths {
		must(os.Link(at(p), at(p)+oldTemp))
	}
	// Some whose documents are gone by now, and others that no record tells of.
	var gone []string
	for _, p := range e.Paths {
		if numbered.MatchString(filepath.Base(p)) {
			gone = append(gone, p)
			must(os.Link(at(p), filepath.Join(filepath.Dir(at(p)), strings.Replace(filepath.Base(p), "-", "-9", 1)+oldTemp)))
		}
	}
	if len(gone) < 3 {
		t.Fatalf("there are too few documents with numbers: %q", e.Paths)
	}
	stray := strings.Replace(gone[0], "-", "-8", 1)
	must(os.Link(at(gone[0]), at(stray)))
	// What was killed while it wrote.
	must(os.WriteFile(at(exportTemp+"-resourcelist.xml"), []byte("<?xml"), 0o600))
	text, err := os.ReadFile(at("resourcelist.xml"))
	must(err)
	must(os.Remove(at("resourcelist.xml" + oldTemp)))
	must(os.WriteFile(at("resourcelist.xml"+oldTemp), text[:len(text)/2], 0o600))

	mine := []string{"notes.txt.new", "capabilitylist.xml.new", "dumps/mine.zip", "dumps/mine.zip.new", "archive/changelist-1.xml.new", "dumps/resourcedump-7-1.zip", "changelist-7.xml"}
	must(os.Remove(at("capabilitylist.xml" + oldTemp)))
	for i, p := range mine {
		must(os.MkdirAll(filepath.Dir(at(p)), 0o750))
		must(os.WriteFile(at(p), []byte(fmt.Sprint("mine", i)), 0o600))
	}
	x.export(out, mine...)
	for i, p := range mine {
		if text, err := os.ReadFile(at(p)); err != nil || string(text) != fmt.Sprint("mine", i) {
			t.Errorf("%s has %q: %v", p, text, err)
		}
	}
	if _, err := os.Stat(at(stray)); err != nil {
		t.Errorf("who reads a document that was not recorded can't finish: %v", err)
	}
	x.export(out, mine...)
	if _, err := os.Stat(at(stray)); err == nil {
		t.Errorf("%s stays for good", stray)
	}
}

// exporting is set for the process of TestKilledExport that is killed.
const exporting = "SOURCE_TEST_EXPORTING"

// Killed at any moment: the next two Exports leave what they wrote, and nothing else.
func TestKilledExport(t *testing.T) {
	if args := os.Getenv(exporting); args != "" {
		state := strings.Split(args, "\n")
		o := eager(state[1])
		o.PublicURL, o.StateDir, o.Schedule.RotateAt, o.Schedule.Linger = state[0], state[2], 2, -1
		s, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		for n := 0; ; n++ {
			writeFiles(t, state[1], map[string]string{fmt.Sprint("f", n%5): fmt.Sprint(time.Now())})
			if err := s.Build(t.Context()); err != nil {
				t.Fatal(err)
			}
			fmt.Print(".")
			if err := s.Export(state[3]); err != nil {
				t.Fatal(err)
			}
		}
	}
	random := rand.New(rand.NewPCG(1, 1))
	x := newSite(t, func(o *Options) { o.Schedule.RotateAt, o.Schedule.Linger = 2, -1 })
	out := t.TempDir()
	for range 4 {
		x.close()
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledExport$")
		cmd.Env = append(os.Environ(), exporting+"="+strings.Join([]string{x.o.PublicURL, x.dir, x.o.StateDir, out}, "\n"))
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_, _ = pipe.Read(make([]byte, 1+random.IntN(2))) // it exports
		time.Sleep(time.Duration(random.IntN(8)) * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		x.open()
		x.export(out)
		x.export(out)
	}
}

// An Export that begins after a scan has looked at a folder, and before it lists it, is known as one.
func TestExportDuringAScan(t *testing.T) {
	x := newSite(t, func(*Options) {})
	x.write(map[string]string{"deep/www/a": "1"})
	x.build()
	root, err := os.OpenRoot(x.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	documents := outputs{root: root}
	const document = "deep/www/resourcelist.xml"
	for turn, folder := range []string{"deep/www", ""} { // the second has a record of the first in it
		if documents.whole(folder) || turn == 0 && documents.have(document) {
			t.Fatalf("%q has documents before the Export", folder)
		}
		if err := x.Export(filepath.Join(x.dir, folder)); err != nil {
			t.Fatal(err)
		}
		documents.renew(folder)
		if !documents.have(join(folder, "resourcelist.xml")) {
			t.Errorf("a document in %q is taken for a resource", folder)
		}
	}
}

// Documents are no resources, wherever they are written: for the Source that wrote them
// and for any other that publishes the folder, at once and while it watches.
func TestDocumentsAreNoResources(t *testing.T) {
	for name, where := range map[string]string{"the folder itself": "", "a folder in it": "deep/www"} {
		t.Run(name, func(t *testing.T) {
			x := newSite(t, withHidden)
			out := filepath.Join(x.dir, where)
			other := newSite(t, func(o *Options) {
				o.Sets[0].Folder.Dir, o.Sets[0].Folder.Hidden = x.dir, true
				o.Sets[0].Folder.Settle, o.Sets[0].Folder.Patience = 10*time.Millisecond, 0
			})
			x.write(map[string]string{"a": "1", "b/c.xml": "2", "index.html": "mine"})
			stop := other.run()
			eventually(t, "the folder is not scanned", func() bool { return other.Resources() == 3 })
			for turn := range 3 {
				x.write(map[string]string{"a": fmt.Sprint(turn)})
				x.build()
				if err := x.Export(out); err != nil {
					t.Fatal(err)
				}
			}
			x.write(map[string]string{"z": "last"})
			eventually(t, "the last file is not published", func() bool { return other.get("/data/z").status == 200 })
			stop()
			x.build()
			other.build()
			for _, s := range []*site{x, other} {
				if n := s.Resources(); n != 4 {
					t.Errorf("there are %d resources, want 4:\n%s", n, s.get("/resourcelist.xml").body)
				}
			}
			for _, c := range other.log(0) {
				if !slices.Contains([]string{"a", "z"}, c.Resource.Path) {
					t.Errorf("%s was published as %s", c.Resource.Path, c.Change)
				}
			}
			below := strings.TrimPrefix(filepath.Join("/data", where), "/")
			if got := other.get("/" + below + "/resourcelist.xml"); got.status != 404 {
				t.Errorf("a document is served as a resource: %d", got.status)
			}
			if text, err := os.ReadFile(filepath.Join(x.dir, "index.html")); err != nil || string(text) != "mine" {
				t.Errorf("the page of somebody else has %q: %v", text, err)
			}
		})
	}
}

// What was published before it was known for a document is deleted, however much of the
// folder that is, and is not served any more from the first moment on.
func TestPublishedDocumentIsDeleted(t *testing.T) {
	x := newSite(t, nil)
	list := make(map[string]string)
	var record exported
	for i := range 30 {
		path := fmt.Sprintf("www/changelist-%d.xml", i)
		list[path] = "<urlset/>"
		record.Paths = append(record.Paths, strings.TrimPrefix(path, "www/"))
	}
	x.write(list)
	x.write(map[string]string{"a": "1"})
	x.build()
	record.Shared = true
	if err := record.write(filepath.Join(x.dir, "www")); err != nil {
		t.Fatal(err)
	}
	if got := x.get("/data/www/changelist-3.xml"); got.status != 404 {
		t.Errorf("it answers %d", got.status)
	}
	x.build()
	if n, held := x.Resources(), x.Status().Sets[0].Folder.Held; n != 1 || held != 0 {
		t.Errorf("%d resources stay, %d deletions are held back", n, held)
	}
}

// While Run watches, what a record begins to name is no resource any more.
func TestFileBecomesADocument(t *testing.T) {
	r := newRig(t, quick, "a", "b/list.xml", "c/d/list.xml")
	r.runs()
	r.becomes(map[string]string{"a": "a", "b/list.xml": "b/list.xml", "c/d/list.xml": "c/d/list.xml"})
	r.must(exported{Paths: []string{"b/list.xml"}}.write(r.dir))
	r.must(exported{}.write(r.at("c")))
	r.becomes(map[string]string{"a": "a"})
}

// Sets may lie where their documents are written.
func TestSetsBesideTheirDocuments(t *testing.T) {
	top := t.TempDir()
	x := newSite(t, func(o *Options) {
		o.Sets = nil
		for _, name := range []string{"books", "maps"} {
			s := eager(filepath.Join(top, name)).Sets[0]
			s.Name = name
			if err := os.Mkdir(s.Folder.Dir, 0o750); err != nil {
				t.Fatal(err)
			}
			o.Sets = append(o.Sets, s)
		}
	})
	writeFiles(t, top, map[string]string{"books/a": "A", "maps/m": "M"})
	for range 3 {
		x.export(top, "books/a", "maps/m")
	}
	if n := x.Resources(); n != 2 {
		t.Errorf("there are %d resources, want 2", n)
	}
}

// A document never takes the place of a resource.
func TestExportKeepsResources(t *testing.T) {
	x := newSite(t, nil)
	x.write(map[string]string{"resourcelist.xml": "mine", "robots.txt": "mine", "a": "1"})
	x.build()
	err := x.Export(x.dir)
	if err == nil || !strings.Contains(err.Error(), filepath.Join(x.dir, "resourcelist.xml")) {
		t.Errorf("%v", err)
	}
	for _, path := range []string{"resourcelist.xml", "robots.txt"} {
		if got := x.get("/data/" + path); got.body != "mine" {
			t.Errorf("%s is %q", path, got.body)
		}
	}
	if got := slices.Sorted(maps.Keys(files(t, x.dir))); len(got) != 3 {
		t.Errorf("the folder has %q", got)
	}
}
