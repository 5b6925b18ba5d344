package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// harmful is what a terminal would act on: each class once, and a character that is cut
// off.
const harmful = "a\x1b[31mb\u009b2Jc\x9b2Jd\u202ee\u2066f\rg\x00h\x7fi\u2028j\xf0\x9f\x98"

const harmless = `a\u001b[31mb\u009b2Jc\ufffd2Jd\u202ee\u2066f\u000dg\u0000h\u007fi\u2028j`

func TestScreen(t *testing.T) {
	for in, want := range map[string]string{
		"": "",
		"héllo\n\twörld 😀 日本語 שלום\n": "héllo\n\twörld 😀 日本語 שלום\n",
		harmful:    harmless + `\ufffd`,
		`"\u001b"`: `"\u001b"`,
		"\ufffd":   "\ufffd",
	} {
		for size := 1; size <= len(in)+1; size++ {
			var out bytes.Buffer
			s := &screen{w: &out}
			for rest := []byte(in); len(rest) > 0; rest = rest[min(size, len(rest)):] {
				if n, err := s.Write(rest[:min(size, len(rest))]); n != min(size, len(rest)) || err != nil {
					t.Fatal(n, err)
				}
			}
			s.flush()
			if out.String() != want {
				t.Errorf("%q in pieces of %d: %q, want %q", in, size, out.String(), want)
			}
		}
	}
	if got, want := Line("a\nb\r\n\tc"+harmful), "a b   c"+strings.Replace(harmless, `\u000d`, " ", 1)+`\ufffd`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	failing := Screen(writer(func([]byte) (int, error) { return 0, io.ErrClosedPipe }))
	if n, err := io.WriteString(failing, "x"); n != 0 || !errors.Is(err, io.ErrClosedPipe) {
		t.Error(n, err)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// judgeShown reports what may not be on a screen.
func judgeShown(s string, lines bool) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("not UTF-8: %q", s)
	}
	for _, r := range s {
		if lines && (r == '\n' || r == '\t') {
			continue
		}
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || unicode.In(r, unicode.Zl, unicode.Zp) {
			return fmt.Errorf("%U in %q", r, s)
		}
	}
	return nil
}

// Whatever is written, and in whatever pieces, nothing of it acts on a terminal, and
// JSON stays the same JSON.
func FuzzScreen(f *testing.F) {
	f.Add([]byte(harmful), 3)
	f.Add([]byte(`{"a":"`+"\u009b\u202e\x7f\x9b"+`\u001b\n"}`), 9)
	f.Add([]byte("[1,\n\t2]"), 1)
	f.Add([]byte("\"\xf0\x9f\""), 2)
	f.Fuzz(func(t *testing.T, p []byte, at int) {
		var out bytes.Buffer
		s := &screen{w: &out}
		at = min(max(at, 0), len(p))
		_, _ = s.Write(p[:at])
		_, _ = s.Write(p[at:])
		s.flush()
		if err := judgeShown(out.String(), true); err != nil {
			t.Error(err)
		}
		if line := Line(string(p)); judgeShown(line, false) != nil || Line(line) != line {
			t.Errorf("%q as a line: %q", p, line)
		}
		var before, after any
		if bytes.ContainsRune(p, '\r') || json.Unmarshal(p, &before) != nil {
			return
		}
		if err := json.Unmarshal(out.Bytes(), &after); err != nil || !reflect.DeepEqual(before, after) {
			t.Errorf("%q became %q: %v", p, out.Bytes(), err)
		}
	})
}

// Every command has the Screen before both its streams, whatever it does; what it says
// of an error in lines of its own are lines, and what came from outside begins none.
func TestExecuteScreens(t *testing.T) {
	foreign := errors.New("bad\nFORGED: \x1b[2J\u009b\x9b\u202e")
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"of its own":   {foreign, `x: bad FORGED: \u001b[2J\u009b\ufffd\u202e`},
		"wrapped":      {fmt.Errorf("reading: %w", foreign), `x: reading: bad FORGED: \u001b[2J\u009b\ufffd\u202e`},
		"with advice":  {Fail(ExitRefused, "no: %w\nTry %s", foreign, "this\nFORGED"), "x: no: bad FORGED: \\u001b[2J\\u009b\\ufffd\\u202e\nTry this FORGED"},
		"told on":      {Fail(ExitRefused, "%w", Fail(ExitFailure, "no: %w\nTry again", foreign)), "x: no: bad FORGED: \\u001b[2J\\u009b\\ufffd\\u202e\nTry again"},
		"several":      {errors.Join(errors.New("a\nb"), errors.New("c")), "x: a b\nc"},
		"several, all": {Fail(ExitFailure, "%w", errors.Join(errors.New("a\nb"), errors.New("c"))), "x: a b\nc"},
	} {
		cmd := &cobra.Command{Use: "x", RunE: func(cmd *cobra.Command, _ []string) error {
			_, _ = io.WriteString(cmd.OutOrStdout(), harmful)
			_, _ = io.WriteString(cmd.ErrOrStderr(), "log \x1b\n")
			return c.err
		}}
		var out, errOut bytes.Buffer
		Execute(cmd, nil, strings.NewReader(""), &out, &errOut)
		if got, want := errOut.String(), `log \u001b`+"\n"+c.want+"\n"; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		if got := out.String(); got != harmless+notText {
			t.Errorf("%s: %q", name, got)
		}
		if !errors.Is(c.err, foreign) && strings.Contains(c.want, "FORGED: ") {
			t.Errorf("%s: the cause is lost", name)
		}
	}
}

// Options of the packages are named by their flags, in messages and not in URLs.
func TestOptionsAreNamedByTheirFlags(t *testing.T) {
	var out, errOut strings.Builder
	root := &cobra.Command{Use: "x", Annotations: map[string]string{"Options.MaxFile": "--max-file", "other": "annotation"}, RunE: func(cmd *cobra.Command, _ []string) error {
		_, err := io.WriteString(cmd.OutOrStdout(), "over Options.MaxFile (Options.MaxFile), http://h/Options.MaxFile, Options.Other other\n")
		return errors.Join(err, errors.New("raise Options.MaxFile"))
	}}
	if code := Execute(root, nil, strings.NewReader(""), &out, &errOut); code != ExitFailure {
		t.Errorf("exit code %d", code)
	}
	if got := out.String(); got != "over --max-file (--max-file), http://h/Options.MaxFile, Options.Other other\n" {
		t.Errorf("%q", got)
	}
	if got := errOut.String(); !strings.Contains(got, "raise --max-file\n") {
		t.Errorf("%q", got)
	}
}

func TestNameFlags(t *testing.T) {
	options := map[string]string{"Options.MinFree": "--min-free-disk", "Other": "not a flag"}
	err := NameFlags(errors.New("less is free than 256 MiB (Options.MinFree); see Options.MinFree"), options)
	if err == nil || err.Error() != "less is free than 256 MiB (--min-free-disk); see --min-free-disk" {
		t.Error(err)
	}
	if NameFlags(nil, options) != nil {
		t.Error("no error becomes one")
	}
}
