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

// The host of a URL is what is left of it last, and its end last of all.
func TestShortenURL(t *testing.T) {
	const url = "https://reader.example.net:8443/a/long/way?of=a"
	for n, want := range map[int]string{
		47: url,
		46: "reader.example.net:8443/a/long/way?of=a",
		39: "reader.example.net:8443/a/long/way?of=a",
		38: "reader.example.net:8443…/long/way?of=a",
		25: "reader.example.net:8443…a",
		24: "reader.example.net:8443…",
		23: "reader.example.net:8443",
		22: "…ader.example.net:8443",
		5:  "…8443",
		0:  "",
		-1: "",
	} {
		if got := shortenURL(url, n); got != want {
			t.Errorf("to %d: %q, want %q", n, got, want)
		}
	}
	for in, want := range map[string]string{
		"connection refused by the peer": "connectio…the peer", "://": "://",
		"https://example.org": "example.org", "https://example.org?a=b&c=d&e=f": "example.org…=d&e=f",
	} {
		if got := shortenURL(in, 18); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzShortenURL(f *testing.F) {
	f.Add("https://example.org/changes/", 10)
	f.Add("://", 2)
	f.Add("x://äöü\x00\xff/", 3)
	f.Fuzz(func(t *testing.T, s string, n int) {
		got := shortenURL(s, n)
		if length := utf8.RuneCountInString(s); length <= n && got != s || utf8.RuneCountInString(got) > max(n, 0) {
			t.Errorf("%q in %d became %q", s, n, got)
		}
		if host, _ := splitURL(s); utf8.RuneCountInString(host) <= n && !strings.Contains(got, host) {
			t.Errorf("%q in %d became %q, without its host", s, n, got)
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
		if got := fitted(testColumns, natural, make([]int, len(natural)), width); !slices.Equal(got, want) {
			t.Errorf("width %d: %v, want %v", width, got, want)
		}
	}
}

// Hosts stay visible: all else that can give way goes first.
func TestFittedKeepsHosts(t *testing.T) {
	columns := []column{{"ID", asID}, {"STATE", whole}, {"NEXT", droppedLast}, {"EXPIRES", dropped}, {"CALLBACK", asHost}, {"TOPIC", droppedURL}}
	natural, hosts := []int{36, 7, 9, 8, 50, 30}, []int{0, 0, 0, 0, 24, 11}
	for width, want := range map[int][]int{
		150: {36, 7, 9, 8, 50, 30}, // it just fits
		149: {8, 7, 9, 8, 50, 30},  // ids first
		90:  {8, 7, 9, 8, 24, 24},  // then the longest URL
		82:  {8, 7, 9, 8, 24, 16},  // down to the host
		81:  {8, 7, 9, 0, 24, 24},  // then what can be done without
		72:  {8, 7, 9, 0, 24, 16},
		71:  {8, 7, 9, 0, 41, 0}, // the topic too
		54:  {8, 7, 9, 0, 24, 0},
		53:  {8, 7, 0, 0, 34, 0}, // and the time of the next attempt
		43:  {8, 7, 0, 0, 24, 0},
		42:  {8, 7, 0, 0, 23, 0}, // the host itself comes last
		20:  {8, 7, 0, 0, 16, 0}, // and the rest is the terminal's matter
	} {
		if got := fitted(columns, natural, hosts, width); !slices.Equal(got, want) {
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
		got := fitted(testColumns, natural, make([]int, len(natural)), width)
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
	want := "CALLBACK                     STATE\nhttps://reader.example.net/  active\nreader.example.net…h/longer  active\n"
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
	if want := "A              B\na\\u001b[31m b  \\u202ec\\ufffd\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	out.Reset()
	if err := details(&out, [][2]string{{"topic", "x\x1b]0;y\x07"}, {"nothing", ""}, {"id", "1"}}); err != nil || out.String() != "topic  x\\u001b]0;y\\u0007\nid     1\n" {
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
		if err := printJSON(Screen(&out), raw); err != nil {
			t.Fatal(err)
		}
		line := strings.TrimSuffix(out.String(), "\n")
		if line != Line(line) {
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
