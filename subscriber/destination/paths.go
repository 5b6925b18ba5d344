package destination

import (
	"fmt"
	"net/url"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/rshub/rshub/internal/base/egress"
)

// rootOf is the root that a URL belongs to.
func (c *Copy) rootOf(rawURL string) Root {
	best := Root{}
	for _, r := range c.o.Roots {
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
	return Root{URL: u.Scheme + "://" + u.Host + "/", Dir: c.names.hostDir(u.Scheme, host)}
}

// hostDir is the folder of a host: each scheme, host and port has its own.
func (n naming) hostDir(scheme, host string) string {
	name := strings.NewReplacer(":", "_", "[", "", "]", "").Replace(host)
	if scheme != "https" && scheme != "http" {
		name = scheme + "_" + name
	}
	return n.escape(name)
}

// wish is the path that a URL would have if nothing else had it.
func (c *Copy) wish(rawURL string) (string, error) {
	root := c.rootOf(rawURL)
	if root.URL == "" {
		return "", fmt.Errorf("%q is no address", rawURL)
	}
	p, err := c.names.path(root.URL, rawURL)
	if err != nil {
		return "", fmt.Errorf("%s has no place in the copy: %w", rawURL, err)
	}
	return path.Join(root.Dir, p), nil
}

// place is the path at which a URL is kept: the one it has, or else its wish, or
// where that is taken one beside it. Until it is recorded, or given up by release,
// no other URL gets it.
func (c *Copy) place(rawURL string) (string, error) {
	c.placing.Lock()
	defer c.placing.Unlock()
	if f, ok := c.state.file(rawURL); ok && c.folderAt(path.Dir(f.Path)) {
		return f.Path, nil
	}
	return c.newPlace(rawURL)
}

// newPlace is place for a URL that is not to stay where it is. Called with placing held.
func (c *Copy) newPlace(rawURL string) (string, error) {
	wish, err := c.wish(rawURL)
	if err != nil {
		return "", err
	}
	dir := "."
	segments := strings.Split(wish, "/")
	for _, name := range segments[:len(segments)-1] {
		next := path.Join(dir, name)
		if !c.folderAt(next) {
			next = path.Join(dir, beside(name, next+"/"))
		}
		dir = next
	}
	name := segments[len(segments)-1]
	for _, name := range []string{name, beside(name, rawURL)} {
		if p := path.Join(dir, name); c.folderAt(dir) && c.free(p, rawURL) {
			c.hold(c.fold(p), rawURL)
			return p, nil
		}
	}
	return "", fmt.Errorf("%s has no place in the copy: %s is taken", rawURL, wish)
}

// beside is the name of what can't have the name that it should have.
func beside(name, of string) string {
	const marked = 2 + 16
	if len(name)+marked > nameMax {
		name = name[:nameMax-marked]
		for !utf8.ValidString(name) {
			name = name[:len(name)-1]
		}
	}
	return name + "%~" + digest(of, 8)
}

// folderAt reports whether a path is that of a folder, or may become one: no file is
// there, and none is about to be. Called with placing held.
func (c *Copy) folderAt(dir string) bool {
	if dir == "." || c.above[c.fold(dir)] > 0 { // something else is on its way into it
		return true
	}
	if info, err := c.root.Lstat(dir); err == nil {
		return info.IsDir()
	}
	return c.owner(c.fold(dir)) == ""
}

// free reports whether a URL may be kept at a path: no other URL is, nor anything
// below it. Called with placing held.
func (c *Copy) free(p, rawURL string) bool {
	key := c.fold(p)
	if owner := c.owner(key); owner != "" && owner != rawURL {
		return false
	}
	if c.above[key] > 0 {
		return false
	}
	info, err := c.root.Lstat(p)
	return (err != nil || !info.IsDir()) && !c.state.below(key)
}

// owner is the URL that has a path, or was given it a moment ago; empty: none.
func (c *Copy) owner(key string) string {
	if u := c.placed[key]; u != "" {
		return u
	}
	return c.state.owner(key)
}

// hold keeps a path for a URL. Called with placing held.
func (c *Copy) hold(key, rawURL string) {
	if c.placed[key] == "" {
		for dir := path.Dir(key); dir != "."; dir = path.Dir(dir) {
			c.above[dir]++
		}
	}
	c.placed[key] = rawURL
}

// release lets go of a path that a URL was given.
func (c *Copy) release(p string) {
	c.placing.Lock()
	defer c.placing.Unlock()
	key := c.fold(p)
	if c.placed[key] == "" {
		return
	}
	delete(c.placed, key)
	for dir := path.Dir(key); dir != "."; dir = path.Dir(dir) {
		if c.above[dir]--; c.above[dir] == 0 {
			delete(c.above, dir)
		}
	}
}

// fold is a path as the file system of the copy tells it from others. One that folds
// anything is taken to fold all that any does: case, normal forms, and characters that
// are not shown.
func (c *Copy) fold(p string) string {
	if !c.folds {
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
