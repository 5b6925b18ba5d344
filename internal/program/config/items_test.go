package config

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// books are the settings of the entries of a test.
func books() *pflag.FlagSet {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.String("title", "none", "")
	fs.Int("pages", 10, "")
	fs.StringArray("author", nil, "")
	return fs
}

func TestReadItems(t *testing.T) {
	items, err := parseItems("f.yaml", []byte(`defaults: {pages: 20, author: ["a, b", c]}
books:
  - title: one
  - title: two
    pages: 3
    author: d
`), "books", books)
	if err != nil || len(items) != 2 {
		t.Fatal(err, items)
	}
	for i, want := range []string{"f.yaml:3 author=[a, b c] pages=20 title=one", "f.yaml:4 author=[d] pages=3 title=two"} {
		var got strings.Builder
		got.WriteString(items[i].From)
		items[i].Flags.VisitAll(func(f *pflag.Flag) {
			v := f.Value.String()
			if list, ok := f.Value.(pflag.SliceValue); ok {
				v = "[" + strings.Join(list.GetSlice(), " ") + "]"
			}
			got.WriteString(" " + f.Name + "=" + v)
		})
		if got.String() != want {
			t.Errorf("%s, want %s", got.String(), want)
		}
	}
	if items, err := parseItems("f.yaml", []byte("books:\n"), "books", books); err != nil || len(items) != 0 {
		t.Error(items, err)
	}
}

// Each mistake has its line, and the entries without one are there all the same.
func TestReadItemsMistakes(t *testing.T) {
	for text, says := range map[string]string{
		"":                                   "f.yaml: it has no list `books:`",
		"boks: []":                           "f.yaml:1: there is no setting \"boks\"; did you mean books?",
		"books: {}":                          "f.yaml:1: books: it has to be a list",
		"books:\n  - x":                      "f.yaml:2: write keys and values here",
		"books:\n  - title: a\n    pags: 3":  "f.yaml:3: there is no setting \"pags\"; did you mean pages?",
		"books:\n  - pages: x":               "f.yaml:2: pages: strconv",
		"books:\n  - title: [a, b]":          "f.yaml:2: title: it must be one value",
		"books:\n  - title: a\n    title: b": "f.yaml:3: title was set before, in line 2",
		"defaults:\n  pages: x\nbooks:\n":    "f.yaml:2: pages: strconv",
		"defaults: 1\nbooks:\n":              "f.yaml:1: write keys and values here",
		"books: [":                           "f.yaml: it is not YAML",
	} {
		if _, err := parseItems("f.yaml", []byte(text), "books", books); err == nil || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%q: %v, want %s", text, err, says)
		}
	}
	items, err := parseItems("f.yaml", []byte("books:\n  - title: a\n  - pages: x\n  - title: b\n    oops: 1\n  - title: c\n"), "books", books)
	if len(items) != 2 || err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("%d items, %v", len(items), err)
	}
}

func FuzzReadItems(f *testing.F) {
	for _, s := range []string{"books:\n  - title: a\n", "defaults: {pages: 2}\nbooks: [{title: b}]", "a: &x [*x]", "books: &b\n  - *b", "books: [[[]]]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		items, err := parseItems("f.yaml", []byte(s), "books", books)
		for _, item := range items {
			if item.Flags == nil || !strings.HasPrefix(item.From, "f.yaml:") {
				t.Errorf("%q: %+v, %v", s, item, err)
			}
		}
	})
}
