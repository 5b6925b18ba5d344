package source

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// ErrPath is wrapped by what UnescapePath returns of what is no path.
var ErrPath = errors.New("not the path of a resource")

const upperHex = "0123456789ABCDEF"

// EscapePath returns a path as it stands in a URL, relative to that of the folder:
// every byte but letters, digits, "-", ".", "_", "~" and the "/" between names is
// percent-encoded, so that it means the same to every reader, inside XML as well.
// Names stay as they are, byte by byte, in whatever Unicode form they have or none.
// UnescapePath is its inverse.
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

// UnescapePath returns the path that a piece of a URL names, as it came over the
// wire (url.URL.EscapedPath). It takes what other clients encode otherwise than
// EscapePath. What can be no path of a resource gives an error that wraps ErrPath.
func UnescapePath(escaped string) (string, error) {
	path, err := unescape(escaped)
	if err != nil {
		return "", err
	}
	if !validPath(path) {
		return "", fmt.Errorf("%w: %q", ErrPath, path)
	}
	// A "/" inside of a name would be a name of two.
	if strings.Count(path, "/") != strings.Count(escaped, "/") {
		return "", fmt.Errorf("%w: %q has an encoded slash", ErrPath, escaped)
	}
	return path, nil
}

func unescape(s string) (string, error) {
	i := strings.IndexByte(s, '%')
	if i < 0 {
		return s, nil
	}
	b := append(make([]byte, 0, len(s)), s[:i]...)
	for ; i < len(s); i++ {
		if s[i] != '%' {
			b = append(b, s[i])
			continue
		}
		if len(s)-i < 3 {
			return "", fmt.Errorf("%w: %q ends in the middle of a percent-encoded byte", ErrPath, s)
		}
		var c [1]byte
		if _, err := hex.Decode(c[:], []byte(s[i+1:i+3])); err != nil {
			return "", fmt.Errorf("%w: %q has a %% without two hexadecimal digits", ErrPath, s)
		}
		b = append(b, c[0])
		i += 2
	}
	return string(b), nil
}

// validPath reports whether a file system may have a file at a path below a
// folder, and nowhere else. Unlike fs.ValidPath it takes names that are not UTF-8.
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
