package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// What a command prints may come from a malicious server: a terminal would act on its control
// characters, or show its text in another order. Execute therefore puts a Screen before both
// streams of every command. Line also keeps text from outside within one line.

// Screen returns a writer that passes text on to w and writes what a terminal would act
// on as \u001b and the like: control characters of C0 and C1 other than new lines and
// tabs, controls of the direction of writing, and line separators. Bytes that are no
// UTF-8 become \ufffd. In JSON these are escapes, so JSON stays valid and means the same.
// Goroutines may share it.
func Screen(w io.Writer) io.Writer { return &screen{w: w} }

type screen struct {
	w     io.Writer
	flags *strings.Replacer // from options to flags; nil: none

	mu   sync.Mutex
	rest []byte // the first bytes of a character; the next Write has the others
}

// Write implements io.Writer.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var safe []byte
	safe, s.rest = appendSafe(nil, append(s.rest, p...), false)
	if s.flags != nil && bytes.ContainsAny(safe, ".") {
		safe = []byte(s.flags.Replace(string(safe)))
	}
	if _, err := s.w.Write(safe); err != nil {
		return 0, err
	}
	return len(p), nil
}

// flagNames replaces the options that have flags, by their names, in messages: after a
// space or a parenthesis, so that nothing in a URL looks like one.
func flagNames(options map[string]string) *strings.Replacer {
	var pairs []string
	for option, flag := range options {
		if strings.HasPrefix(flag, "--") {
			pairs = append(pairs, " "+option, " "+flag, "("+option, "("+flag)
		}
	}
	if pairs == nil {
		return nil
	}
	return strings.NewReplacer(pairs...)
}

// NameFlags returns an error whose text names flags in place of options, as Execute does. Nil
// stays nil.
func NameFlags(err error, options map[string]string) error {
	if r := flagNames(options); err != nil && r != nil {
		return errors.New(r.Replace(err.Error()))
	}
	return err
}

// flush writes what is left of a character that never ended.
func (s *screen) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.rest) > 0 {
		_, _ = io.WriteString(s.w, notText) // there is nowhere to report an error
		s.rest = nil
	}
}

// Raw returns the writer behind a Screen, or w if it is none. It is for what is not
// text of a command: a bar that draws itself, and the output of a command that the user
// named.
func Raw(w io.Writer) io.Writer {
	if s, ok := w.(*screen); ok {
		return s.w
	}
	return w
}

// Document returns the writer for a document whose bytes must not change: the one behind w,
// or w itself if that is a terminal.
func Document(w io.Writer) io.Writer {
	if IsTerminal(w) {
		return w
	}
	return Raw(w)
}

// Line makes one line of text that came from outside: it writes as Screen does, and
// new lines and tabs as spaces.
func Line(s string) string {
	safe, rest := appendSafe(make([]byte, 0, len(s)), []byte(s), true)
	if len(rest) > 0 {
		safe = append(safe, notText...)
	}
	return string(safe)
}

// notText stands for bytes that are no UTF-8.
const notText = `\ufffd`

// appendSafe appends to dst what may be shown of p, in a line if it has to be one. Rest
// is the beginning of a character that p ends with.
func appendSafe(dst, p []byte, line bool) (safe, rest []byte) {
	for len(p) > 0 && utf8.FullRune(p) {
		r, n := utf8.DecodeRune(p)
		space := r == '\n' || r == '\t'
		switch {
		case r == utf8.RuneError && n == 1:
			dst = append(dst, notText...)
		case line && (space || r == '\r'):
			dst = append(dst, ' ')
		case acts(r) && !space:
			dst = fmt.Appendf(dst, `\u%04x`, r) // none of them needs more digits
		default:
			dst = append(dst, p[:n]...)
		}
		p = p[n:]
	}
	return dst, p
}

// acts reports whether a terminal does something else than show r.
func acts(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}
