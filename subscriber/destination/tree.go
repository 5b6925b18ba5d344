package destination

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/rshub/rshub/internal/base/egress"
)

// tree is the files of the copy. It gives each resource its own path, and deletes and renames
// files. It may be shared between goroutines.
type tree struct {
	roots []Root
	root  *os.Root // the copy's folder
	state *state
	names naming
	folds bool // to the file system a.txt and A.txt are one file, or two forms of a name are
	log   *slog.Logger

	placing sync.Mutex
	placed  map[string]string // URLs by the folded paths that were assigned to them and are not recorded yet
	above   map[string]int    // how many of these paths are below a folder
}

func newTree(o *Options, root *os.Root, state *state) *tree {
	return &tree{roots: o.Roots, root: root, state: state, names: naming{o.HiddenAllow}, log: o.Log, placed: map[string]string{}, above: map[string]int{}}
}

// probeFolding finds out whether two names are one file to the file system, if they differ only
// in case, normal form or invisible characters.
func (t *tree) probeFolding() bool {
	const probe = stateName + "/Prob\u00e9"
	if t.root.WriteFile(probe, nil, 0o600) != nil {
		return false
	}
	defer func() { _ = t.root.Remove(probe) }()
	return slices.ContainsFunc([]string{"prob\u00e9", "Probe\u0301", "Pro\u200cb\u00e9"}, func(other string) bool {
		_, err := t.root.Lstat(stateName + "/" + other)
		return err == nil
	})
}

// foldsState finds out the same about case with the folder of the state, without writing.
func (t *tree) foldsState() bool {
	_, err := t.root.Lstat(strings.ToUpper(stateName))
	return err == nil
}

// rootOf returns the root that a URL belongs to.
func (t *tree) rootOf(rawURL string) Root {
	best := Root{}
	for _, r := range t.roots {
		if (strings.HasPrefix(rawURL, r.URL) || rawURL+"/" == r.URL) && len(r.URL) > len(best.URL) {
			best = r
		}
	}
	if best.URL != "" {
		return best
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		return Root{}
	}
	host := egress.HostPort(u)
	if u.Port() == "" {
		host = strings.ToLower(u.Hostname())
	}
	return Root{URL: u.Scheme + "://" + u.Host + "/", Dir: t.names.hostDir(u.Scheme, host)}
}

// hostDir returns the folder of a host. Each scheme, host and port has its own.
func (n naming) hostDir(scheme, host string) string {
	name := strings.NewReplacer(":", "_", "[", "", "]", "").Replace(host)
	if scheme != "https" && scheme != "http" {
		name = scheme + "_" + name
	}
	return shorten(n.escape(name))
}

// preferredPath returns the path of a URL, unless something else has that path.
func (t *tree) preferredPath(rawURL string) (string, error) {
	root := t.rootOf(rawURL)
	if root.URL == "" {
		return "", fmt.Errorf("%q is not a URL", rawURL)
	}
	p, err := t.names.path(root.URL, rawURL)
	if err != nil {
		return "", fmt.Errorf("%s has no place in the copy: %w", rawURL, cmp.Or(noWebAddress(rawURL), err))
	}
	return path.Join(root.Dir, p), nil
}

// assign returns the path for a URL: the one it has, or else the preferred one, or one beside it
// if that is not free. No other URL gets the path until it is recorded, or given up with release.
// Empty: there is nothing at the path.
func (t *tree) assign(rawURL string) (p string, empty bool, err error) {
	t.placing.Lock()
	defer t.placing.Unlock()
	if f, ok := t.state.file(rawURL); ok && t.folderAt(path.Dir(f.Path)) {
		return f.Path, false, nil
	}
	return t.assignNew(rawURL)
}

// assignNew is assign for a URL that must get another path than it has. The caller has locked
// placing.
func (t *tree) assignNew(rawURL string) (p string, empty bool, err error) {
	wish, err := t.preferredPath(rawURL)
	if err != nil {
		return "", false, err
	}
	dir := "."
	segments := strings.Split(wish, "/")
	for _, name := range segments[:len(segments)-1] {
		next := path.Join(dir, name)
		if !t.folderAt(next) {
			next = path.Join(dir, beside(name, next+"/"))
		}
		dir = next
	}
	name := segments[len(segments)-1]
	for _, name := range []string{name, beside(name, rawURL)} {
		p := path.Join(dir, name)
		if !t.folderAt(dir) {
			break
		}
		if free, empty := t.isFree(p, rawURL); free {
			t.reserve(t.fold(p), rawURL)
			return p, empty, nil
		}
	}
	return "", false, fmt.Errorf("%s has no place in the copy: %s is taken", rawURL, wish)
}

// folderAt reports whether there is or may be a folder at a path: no file is there, and no file
// will be. A link that leads out of the copy counts as one, so that place refuses what belongs there. The
// caller has locked placing.
func (t *tree) folderAt(dir string) bool {
	if dir == "." || t.above[t.fold(dir)] > 0 { // another file will be in it
		return true
	}
	if info, err := t.root.Lstat(dir); err == nil {
		return info.IsDir() || t.leadsOut(dir)
	}
	return t.owner(t.fold(dir)) == ""
}

// isFree reports whether a URL may get a path: no other URL has it, and nothing is below it. Empty:
// there is nothing at the path. The caller has locked placing.
func (t *tree) isFree(p, rawURL string) (free, empty bool) {
	key := t.fold(p)
	if owner := t.owner(key); owner != "" && owner != rawURL {
		return false, false
	}
	if t.above[key] > 0 {
		return false, false
	}
	info, err := t.root.Lstat(p)
	return (err != nil || !info.IsDir()) && !t.state.below(key), errors.Is(err, fs.ErrNotExist)
}

// owner returns the URL that has a path, or to which it was just assigned; empty: none.
func (t *tree) owner(key string) string {
	if u := t.placed[key]; u != "" {
		return u
	}
	return t.state.owner(key)
}

// reserve reserves a path for a URL. The caller has locked placing.
func (t *tree) reserve(key, rawURL string) {
	if t.placed[key] == "" {
		for dir := path.Dir(key); dir != "."; dir = path.Dir(dir) {
			t.above[dir]++
		}
	}
	t.placed[key] = rawURL
}

// release gives up a path that was assigned to a URL.
func (t *tree) release(p string) {
	t.placing.Lock()
	defer t.placing.Unlock()
	key := t.fold(p)
	if t.placed[key] == "" {
		return
	}
	delete(t.placed, key)
	for dir := path.Dir(key); dir != "."; dir = path.Dir(dir) {
		if t.above[dir]--; t.above[dir] == 0 {
			delete(t.above, dir)
		}
	}
}

// fold returns a path so that two paths are equal if the file system of the copy does not
// distinguish them. If the file system folds anything, fold assumes that it folds everything:
// case, normal forms and invisible characters.
func (t *tree) fold(p string) string {
	if !t.folds {
		return p
	}
	return strings.Map(func(r rune) rune {
		if shown(r) < 0 && !unicode.Is(unicode.Mn, r) {
			return -1
		}
		least := r // of the characters that differ only in case
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return least
	}, norm.NFD.String(p))
}
