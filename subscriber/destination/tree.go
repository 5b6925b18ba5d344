package destination

import (
	"fmt"
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

// tree is the files of the copy: it gives each resource a path of its own, and deletes and
// renames. It may be shared between goroutines.
type tree struct {
	roots []Root
	root  *os.Root // the copy's folder
	state *state
	names naming
	folds bool // the file system takes a.txt and A.txt for one, or two forms of a name
	log   *slog.Logger

	placing sync.Mutex
	placed  map[string]string // URLs by the folded paths that they were given and that are not recorded yet
	above   map[string]int    // how many of them are below a folder
}

func newTree(o *Options, root *os.Root, state *state) *tree {
	return &tree{roots: o.Roots, root: root, state: state, names: naming{o.HiddenAllow}, log: o.Log, placed: map[string]string{}, above: map[string]int{}}
}

// probeFolding finds out whether the file system takes one of two names for the other
// that differ in case, in their normal form, or in what is not shown.
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

// foldsState reports whether the file system takes two names that differ in case for one,
// by the folder of the state, without writing.
func (t *tree) foldsState() bool {
	_, err := t.root.Lstat(strings.ToUpper(stateName))
	return err == nil
}

// rootOf is the root that a URL belongs to.
func (t *tree) rootOf(rawURL string) Root {
	best := Root{}
	for _, r := range t.roots {
		if strings.HasPrefix(rawURL, r.URL) && len(r.URL) > len(best.URL) {
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

// hostDir is the folder of a host: each scheme, host and port has its own.
func (n naming) hostDir(scheme, host string) string {
	name := strings.NewReplacer(":", "_", "[", "", "]", "").Replace(host)
	if scheme != "https" && scheme != "http" {
		name = scheme + "_" + name
	}
	return n.escape(name)
}

// preferredPath is the path that a URL would have if nothing else had it.
func (t *tree) preferredPath(rawURL string) (string, error) {
	root := t.rootOf(rawURL)
	if root.URL == "" {
		return "", fmt.Errorf("%q is no address", rawURL)
	}
	p, err := t.names.path(root.URL, rawURL)
	if err != nil {
		return "", fmt.Errorf("%s has no place in the copy: %w", rawURL, err)
	}
	return path.Join(root.Dir, p), nil
}

// assign is the path at which a URL is kept: the one it has, or else the preferred one, or
// where that is taken one beside it. Until it is recorded, or given up by release,
// no other URL gets it.
func (t *tree) assign(rawURL string) (string, error) {
	t.placing.Lock()
	defer t.placing.Unlock()
	if f, ok := t.state.file(rawURL); ok && t.folderAt(path.Dir(f.Path)) {
		return f.Path, nil
	}
	return t.assignNew(rawURL)
}

// assignNew is assign for a URL that is not to stay where it is. Called with placing held.
func (t *tree) assignNew(rawURL string) (string, error) {
	wish, err := t.preferredPath(rawURL)
	if err != nil {
		return "", err
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
		if p := path.Join(dir, name); t.folderAt(dir) && t.isFree(p, rawURL) {
			t.reserve(t.fold(p), rawURL)
			return p, nil
		}
	}
	return "", fmt.Errorf("%s has no place in the copy: %s is taken", rawURL, wish)
}

// folderAt reports whether a path is that of a folder, or may become one: no file is
// there, and none is about to be. Called with placing held.
func (t *tree) folderAt(dir string) bool {
	if dir == "." || t.above[t.fold(dir)] > 0 { // something else is on its way into it
		return true
	}
	if info, err := t.root.Lstat(dir); err == nil {
		return info.IsDir()
	}
	return t.owner(t.fold(dir)) == ""
}

// isFree reports whether a URL may be kept at a path: no other URL is, nor anything
// below it. Called with placing held.
func (t *tree) isFree(p, rawURL string) bool {
	key := t.fold(p)
	if owner := t.owner(key); owner != "" && owner != rawURL {
		return false
	}
	if t.above[key] > 0 {
		return false
	}
	info, err := t.root.Lstat(p)
	return (err != nil || !info.IsDir()) && !t.state.below(key)
}

// owner is the URL that has a path, or was given it a moment ago; empty: none.
func (t *tree) owner(key string) string {
	if u := t.placed[key]; u != "" {
		return u
	}
	return t.state.owner(key)
}

// reserve keeps a path for a URL. Called with placing held.
func (t *tree) reserve(key, rawURL string) {
	if t.placed[key] == "" {
		for dir := path.Dir(key); dir != "."; dir = path.Dir(dir) {
			t.above[dir]++
		}
	}
	t.placed[key] = rawURL
}

// release lets go of a path that a URL was given.
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

// fold is a path as the file system of the copy tells it from others. One that folds
// anything is taken to fold all that any does: case, normal forms, and characters that
// are not shown.
func (t *tree) fold(p string) string {
	if !t.folds {
		return p
	}
	return strings.Map(func(r rune) rune {
		if shown(r) < 0 && !unicode.Is(unicode.Mn, r) {
			return -1
		}
		least := r // of the characters that are the same but for their case
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return least
	}, norm.NFD.String(p))
}
