package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestShorten(t *testing.T) {
	for _, tc := range []struct {
		in   string
		n    int
		want string
	}{
		{"https://example.org/changes/", 28, "https://example.org/changes/"},
		{"https://example.org/changes/", 27, "https://examp….org/changes/"},
		{"https://example.org/changes/", 16, "https://…hanges/"},
		{"abcd", 3, "a…d"},
		{"abcd", 2, "a…"},
		{"abcd", 1, "…"},
		{"abcd", 0, ""},
		{"абвгд", 4, "аб…д"},
		{"", 5, ""},
	} {
		if got := shorten(tc.in, tc.n); got != tc.want {
			t.Errorf("shorten %q to %d: %q, want %q", tc.in, tc.n, got, tc.want)
		}
	}
}

func FuzzShorten(f *testing.F) {
	f.Add("https://example.org/changes/", 10)
	f.Add("äöü\x00\xff", 2)
	f.Fuzz(func(t *testing.T, s string, n int) {
		got := shorten(s, n)
		switch length := utf8.RuneCountInString(s); {
		case length <= n && got != s:
			t.Errorf("%q fits in %d and became %q", s, n, got)
		case length > n && utf8.RuneCountInString(got) != max(n, 0):
			t.Errorf("%q became %q, want %d characters", s, got, n)
		}
	})
}

var testColumns = []column{{"ID", asID}, {"STATE", whole}, {"EXPIRES", dropped}, {"CALLBACK", asURL}, {"TOPIC", asURL}, {"SIZE", dropped}}

// What gives way first, and what never does.
func TestFitted(t *testing.T) {
	natural := []int{36, 7, 8, 50, 30, 4}
	for width, want := range map[int][]int{
		0:   {36, 7, 8, 50, 30, 4}, // no terminal
		145: {36, 7, 8, 50, 30, 4}, // it just fits
		144: {8, 7, 8, 50, 30, 4},  // ids first
		117: {8, 7, 8, 50, 30, 4},  // as much again
		116: {8, 7, 8, 49, 30, 4},  // then the longest URL
		90:  {8, 7, 8, 26, 26, 4},  // then both of them
		70:  {8, 7, 8, 16, 16, 4},  // as far as they can be told
		68:  {8, 7, 8, 18, 18, 0},  // then what can be done without, from the right
		62:  {8, 7, 0, 20, 20, 0},  // which leaves some room again
		20:  {8, 7, 0, 16, 16, 0},  // and the rest is the terminal's matter
		-1:  {8, 7, 0, 16, 16, 0},  // no such width
		500: {36, 7, 8, 50, 30, 4}, // wide
	} {
		if got := fitted(testColumns, natural, width); !slices.Equal(got, want) {
			t.Errorf("width %d: %v, want %v", width, got, want)
		}
	}
}

func FuzzFitted(f *testing.F) {
	f.Add(80, 36, 7, 8, 50)
	f.Fuzz(func(t *testing.T, width, a, b, c, d int) {
		natural := []int{a, b, c, d, d, c}
		for i := range natural {
			natural[i] = 2 + (natural[i]&0x7fff)%3000
		}
		got := fitted(testColumns, natural, width)
		for i, w := range got {
			if w > natural[i] || w == 0 && testColumns[i].fit != dropped || w < natural[i] && testColumns[i].fit == whole {
				t.Fatalf("width %d, %v: column %d is %d wide", width, natural, i, w)
			}
		}
	})
}

// A table is as wide as its terminal and no wider; elsewhere it is whole, and
// its columns stand below one another on every page.
func TestGrid(t *testing.T) {
	long := "https://reader.example.net/a/long/way/to/the/callback?of=a"
	row := func() []string {
		return []string{"0b9c2a17-597f-5a2c-af85-65d0156a7226", "active", "in 9d23h", long, "https://example.org/changes/", "1 B"}
	}
	for _, width := range []int{0, 60, 80, 120, 200} {
		var out bytes.Buffer
		g := &grid{out: &out, columns: testColumns, width: width}
		for range 2 {
			if err := g.write([][]string{row()}); err != nil {
				t.Fatal(err)
			}
		}
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(lines) != 3 || lines[1] != lines[2] || !strings.HasPrefix(lines[0], "ID ") {
			t.Fatalf("width %d: %q", width, lines)
		}
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); width > 0 && n > width || strings.HasSuffix(line, " ") {
				t.Errorf("width %d: %d in %q", width, n, line)
			}
		}
		if got := strings.Contains(lines[1], long); got != (width == 0 || width == 200) {
			t.Errorf("width %d: the callback is whole: %v", width, got)
		}
	}
}

// On a terminal the pages that follow keep the columns of the first.
func TestGridKeepsItsColumns(t *testing.T) {
	var out bytes.Buffer
	g := &grid{out: &out, columns: []column{{"CALLBACK", asURL}, {"STATE", whole}}, width: 60}
	for _, callback := range []string{"https://reader.example.net/", "https://reader.example.net/much/longer"} {
		if err := g.write([][]string{{callback, "active"}}); err != nil {
			t.Fatal(err)
		}
	}
	want := "CALLBACK                     STATE\nhttps://reader.example.net/  active\nhttps://reade…t/much/longer  active\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// A terminal must not act on what strangers named their things.
func TestGridTakesControlCharactersOut(t *testing.T) {
	var out bytes.Buffer
	g := &grid{out: &out, columns: []column{{"A", asURL}, {"B", asID}}}
	if err := g.write([][]string{{"a\x1b[31m\nb", "\u202ec\x9b"}}); err != nil {
		t.Fatal(err)
	}
	if want := "A         B\na?[31m?b  ?c?\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	out.Reset()
	if err := details(&out, [][2]string{{"topic", "x\x1b]0;y\x07"}, {"nothing", ""}, {"id", "1"}}); err != nil || out.String() != "topic  x?]0;y?\nid     1\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestWidth(t *testing.T) {
	for name, tc := range map[string]struct {
		columns  int
		terminal bool
		env      string
		want     int
	}{
		"no terminal":            {100, false, "", 0},
		"no terminal, COLUMNS":   {0, false, "50", 0},
		"the terminal's":         {100, true, "", 100},
		"COLUMNS":                {100, true, "50", 50},
		"COLUMNS is nonsense":    {100, true, "wide", 100},
		"COLUMNS is negative":    {100, true, "-3", 100},
		"a terminal without one": {0, true, "", 80},
	} {
		env := Env{
			Getenv:   func(string) string { return tc.env },
			Terminal: func(any) (int, bool) { return tc.columns, tc.terminal },
		}
		if got := env.width(io.Discard); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
	// A file and a buffer are none.
	env := Env{Getenv: func(string) string { return "" }}
	if _, ok := env.terminal(&bytes.Buffer{}); ok {
		t.Error("a buffer is a terminal")
	}
}

// The same JSON, with nothing in it that a terminal acts on.
func FuzzPrintJSON(f *testing.F) {
	f.Add([]byte(`{"a": "x\u001b", "b": [1, "` + "\u202e\u009b\x7f" + `"]}`))
	f.Add([]byte(`"` + "\xff" + `"`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return
		}
		var out bytes.Buffer
		if err := printJSON(&out, raw); err != nil {
			t.Fatal(err)
		}
		line := strings.TrimSuffix(out.String(), "\n")
		if line != plain(line) {
			t.Errorf("%q", line)
		}
		var before, after any
		if json.Unmarshal(raw, &before) != nil {
			return // numbers that no float holds
		}
		if err := json.Unmarshal([]byte(line), &after); err != nil || !reflect.DeepEqual(before, after) {
			t.Errorf("%q became %q", raw, line)
		}
	})
}
