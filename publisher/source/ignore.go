package source

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// DefaultIgnore returns the patterns for a nil FolderOptions.Ignore: what version control,
// editors, desktops and network file systems store in folders for themselves. Those that begin
// with a dot matter only if such names are published at all (FolderOptions.Hidden).
func DefaultIgnore() []string {
	return []string{
		".git/", ".hg/", ".svn/", // version control
		"*~", ".*.sw[a-p]", ".#*", "#*#", ".~lock.*#", "~$*", // editors and office programs
		".DS_Store", "._*", "Thumbs.db", "desktop.ini", ".directory", // desktops
		".nfs????????????????*", ".fuse_hidden*", ".Trash-*/", "lost+found/", // file systems
	}
}

// hiddenRules returns rules that leave out names that begin with a dot, unless o allows them.
func hiddenRules(o *FolderOptions) (rules, error) {
	if o.Hidden {
		return nil, nil
	}
	patterns := []string{".*", "!.well-known/"}
	for _, p := range o.HiddenAllow {
		patterns = append(patterns, "!"+p)
	}
	return parseRules(patterns)
}

// rules say what is left out of a folder. They are lines of a .gitignore, and the last one that
// matches decides. A pattern with "!" in front includes again what an earlier one left out,
// except in a folder that is left out itself. A pattern with "/" at the end matches only
// folders. One with a "/" elsewhere matches from the top of the folder, and any other at every
// depth. "*", "?" and "[...]" match within a name, and "**" matches any number of names. Empty
// lines and those that begin with "#" and a space are comments.
type rules []rule

type rule struct {
	names      []string // patterns of names; "**" for any number of names
	include    bool
	folderOnly bool
}

func parseRules(patterns []string) (rules, error) {
	var all rules
	for _, pattern := range patterns {
		if pattern == "" || pattern == "#" || strings.HasPrefix(pattern, "# ") {
			continue
		}
		r, ok := parseRule(pattern)
		if !ok {
			return nil, fmt.Errorf("%q is not a pattern of names: write it as in a .gitignore, such as *.tmp, build/ or /docs/**/draft-?.txt", pattern)
		}
		all = append(all, r)
	}
	return all, nil
}

func parseRule(pattern string) (r rule, ok bool) {
	pattern, r.include = strings.CutPrefix(pattern, "!")
	pattern, r.folderOnly = strings.CutSuffix(pattern, "/")
	if !strings.Contains(pattern, "/") {
		pattern = "**/" + pattern
	}
	r.names = strings.Split(strings.TrimPrefix(pattern, "/"), "/")
	for _, name := range r.names {
		if _, err := path.Match(name, ""); err != nil || name == "" {
			return r, false
		}
	}
	// A trailing "**" matches what is inside, and not the folder itself.
	if last := len(r.names) - 1; r.names[last] == "**" {
		r.names = append(r.names, "*")
	}
	return r, true
}

// match reports whether the rules leave out a path. They must not leave out the folder that it
// is in.
func (rs rules) match(p string, folder bool) bool {
	names := strings.Split(p, "/")
	for _, r := range slices.Backward(rs) {
		if (folder || !r.folderOnly) && matchNames(r.names, names) {
			return !r.include
		}
	}
	return false
}

// matchNames goes back to the last "**" alone: what an earlier one could match as well, that one
// can. So its work is bounded by the product of the lengths.
func matchNames(patterns, names []string) bool {
	p, n, star, from := 0, 0, -1, 0
	for n < len(names) {
		if p < len(patterns) && patterns[p] == "**" {
			star, from = p, n
			p++
			continue
		}
		if p < len(patterns) {
			if ok, err := path.Match(patterns[p], names[n]); ok && err == nil {
				p, n = p+1, n+1
				continue
			}
		}
		if star < 0 {
			return false
		}
		from++
		p, n = star+1, from
	}
	return p == len(patterns)
}
