package cli

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"
)

// Without a terminal there is a line every 10 seconds, and a last one only if there was
// one before.
func TestProgressLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := NewProgress(&out, nil)
		want := func(what, text string) {
			t.Helper()
			if got := out.String(); got != text {
				t.Errorf("%s: %q, want %q", what, got, text)
			}
			out.Reset()
		}
		p.Show(1, 3, "1 of 3")
		p.End("done")
		want("a short command", "")
		time.Sleep(progressEvery)
		p.Show(2, 3, "2 of\x1b[2J 3")
		p.Show(3, 3, "3 of 3")
		want("after ten seconds", Line("2 of\x1b[2J 3")+"\n")
		p.End("done")
		p.End("done")
		want("at the end", "done\n")
		var said []string
		p = NewProgress(&out, func(line string) { said = append(said, line) })
		time.Sleep(progressEvery)
		p.Show(1, 0, "one")
		want("with a log", "")
		if len(said) != 1 || said[0] != "one" {
			t.Errorf("said: %q", said)
		}
	})
}
