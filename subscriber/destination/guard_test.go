package destination_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rshub/rshub/internal/base/boltfile"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/subscriber/destination"
)

// planted are resources that would have a program run, if they had their names in the
// copy: as a repository, and as one without a folder of its own.
func planted(dir string) map[string]string {
	config := "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = " + dir + "\n\tfsmonitor = \"touch " + filepath.Join(dir, ".rssub", "ran") + "; false\"\n"
	files := map[string]string{"plain.txt": "plain", "x/.htaccess": "Options +ExecCGI", "web.config": "<configuration/>", ".user.ini": "auto_prepend_file=x"}
	for _, top := range []string{".git/", "", "GIT~1/", "deep/.GIT/"} {
		files[top+"HEAD"] = "ref: refs/heads/main\n"
		files[top+"config"] = config
		files[top+"objects/info/packs"] = "\n"
		files[top+"refs/heads/x"] = strings.Repeat("0", 40)
	}
	return files
}

// isSafe wants no name in the copy upon which a program acts, and no file without its
// resource.
func isSafe(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		switch name := strings.ToLower(d.Name()); {
		case err != nil:
			return err
		case p == filepath.Join(dir, ".rssub"):
			return fs.SkipDir
		case p == dir:
		case strings.HasPrefix(name, "."), name == "head", name == "web.config", strings.HasPrefix(name, "git~"):
			t.Errorf("%s is in the copy", p)
		}
		if !d.IsDir() {
			n++
		}
		return nil
	})
	if err != nil || n != len(want) {
		t.Errorf("%d files for %d resources: %v", n, len(want), err)
	}
	git, err := exec.LookPath("git")
	if err != nil {
		t.Log("git is not installed; nothing is run in the copy")
		return
	}
	for _, at := range []string{"", "deep"} {
		cmd := exec.CommandContext(t.Context(), git, "status")
		if cmd.Dir = filepath.Join(dir, at); at != "" && !isFolder(cmd.Dir) {
			continue
		}
		cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "not a git repository") {
			t.Errorf("git takes %q of the copy for a repository: %v\n%s", at, err, out)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, ".rssub", "ran")); err == nil {
		t.Error("a command of the Source ran")
	}
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// Whichever way resources come, none gets a name in the copy that has a program run, and
// an audit finds each where it is.
func TestNothingThatRunsIsPlanted(t *testing.T) {
	for _, way := range []string{"list", "dump", "changes"} {
		t.Run(way, func(t *testing.T) {
			s, dir := newSource(t), t.TempDir()
			files := planted(dir)
			put := func(after int) {
				for name, body := range files {
					s.put(name, body, after)
				}
			}
			switch way {
			case "list":
				put(0)
			case "dump":
				s.offers = []string{resourcesync.ResourceDump, resourcesync.ResourceList}
				put(0)
				in := map[string]string{}
				for name, body := range files {
					in[s.URL+"/data/"+name] = body
				}
				head := resourcesync.Head{Capability: resourcesync.ResourceDumpManifest, At: s.at, Links: []resourcesync.Link{{Rel: "up", Href: s.URL + "/capabilitylist.xml"}}}
				s.files["part.zip"] = pack(t, head, in, nil)
				s.packages = []string{"part.zip"}
			}
			c := s.open(dir)
			if r, err := c.Sync(t.Context()); err != nil || !r.InSync() || way == "dump" && s.gets["/data/plain.txt"] > 0 {
				t.Fatalf("%v %+v", err, r)
			}
			if way == "changes" {
				put(10)
				if r, err := c.Sync(t.Context()); err != nil || r.Copied != len(files) || !r.InSync() {
					t.Fatalf("%v %+v", err, r)
				}
			}
			isSafe(t, dir, files)
			if a, err := c.Audit(t.Context(), false); err != nil || !a.InSync || a.Equal != len(files) {
				t.Errorf("%v %+v", err, a)
			}
			if way == "changes" {
				for name := range files {
					if name != "plain.txt" && name != "x/.htaccess" {
						s.drop(name, 20)
					}
				}
				_ = c.Close()
				c = s.open(dir, func(o *destination.Options) { o.MaxDelete = destination.Share{Part: 1} })
				if r, err := c.Sync(t.Context()); err != nil || r.Deleted != len(files)-2 {
					t.Errorf("%v %+v", err, r)
				}
				isSafe(t, dir, s.files)
			}
		})
	}
}

// A copy from before names were guarded is renamed when it is opened: no file is fetched
// again, lost, or there twice. What is allowed later gets its own name back.
func TestOlderCopyIsRenamed(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	files := planted(dir)
	files[".well-known/x"] = "x"
	for name, body := range files {
		s.put(name, body, 0)
	}
	with := func(allow ...string) *destination.Copy {
		t.Helper()
		return s.open(dir, func(o *destination.Options) { o.HiddenAllow = allow })
	}
	c := with("*")
	if r, err := c.Sync(t.Context()); err != nil || !r.InSync() {
		t.Fatalf("%v %+v", err, r)
	}
	_ = c.Close()
	if read(dir, ".git/HEAD") == "" || read(dir, "HEAD") == "" {
		t.Fatal("there is no copy of the kind that there was")
	}
	err := changeState(t, dir, func(tx *boltfile.Tx) error { return tx.Bucket([]byte("meta")).Delete([]byte("names")) })
	if err == nil { // as if it had been killed between a rename and its record
		err = os.Rename(filepath.Join(dir, "web.config"), filepath.Join(dir, "%77eb.config"))
	}
	if err != nil {
		t.Fatal(err)
	}
	gets := maps.Clone(s.gets)
	look := func(c *destination.Copy, want map[string]string) {
		t.Helper()
		if r, err := c.Sync(t.Context()); err != nil || !r.InSync() || r.Copied+r.Deleted != 0 {
			t.Errorf("%v %+v", err, r)
		}
		if a, err := c.Audit(t.Context(), false); err != nil || !a.InSync || a.Equal != len(files) {
			t.Errorf("%v %+v", err, a)
		}
		for name := range files {
			if n := s.gets["/data/"+name] - gets["/data/"+name]; n != 0 {
				t.Errorf("%s was fetched %d times more", name, n)
			}
		}
		for name, body := range want {
			if read(dir, name) != body {
				t.Errorf("%s is %q in the copy, want %q", name, read(dir, name), body)
			}
		}
	}
	c = with()
	isSafe(t, dir, files)
	look(c, map[string]string{"%2Egit/%48EAD": files[".git/HEAD"], "%77eb.config": files["web.config"], "%2Ewell-known/x": "x", ".well-known/x": "", ".git/HEAD": ""})
	_ = c.Close()
	c = with(".well-known")
	look(c, map[string]string{".well-known/x": "x", "%2Ewell-known/x": "", "%2Egit/%48EAD": files[".git/HEAD"]})
	_ = c.Close()
	look(with(), map[string]string{"%2Ewell-known/x": "x", ".well-known/x": ""})
}

// A pattern that is none is refused.
func TestHiddenAllowIsChecked(t *testing.T) {
	for _, p := range []string{"", "a[", ".well-known/x"} {
		_, err := destination.Open(destination.Options{Source: "http://example.org/", Dir: t.TempDir(), HiddenAllow: []string{p}})
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", p)) {
			t.Errorf("%q: %v", p, err)
		}
	}
}
