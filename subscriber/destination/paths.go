package destination

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/rshub/rshub/internal/egress"
)

// stateName is the folder of the copy that belongs to the copy itself.
const stateName = ".rssub"

// nameMax is the longest name of a file in bytes, and pathMax that of a path.
const (
	nameMax = 255
	pathMax = 3072
)

// A URL becomes a path so that no two URLs share one and any file system takes it:
//
//   - what stands behind the root's URL, segment by segment, percent-decoded;
//   - a byte that some file system can't have in a name, or that is no UTF-8, is
//     written %XX; likewise a point or space at the end, the first letter of a name
//     that Windows keeps for itself, and a % that would be taken for one of these;
//   - an empty segment is %- and a query follows its segment behind %q;
//   - a name over 255 bytes keeps its beginning, and ends with %~ and a hash.
//
// Where the result is taken by another URL, or by a folder, %~ and a hash of the
// URL are added (place).

// mapPath is the path of a URL below the root with that URL.
func mapPath(rootURL, rawURL string) (string, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "", err
	}
	r, err := url.Parse(rootURL)
	if err != nil {
		return "", err
	}
	rest, ok := strings.CutPrefix(u.EscapedPath(), r.EscapedPath())
	if !ok {
		return "", errors.New("it is not below the root")
	}
	segments := strings.Split(rest, "/")
	for i, s := range segments {
		decoded, err := url.PathUnescape(s)
		if err != nil {
			return "", err
		}
		name := escape(decoded)
		if i == len(segments)-1 && (u.RawQuery != "" || u.ForceQuery) {
			name += "%q" + escape(u.RawQuery)
		}
		if i == 0 && strings.EqualFold(name, stateName) {
			name = "%2E" + name[1:]
		}
		segments[i] = shorten(name)
	}
	p := strings.Join(segments, "/")
	if len(p) > pathMax {
		return "", fmt.Errorf("its path would have %d bytes, more than %d", len(p), pathMax)
	}
	return p, nil
}

const unsafe = `<>:"/\|?*`

// escape makes one name of any text.
func escape(s string) string {
	if s == "" {
		return "%-"
	}
	var out strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		last := i+n == len(s)
		switch {
		case r == utf8.RuneError && n == 1, r < 0x20, r == 0x7f,
			r < utf8.RuneSelf && strings.ContainsRune(unsafe, r),
			last && (r == '.' || r == ' '),
			i == 0 && reserved(s), r == '%' && meant(s[i+1:]):
			for _, b := range []byte(s[i : i+n]) {
				fmt.Fprintf(&out, "%%%02X", b)
			}
		default:
			out.WriteString(s[i : i+n])
		}
		i += n
	}
	return out.String()
}

// meant reports whether what stands behind a % makes it one that mapPath or place
// wrote.
func meant(rest string) bool {
	const hex = "0123456789ABCDEFabcdef"
	if rest == "" {
		return false
	}
	return strings.ContainsRune("-q~", rune(rest[0])) ||
		len(rest) > 1 && strings.ContainsRune(hex, rune(rest[0])) && strings.ContainsRune(hex, rune(rest[1]))
}

// reserved reports whether Windows keeps a name for a device.
func reserved(s string) bool {
	base, _, _ := strings.Cut(s, ".")
	switch base = strings.ToUpper(strings.TrimRight(base, " ")); base {
	case "CON", "PRN", "AUX", "NUL":
		return true
	}
	return len(base) == 4 && (strings.HasPrefix(base, "COM") || strings.HasPrefix(base, "LPT")) && base[3] >= '0' && base[3] <= '9'
}

// shorten makes a name that is too long short enough.
func shorten(name string) string {
	if len(name) <= nameMax {
		return name
	}
	cut := nameMax - 40
	for !utf8.RuneStart(name[cut]) {
		cut--
	}
	return name[:cut] + "%~" + digest(name, 16)
}

func digest(s string, n int) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:n])
}

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
	return Root{URL: u.Scheme + "://" + u.Host + "/", Dir: hostDir(u.Scheme, host)}
}

// hostDir is the folder of a host: each scheme, host and port has its own.
func hostDir(scheme, host string) string {
	name := strings.NewReplacer(":", "_", "[", "", "]", "").Replace(host)
	if scheme != "https" && scheme != "http" {
		name = scheme + "_" + name
	}
	return escape(name)
}

// wish is the path that a URL would have if nothing else had it.
func (c *Copy) wish(rawURL string) (string, error) {
	root := c.rootOf(rawURL)
	if root.URL == "" {
		return "", fmt.Errorf("%q is no address", rawURL)
	}
	p, err := mapPath(root.URL, rawURL)
	if err != nil {
		return "", fmt.Errorf("%s has no place in the copy: %w", rawURL, err)
	}
	return path.Join(root.Dir, p), nil
}

// place is the path at which a URL is kept: the one it has, or else its wish, or
// where that is taken by another URL or a folder, one beside it.
func (c *Copy) place(rawURL string) (string, error) {
	if f, ok, err := c.state.file(rawURL); err != nil || ok {
		return f.Path, err
	}
	p, err := c.wish(rawURL)
	if err != nil {
		return "", err
	}
	c.placing.Lock()
	defer c.placing.Unlock()
	if c.free(p, rawURL) {
		c.placed[c.fold(p)] = rawURL
		return p, nil
	}
	dir, name := path.Split(p)
	if len(name) > nameMax-20 {
		name = shorten(name + strings.Repeat("_", 40))
	}
	p = dir + name + "%~" + digest(rawURL, 8)
	if !c.free(p, rawURL) {
		return "", fmt.Errorf("%s has no place in the copy: %s is taken", rawURL, p)
	}
	c.placed[c.fold(p)] = rawURL
	return p, nil
}

// free reports whether a URL may be kept at a path: no other URL is, neither there
// nor at a folder above it or below it.
func (c *Copy) free(p, rawURL string) bool {
	key := c.fold(p)
	if owner := c.owner(key); owner != "" && owner != rawURL {
		return false
	}
	if info, err := c.root.Lstat(p); err == nil && info.IsDir() {
		return false
	}
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		if info, err := c.root.Lstat(dir); err == nil && !info.IsDir() {
			return false
		}
		if c.owner(c.fold(dir)) != "" {
			return false
		}
	}
	return true
}

// owner is the URL that has a path, or was given it a moment ago; empty: none.
func (c *Copy) owner(key string) string {
	if u := c.placed[key]; u != "" {
		return u
	}
	return c.state.owner(key)
}

// fold is a path as the file system of the copy tells it from others.
func (c *Copy) fold(p string) string {
	if c.folds {
		return strings.ToLower(p)
	}
	return p
}
