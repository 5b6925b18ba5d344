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

// guarded are names, besides those that begin with a dot, of files and folders that
// programs look for wherever they are, and act upon without being asked: whoever may
// write one of these has commands run, settings changed or a site taken down.
var guarded = map[string]bool{
	// Version control. A HEAD makes a repository of any folder (with config, objects
	// and refs), and a config names commands.
	"head": true, "cvs": true, "_svn": true, "_darcs": true, "_fossil_": true,
	// Web servers.
	"web.config": true, "global.asax": true, "app_offline.htm": true, "web-inf": true, "meta-inf": true, "php.ini": true,
	// Desktops.
	"desktop.ini": true, "autorun.inf": true, "folder.htt": true, "thumbs.db": true,
}

// guards reports whether a name must not be in the copy as it is: it begins with a dot,
// or is one of guarded, as some file system or program sees it. Names of the copy's own
// state are guarded whatever is allowed, and so are those of which nothing is seen.
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

// guardsPath reports whether a path of the copy has a name that it would not get any
// more.
func (n naming) guardsPath(p string) bool {
	return slices.ContainsFunc(strings.Split(p, "/"), func(name string) bool { return n.guards(name) || mayBeShort(name) })
}

// isOwn reports whether a name, as it is seen, is that of the folder of the copy's own
// state, its short name, or that of the marker of such folders.
func isOwn(as string) bool {
	short, isShort := strings.CutPrefix(as, "rssub~")
	return as == stateName || as == disk.Marker || isShort && strings.Trim(short, "0123456789") == ""
}

// seen is a name as the most generous file system or program sees it: one that folds
// case, ignores characters that are not shown, takes characters for others that look
// like them, and drops points and spaces at the end.
func seen(name string) string {
	name = norm.NFKC.String(strings.Map(shown, norm.NFKC.String(name)))
	name = strings.ToLower(strings.ToUpper(name))
	if kept := strings.TrimRight(name, ". "); kept != "" {
		return kept
	}
	return name
}

// shown drops characters that are not shown.
func shown(r rune) rune {
	if unicode.In(r, unicode.Cf, unicode.Mn, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
		return -1
	}
	return r
}

// mayBeShort reports whether a name is like a short one, as it is or as it is seen.
func mayBeShort(name string) bool {
	lower := strings.ToLower(name)
	return strings.Contains(seen(name), "~") && (isShort(lower) || isShort(strings.Map(shown, lower)) || isShort(seen(name)))
}

// isShort reports whether a name, in lower case, may be one that a file system gives to a
// file beside its own: at most eight characters, of which the last are ~ and a number or
// one letter, and at most three behind a point. So .git is git~1 on Windows.
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

// isTilde reports whether a character is a ~ to some.
func isTilde(r rune) bool { return strings.Contains(norm.NFKC.String(string(r)), "~") }
