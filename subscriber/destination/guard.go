package destination

import (
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/rshub/rshub/internal/base/disk"
)

// guarded are names of files and folders to which programs react wherever they find them, besides
// names that begin with a dot. A Source that could write one of these could run commands, change
// settings or take a site down.
var guarded = map[string]bool{
	// Version control. HEAD, config, objects and refs make any folder a repository, and config
	// names commands.
	"head": true, "cvs": true, "_svn": true, "_darcs": true, "_fossil_": true,
	// Web servers.
	"web.config": true, "global.asax": true, "app_offline.htm": true, "web-inf": true, "meta-inf": true, "php.ini": true,
	// Desktops.
	"desktop.ini": true, "autorun.inf": true, "folder.htt": true, "thumbs.db": true,
}

// guards reports whether a name must not be in the copy unchanged, because some file system or
// program sees it as one of guarded or as a name with a dot in front. Names of the copy's own
// state, and names without visible characters, are guarded even if a pattern allows them.
func (n naming) guards(name string) bool {
	as := seen(name)
	switch {
	case strings.Trim(as, ". ") == "" || isOwn(as):
		return true
	case !strings.HasPrefix(as, ".") && !guarded[as]:
		return false
	}
	return !slices.ContainsFunc(n.allow, func(pattern string) bool {
		ok, err := path.Match(pattern, name)
		return ok && err == nil
	})
}

// guardsPath reports whether a path of the copy contains a name that would not be written today.
func (n naming) guardsPath(p string) bool {
	return slices.ContainsFunc(strings.Split(p, "/"), func(name string) bool { return n.guards(name) || mayBeShort(name) })
}

// isOwn reports whether a name, as seen returns it, is that of the state folder, its short name,
// or that of the marker of such folders.
func isOwn(as string) bool {
	short, isShort := strings.CutPrefix(as, "rssub~")
	return as == stateName || as == disk.Marker || isShort && strings.Trim(short, "0123456789") == ""
}

// seen returns a name as the most tolerant file system or program sees it. Such a program ignores
// case and invisible characters, does not distinguish characters that look alike, and drops dots
// and spaces at the end.
func seen(name string) string {
	name = norm.NFKC.String(strings.Map(shown, norm.NFKC.String(name)))
	name = strings.ToLower(strings.ToUpper(name))
	if kept := strings.TrimRight(name, ". "); kept != "" {
		return kept
	}
	return name
}

// shown drops invisible characters.
func shown(r rune) rune {
	if unicode.In(r, unicode.Cf, unicode.Mn, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
		return -1
	}
	return r
}

// mayBeShort reports whether a name, or what seen returns for it, looks like a short name.
func mayBeShort(name string) bool {
	lower := strings.ToLower(name)
	return strings.Contains(seen(name), "~") && (isShort(lower) || isShort(strings.Map(shown, lower)) || isShort(seen(name)))
}

// isShort reports whether a name, in lower case, looks like a short name that a file system adds
// to a long one: at most eight characters, which end with ~ and a number or one letter, and at
// most three after a dot. On Windows .git is also git~1.
func isShort(as string) bool {
	base, extension, _ := strings.Cut(as, ".")
	i := strings.LastIndexByte(base, '~')
	if i < 0 || utf8.RuneCountInString(base) > 8 || utf8.RuneCountInString(extension) > 3 {
		return false
	}
	number := base[i+1:]
	letter := i > 0 && len(number) == 1 && 'a' <= number[0] && number[0] <= 'z'
	return letter || number != "" && strings.Trim(number, "0123456789") == ""
}

// isTilde reports whether some programs see a character as ~.
func isTilde(r rune) bool { return strings.Contains(norm.NFKC.String(string(r)), "~") }
