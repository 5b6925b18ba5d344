package destination

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"
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
//   - the part after the root's URL, segment by segment, percent-decoded;
//   - a byte that some file system can't have in a name, or that is no UTF-8, is
//     written %XX; likewise a point or space at the end, the first letter of a name
//     that Windows keeps for itself or that is guarded (guard.go), the ~ of one that
//     may be the short name of another, and a % that would be taken for one of these;
//   - an empty segment is %- and a query follows its segment behind %q;
//   - a name over 255 bytes keeps its beginning, and ends with %~ and a hash.
//
// If another URL or a folder has this path already, %~ and a hash of the URL are added. If a file
// has the path of one of its folders, %~ and a hash are added to the folder's name (assign).

// naming is that rule. The zero value guards all names that guard.go lists.
type naming struct {
	allow []string // patterns of names that are not guarded, see Options.HiddenAllow
}

// path returns the path of a URL below a root with a URL.
func (n naming) path(rootURL, rawURL string) (string, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "", err
	}
	r, err := url.Parse(rootURL)
	if err != nil {
		return "", err
	}
	rest, ok := strings.CutPrefix(cmp.Or(u.EscapedPath(), "/"), r.EscapedPath()) // https://example.org is https://example.org/
	if !ok {
		return "", errors.New("it is not below the root")
	}
	segments := strings.Split(rest, "/")
	for i, s := range segments {
		decoded, err := url.PathUnescape(s)
		if err != nil {
			return "", err
		}
		name := n.escape(decoded)
		if i == len(segments)-1 && (u.RawQuery != "" || u.ForceQuery) {
			name = unlikeShort(name + "%q" + n.escape(u.RawQuery))
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

// escape turns any text into one name.
func (n naming) escape(s string) string {
	if s == "" {
		return "%-"
	}
	first := reserved(s) || reserved(seen(s)) || n.guards(s)
	var out strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		last := i+size == len(s)
		switch {
		case r == utf8.RuneError && size == 1, r < 0x20, r == 0x7f,
			r < utf8.RuneSelf && strings.ContainsRune(unsafe, r),
			last && (r == '.' || r == ' '),
			i == 0 && first, r == '%' && meant(s[i+1:]):
			writeBytes(&out, s[i:i+size])
		default:
			out.WriteString(s[i : i+size])
		}
		i += size
	}
	return unlikeShort(out.String())
}

// unlikeShort changes a name so that it cannot be another file's short name.
func unlikeShort(name string) string {
	if !mayBeShort(name) {
		return name
	}
	var out strings.Builder
	for _, r := range name {
		if isTilde(r) {
			writeBytes(&out, string(r))
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

// writeBytes writes each byte as %XX.
func writeBytes(out *strings.Builder, s string) {
	for _, b := range []byte(s) {
		fmt.Fprintf(out, "%%%02X", b)
	}
}

// meant reports whether the text after a % shows that path or assign wrote it.
func meant(rest string) bool {
	const hex = "0123456789ABCDEFabcdef"
	if rest == "" {
		return false
	}
	return strings.ContainsRune("-q~", rune(rest[0])) ||
		len(rest) > 1 && strings.ContainsRune(hex, rune(rest[0])) && strings.ContainsRune(hex, rune(rest[1]))
}

// devices are the names that Windows keeps for devices.
var devices = func() map[string]bool {
	names := map[string]bool{"CON": true, "PRN": true, "AUX": true, "NUL": true, "CONIN$": true, "CONOUT$": true}
	for _, port := range "0123456789¹²³" {
		names["COM"+string(port)], names["LPT"+string(port)] = true, true
	}
	return names
}()

// reserved reports whether Windows keeps a name for a device.
func reserved(s string) bool {
	base, _, _ := strings.Cut(s, ".")
	return devices[strings.ToUpper(strings.TrimRight(base, " "))]
}

// shorten makes a name that is too long short enough.
func shorten(name string) string {
	if len(name) <= nameMax {
		return name
	}
	return beginning(name, nameMax-40) + "%~" + digest(name, 16)
}

// beside returns a name for something whose own name is not free.
func beside(name, of string) string {
	const hash = "%~0123456789abcdef"
	return beginning(name, nameMax-len(hash)) + "%~" + digest(of, 8)
}

// beginning returns at most so many bytes of a name, which end with a whole character.
func beginning(name string, most int) string {
	if len(name) <= most {
		return name
	}
	for !utf8.RuneStart(name[most]) {
		most--
	}
	return name[:most]
}

func digest(s string, n int) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:n])
}
