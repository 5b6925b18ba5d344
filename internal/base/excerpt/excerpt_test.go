package excerpt

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestOf(t *testing.T) {
	for in, want := range map[string]string{
		"":                     "",
		"no such\n\ttopic\r\n": "no such topic",
		`a "b" \c < d`:         `a "b" \c < d`,
		"<html><head><title>502 Bad Gateway</title><style>p{a:b}</style><SCRIPT>alert('<b>')</script ></head>\r\n<body bgcolor=\"white\">\n<center><h1>502&nbsp;Bad Gateway</h1><!-- a > b --></center>": "502 Bad Gateway 502 Bad Gateway",
		"<p>&#27;[31m &lt;red&gt; \x1b[2J\u009b\x9b\u202e</p>": "\ufffd[31m <red> \ufffd[2J\ufffd\ufffd\ufffd",
		"<style>never ends":      "",
		"<p>one</p><!-- no end":  "one",
		"<p>one</p><a href=\"x ": "one",
		strings.Repeat("é", 32):  strings.Repeat("é", 30) + "…",
		strings.Repeat("é", 31):  strings.Repeat("é", 31),
	} {
		if got := Of([]byte(in), 31); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// A long text is cut between two characters, so that it stays valid UTF-8.
func TestCut(t *testing.T) {
	for n, want := range map[int]string{0: "...", 1: "a...", 2: "a...", 3: "aé...", 6: "aé€...", 7: "aé€b"} {
		if got := Cut("aé€b", n); got != want {
			t.Errorf("%d bytes: %q, want %q", n, got, want)
		}
	}
	if got := Cut(strings.Repeat("\x80", 9), 4); got != "..." {
		t.Errorf("bytes that begin no character: %q", got)
	}
}

// Whatever a server says, what is shown of it is one short line of characters that can
// be shown.
func FuzzOf(f *testing.F) {
	f.Add([]byte("<html>\x1b&#155;<script>x</script>\u202e"), 10)
	f.Add([]byte("plain\n\x00\xff"), 3)
	f.Add([]byte("<"), 0)
	f.Fuzz(func(t *testing.T, body []byte, n int) {
		n = min(max(n, 0), 500)
		got := Of(body, n)
		if !utf8.ValidString(got) || utf8.RuneCountInString(got) > max(n, 1) {
			t.Errorf("%q: %q", body, got)
		}
		for _, r := range got {
			if !unicode.IsGraphic(r) && r != unicode.ReplacementChar {
				t.Errorf("%q: %U in %q", body, r, got)
			}
		}
	})
}
