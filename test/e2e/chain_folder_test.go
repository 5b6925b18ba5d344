package e2e

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// oddNames are names that a file may have, and what a copy calls such a file.
var oddNames = map[string]string{
	"plain.txt":                     "plain.txt",
	"with a space.txt":              "with a space.txt",
	"grüße.txt":                     "grüße.txt",
	"e\u0301 decomposed.txt":        "e\u0301 decomposed.txt",
	"\u00e9 composed.txt":           "\u00e9 composed.txt",
	"日本語.txt":                       "日本語.txt",
	"🙂":                             "🙂",
	"100%.txt":                      "100%.txt",
	"%41.txt":                       "%2541.txt",
	"a&b=c;d+e,f.txt":               "a&b=c;d+e,f.txt",
	"#1.txt":                        "#1.txt",
	"what?.txt":                     "what%3F.txt",
	"a:b":                           "a%3Ab",
	`back\slash`:                    "back%5Cslash",
	"line\nbreak":                   "line%0Abreak",
	"<>&'\"":                        "%3C%3E&'%22",
	"\xff not UTF-8":                "%FF not UTF-8",
	"ends with a point.":            "ends with a point%2E",
	"ends with a space ":            "ends with a space%20",
	".hidden":                       "%2Ehidden",
	"..two points":                  "%2E.two points",
	"CON":                           "%43ON",
	"Case":                          "Case",
	"cASE":                          "cASE",
	"index.html":                    "index.html",
	"-dash":                         "-dash",
	"resourcelist.xml":              "resourcelist.xml",
	strings.Repeat("n", 251) + ".x": strings.Repeat("n", 251) + ".x",
}

// copyName is the path in a copy of one in the folder.
func copyName(p string) string {
	names := strings.Split(p, "/")
	for i, name := range names {
		if other, odd := oddNames[name]; odd {
			names[i] = other
		}
	}
	return strings.Join(names, "/")
}

// changer changes a folder at random, the same way for the same random numbers.
type changer struct {
	dir, aside string // aside is for files that are renamed into dir
	rnd        *rand.Rand
	names      []string
	made       int
	did        map[string]int
}

func newChanger(dir, aside string, rnd *rand.Rand) *changer {
	return &changer{dir: dir, aside: aside, rnd: rnd, names: slices.Sorted(maps.Keys(oddNames)), did: map[string]int{}}
}

const (
	depth     = 3
	populated = 120 // files from which on more are removed than made
)

// list returns the files and folders that there are, the folder itself first.
func (c *changer) list() (files, folders []string, err error) {
	err = walk(c.dir, func(p string, d fs.DirEntry) error {
		if d.IsDir() {
			folders = append(folders, p)
		} else {
			files = append(files, p)
		}
		return nil
	})
	return files, folders, err
}

// walk visits what is in a folder by its path there. Unlike fs.WalkDir it knows names
// that are no UTF-8.
func walk(dir string, visit func(p string, d fs.DirEntry) error) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		p, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		return visit(filepath.ToSlash(p), d)
	})
}

func (c *changer) at(p string) string { return filepath.Join(c.dir, filepath.FromSlash(p)) }

func pick[T any](rnd *rand.Rand, of []T) T { return of[rnd.IntN(len(of))] }

// free is a path at which there is nothing yet.
func (c *changer) free(folders []string) string {
	for {
		folder := pick(c.rnd, folders)
		if c.rnd.IntN(3) == 0 && strings.Count(folder, "/") < depth-2 {
			folder = path.Join(folder, fmt.Sprint("folder ", c.rnd.IntN(8)))
		}
		name := pick(c.rnd, c.names)
		if c.rnd.IntN(2) == 0 {
			c.made++
			name = fmt.Sprintf("%d.dat", c.made)
		}
		p := path.Join(folder, name)
		if _, err := os.Lstat(c.at(p)); errors.Is(err, fs.ErrNotExist) {
			return p
		}
	}
}

// content draws what is in a file: often little, sometimes nothing or a lot.
func (c *changer) content() []byte {
	n := 1 + c.rnd.IntN(2<<10)
	switch kind := c.rnd.IntN(100); {
	case kind < 10:
		n = 0
	case kind < 25:
		n = c.rnd.IntN(64 << 10)
	case kind < 27:
		n = c.rnd.IntN(3 << 20)
	}
	b := make([]byte, n)
	for i := 0; i < n; i += 8 {
		v := c.rnd.Uint64()
		for k := i; k < min(i+8, n); k++ {
			b[k] = byte(v)
			v >>= 8
		}
	}
	return b
}

func (c *changer) write(p string) error {
	if err := os.MkdirAll(filepath.Dir(c.at(p)), 0o755); err != nil {
		return err
	}
	return os.WriteFile(c.at(p), c.content(), 0o644)
}

func (c *changer) rename(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(c.at(to)), 0o755); err != nil {
		return err
	}
	return os.Rename(c.at(from), c.at(to))
}

// change makes one change.
func (c *changer) change() error {
	files, folders, err := c.list()
	if err != nil {
		return err
	}
	what, do := c.draw(files, folders)
	c.did[what]++
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// draw says what is done next.
func (c *changer) draw(files, folders []string) (what string, do func() error) {
	n := c.rnd.IntN(100)
	if len(files) < 10 {
		n = 0
	}
	if len(files) > populated && n < 20 {
		n = 75 // deleted instead of created
	}
	switch {
	case n < 30:
		return "file created", func() error { return c.write(c.free(folders)) }
	case n < 45:
		return "file written anew", func() error { return c.write(pick(c.rnd, files)) }
	case n < 55:
		return "file replaced", func() error { return c.replace(pick(c.rnd, files)) }
	case n < 60:
		return "file added to", func() error { return c.add(pick(c.rnd, files)) }
	case n < 68:
		return "file renamed", func() error { return c.rename(pick(c.rnd, files), c.free(folders)) }
	case n < 71:
		return "file renamed over another", func() error { return c.rename(pick(c.rnd, files), pick(c.rnd, files)) }
	case n < 85 || len(folders) < 2:
		return "file deleted", func() error { return os.Remove(c.at(pick(c.rnd, files))) }
	case n < 88:
		return "folder renamed", func() error {
			return c.rename(pick(c.rnd, folders[1:]), fmt.Sprintf("renamed %d", c.rnd.Uint32()))
		}
	case n < 90:
		return "folder deleted", func() error { return os.RemoveAll(c.at(pick(c.rnd, folders[1:]))) }
	case n < 95:
		return "file became a folder", func() error {
			p := pick(c.rnd, files)
			return errors.Join(os.Remove(c.at(p)), c.write(path.Join(p, pick(c.rnd, c.names))), c.write(path.Join(p, "2.dat")))
		}
	case n < 98:
		return "folder became a file", func() error {
			p := pick(c.rnd, folders[1:])
			return errors.Join(os.RemoveAll(c.at(p)), c.write(p))
		}
	default:
		return "file touched", func() error { return os.Chtimes(c.at(pick(c.rnd, files)), time.Time{}, time.Now()) }
	}
}

// replace renames a new file over an old one, as careful programs do.
func (c *changer) replace(p string) error {
	aside := filepath.Join(c.aside, "new")
	if err := os.WriteFile(aside, c.content(), 0o644); err != nil {
		return err
	}
	return os.Rename(aside, c.at(p))
}

// add appends to a file, in two pieces with a moment between them.
func (c *changer) add(p string) (err error) {
	f, err := os.OpenFile(c.at(p), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for range 2 {
		if _, err := f.Write(c.content()); err != nil {
			return err
		}
		time.Sleep(time.Duration(c.rnd.IntN(50)) * time.Millisecond)
	}
	return nil
}

// tree is what is in a folder: length and hash of each file by its path.
func tree(dir string) (map[string]string, error) {
	all := map[string]string{}
	err := walk(dir, func(p string, d fs.DirEntry) error {
		switch {
		case p == ".rssub":
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(p)))
		all[p] = fmt.Sprintf("%d bytes, sha-256 %.8x", len(b), sha256.Sum256(b))
		return err
	})
	return all, err
}

// sameTrees compares a copy with the folder, byte by byte.
func sameTrees(folder, copied string) error {
	source, err := tree(folder)
	if err != nil {
		return err
	}
	got, err := tree(copied)
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New("it changed while it was looked at")
	}
	if err != nil {
		return err
	}
	want := map[string]string{}
	for p, what := range source {
		want[copyName(p)] = what
	}
	var wrong []string
	for _, p := range slices.Sorted(maps.Keys(want)) {
		switch what, ok := got[p]; {
		case !ok:
			wrong = append(wrong, fmt.Sprintf("%q is missing, which has %s", p, want[p]))
		case what != want[p]:
			wrong = append(wrong, fmt.Sprintf("%q has %s, and should have %s", p, what, want[p]))
		}
	}
	for _, p := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[p]; !ok {
			wrong = append(wrong, fmt.Sprintf("%q should not be there, which has %s", p, got[p]))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%s differs from the folder of %d files in %d:\n  %s", filepath.Base(copied), len(want), len(wrong), strings.Join(wrong[:min(len(wrong), 12)], "\n  "))
}

// A comparison of trees that found nothing would prove nothing.
func TestTreesAreCompared(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"a byte":  func(dir string) error { return os.WriteFile(filepath.Join(dir, "a"), []byte("2"), 0o600) },
		"missing": func(dir string) error { return os.Remove(filepath.Join(dir, "a")) },
		"extra":   func(dir string) error { return os.WriteFile(filepath.Join(dir, "b"), nil, 0o600) },
		"a folder": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "a")), os.Mkdir(filepath.Join(dir, "a"), 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder, copied := t.TempDir(), t.TempDir()
			for _, dir := range []string{folder, copied} {
				must(t, os.WriteFile(filepath.Join(dir, "a"), []byte("1"), 0o600))
			}
			if err := sameTrees(folder, copied); err != nil {
				t.Fatal(err)
			}
			must(t, spoil(copied))
			if err := sameTrees(folder, copied); err == nil {
				t.Error("no difference was found")
			}
		})
	}
}
