package destination

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// maxDiffLine is how many bytes a line of a diff may have.
const maxDiffLine = 1 << 20

// applyUnified writes to w what a unified diff of one file makes of the old file, as diff -u and git
// diff write it (LNK-04). It has one line of the diff in memory at a time. Lines have to be where the
// diff says, and as it says: nothing is searched for. The error says where in the diff the old file is
// another one, or the diff is wrong; w may have some of the result then. Lines before the first hunk
// and after the last one do not count.
func applyUnified(w io.Writer, old, diff io.Reader) error {
	p := &unified{w: bufio.NewWriterSize(w, 64<<10), old: bufio.NewReaderSize(old, 64<<10), diff: bufio.NewReader(diff), next: 1}
	err := p.hunks()
	if err != nil {
		return fmt.Errorf("line %d of the diff: %w", p.line, err)
	}
	if _, err := io.Copy(p.w, p.old); err != nil {
		return err
	}
	return p.w.Flush()
}

// errDiffers says that the old file is not the one that the diff was made of.
var errDiffers = errors.New("the old file is another one")

// unified is a diff while it is applied.
type unified struct {
	w         *bufio.Writer
	old, diff *bufio.Reader
	line      int   // of diff, which was read last
	next      int64 // line of old, which is read next
	buffer    []byte
}

// hunk is the head of one.
type hunk struct{ at, olds, news int64 }

// hunks carries out all hunks.
func (p *unified) hunks() error {
	for n := 0; ; n++ {
		text, err := p.read()
		switch {
		case errors.Is(err, io.EOF) && n > 0:
			return nil
		case errors.Is(err, io.EOF):
			return errors.New("it has no hunk, a line that begins with @@")
		case err != nil:
			return err
		case n == 0 && !bytes.HasPrefix(text, []byte("@@ -")):
			n--
			continue
		case !bytes.HasPrefix(text, []byte("@@ -")):
			return nil
		}
		h, err := parseHunk(string(text))
		if err == nil {
			err = p.apply(h)
		}
		if err != nil {
			return err
		}
	}
}

// read returns the next line of the diff, with its end. It is valid until the next one is read.
func (p *unified) read() ([]byte, error) {
	p.buffer = p.buffer[:0]
	for {
		some, err := p.diff.ReadSlice('\n')
		p.buffer = append(p.buffer, some...)
		switch {
		case len(p.buffer) > maxDiffLine:
			return nil, fmt.Errorf("the next line has more than %d bytes", maxDiffLine)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (!errors.Is(err, io.EOF) || len(p.buffer) == 0):
			return nil, err
		}
		p.line++
		return p.buffer, nil
	}
}

// parseHunk reads a head such as "@@ -12,7 +12,8 @@ func main".
func parseHunk(text string) (h hunk, err error) {
	fields := strings.Fields(text)
	if len(fields) < 4 || fields[0] != "@@" || fields[3] != "@@" {
		return h, errors.New("it is not the head of a hunk, such as @@ -1,3 +1,4 @@")
	}
	var after int64
	if h.at, h.olds, err = parseRange(fields[1], "-"); err == nil {
		after, h.news, err = parseRange(fields[2], "+")
	}
	if err != nil || after < 0 {
		return h, errors.New("it is not the head of a hunk, such as @@ -1,3 +1,4 @@")
	}
	if h.olds == 0 {
		h.at++ // the lines are added after that one
	}
	return h, nil
}

func parseRange(text, sign string) (at, lines int64, err error) {
	text, ok := strings.CutPrefix(text, sign)
	if !ok {
		return 0, 0, strconv.ErrSyntax
	}
	first, count, counted := strings.Cut(text, ",")
	if !counted {
		count = "1"
	}
	at, err = number(first)
	if err == nil {
		lines, err = number(count)
	}
	return at, lines, err
}

// number reads a number without a sign.
func number(text string) (int64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err == nil && n > math.MaxInt64/4 {
		err = strconv.ErrRange
	}
	return int64(n), err //nolint:gosec // checked
}

// apply carries out one hunk.
func (p *unified) apply(h hunk) error {
	if h.at < p.next {
		return errors.New("the hunk begins before the end of the one before")
	}
	for ; p.next < h.at; p.next++ {
		if err := p.copyLine(); err != nil {
			return err
		}
	}
	for h.olds > 0 || h.news > 0 {
		text, err := p.read()
		if errors.Is(err, io.EOF) {
			return errors.New("the hunk is cut off")
		}
		if err != nil {
			return err
		}
		kind := text[0]
		switch kind {
		case ' ', '-', '+':
			text = text[1:]
		case '\n', '\r': // an empty line whose space was removed
			kind = ' '
		default:
			return fmt.Errorf("a line of a hunk begins with %q", kind)
		}
		if text, err = p.withoutEnd(text); err != nil {
			return err
		}
		if kind != '+' {
			if h.olds--; h.olds < 0 {
				return errors.New("the hunk has more lines than its head says")
			}
			p.next++
			if err := p.match(text); err != nil {
				return err
			}
		}
		if kind != '-' {
			if h.news--; h.news < 0 {
				return errors.New("the hunk has more lines than its head says")
			}
			if _, err := p.w.Write(text); err != nil {
				return err
			}
		}
	}
	return nil
}

// withoutEnd returns a line without its end, if the next line says that it has none.
func (p *unified) withoutEnd(text []byte) ([]byte, error) {
	if next, _ := p.diff.Peek(1); len(next) == 0 || next[0] != '\\' {
		return text, nil
	}
	text = bytes.TrimSuffix(bytes.Clone(text), []byte("\n"))
	_, err := p.read()
	return text, err
}

// copyLine copies a line of the old file.
func (p *unified) copyLine() error {
	for some := true; some; {
		text, err := p.old.ReadSlice('\n')
		if _, failed := p.w.Write(text); failed != nil {
			return failed
		}
		some = errors.Is(err, bufio.ErrBufferFull)
		switch {
		case errors.Is(err, io.EOF):
			return errDiffers // a hunk follows
		case err != nil && !some:
			return err
		}
	}
	return nil
}

// match reads a line of the old file, and compares it.
func (p *unified) match(text []byte) error {
	for len(text) > 0 {
		n := min(len(text), p.old.Size())
		have, err := p.old.Peek(n)
		if !bytes.Equal(have, text[:n]) {
			if err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			return errDiffers
		}
		_, _ = p.old.Discard(n) // they are there
		text = text[n:]
	}
	return nil
}
