package source

import (
	"errors"
	"fmt"
	"iter"
	"net/url"
	"strings"
)

// ErrPath is wrapped by the errors of UnescapePath for what is not the path of a resource.
var ErrPath = errors.New("not the path of a resource")

const upperHex = "0123456789ABCDEF"

// EscapePath returns a path as a URL relative to that of the folder. It percent-encodes every
// byte except letters, digits, "-", ".", "_", "~" and the "/" between names, so that every
// reader understands it in the same way, inside XML as well. It encodes the bytes of names as
// they are, in whatever Unicode form. UnescapePath is its inverse.
func EscapePath(path string) string {
	plain := 0
	for plain < len(path) && isPlain(path[plain]) {
		plain++
	}
	if plain == len(path) {
		return path
	}
	b := append(make([]byte, 0, len(path)+24), path[:plain]...)
	for i := plain; i < len(path); i++ {
		c := path[i]
		if isPlain(c) {
			b = append(b, c)
			continue
		}
		b = append(b, '%', upperHex[c>>4], upperHex[c&15])
	}
	return string(b)
}

// isPlain reports whether a byte of a path stands for itself: the unreserved
// characters of RFC 3986 2.3, and "/".
func isPlain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		c == '-' || c == '.' || c == '_' || c == '~' || c == '/'
}

// UnescapePath returns the path that the rest of a URL names, as it came over the wire
// (url.URL.EscapedPath). It accepts what other clients encode in another way than EscapePath.
// If no resource can have that path, the error wraps ErrPath.
func UnescapePath(escaped string) (string, error) {
	path, err := url.PathUnescape(escaped)
	if err != nil {
		return "", fmt.Errorf("%w: %q: %w", ErrPath, escaped, err)
	}
	if !validPath(path) {
		return "", fmt.Errorf("%w: %q", ErrPath, path)
	}
	// A "/" inside a name would make two names of it.
	if strings.Count(path, "/") != strings.Count(escaped, "/") {
		return "", fmt.Errorf("%w: %q has an encoded slash", ErrPath, escaped)
	}
	return path, nil
}

// foldersAbove yields the folders on the way to a path, from the top down, without the top
// folder itself.
func foldersAbove(path string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range len(path) {
			if path[i] == '/' && !yield(path[:i]) {
				return
			}
		}
	}
}

// validPath reports whether a path names a file below a folder. Unlike fs.ValidPath, it
// accepts names that are not UTF-8.
func validPath(path string) bool {
	if strings.IndexByte(path, 0) >= 0 {
		return false
	}
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || name == "." || name == ".." {
			return false
		}
	}
	return true
}
