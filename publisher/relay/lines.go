package relay

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/rshub/rshub/publisher/source"
)

const (
	// readAhead is how much of the input is read before it is asked for: as many lines as are
	// in it share a write. batch bounds them.
	readAhead = 1 << 20
	batch     = 1000
)

// Lines reads requests from in, each a line of JSON, and answers each with a line on out, in the
// same order. Lines that have arrived already share a write, so an application need not wait for
// an answer before its next line. It returns at the end of in, and with any error of in and out.
func (r *Relay) Lines(in io.Reader, out io.Writer) error {
	from, to := bufio.NewReaderSize(in, readAhead), bufio.NewWriter(out)
	for first := 1; ; {
		lines, readErr := gather(from)
		for _, a := range r.record(first, lines) {
			if _, err := to.Write(encode(a)); err != nil {
				return fmt.Errorf("answering: %w", err)
			}
		}
		first += len(lines)
		if err := to.Flush(); err != nil {
			return fmt.Errorf("answering: %w", err)
		}
		switch {
		case errors.Is(readErr, io.EOF):
			return nil
		case readErr != nil:
			return fmt.Errorf("reading the next line: %w", readErr)
		}
	}
}

// gather waits for a line, and returns it with those that have arrived with it. A line that is
// too long is nil.
func gather(from *bufio.Reader) (lines [][]byte, err error) {
	for size := 0; len(lines) < batch && size < MaxBytes; {
		text, some, err := readLine(from)
		if some { // the last line may lack its end
			lines = append(lines, text)
			size += len(text)
		}
		if err != nil {
			return lines, err
		}
		if next, _ := from.Peek(from.Buffered()); bytes.IndexByte(next, '\n') < 0 {
			break
		}
	}
	return lines, nil
}

// readLine reads a line without its end. Of a line that is too long it reads all and returns nil. Some is
// false if nothing is left to read.
func readLine(from *bufio.Reader) (text []byte, some bool, err error) {
	text = []byte{}
	for long := false; ; {
		piece, err := from.ReadSlice('\n')
		some = some || len(piece) > 0
		if long = long || len(text)+len(piece) > MaxBytes; !long {
			text = append(text, piece...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case long:
			return nil, some, err
		}
		return bytes.TrimRight(text, "\r\n"), some, err
	}
}

// record records the requests in lines, and returns an answer for each. First is the number of
// the first line.
func (r *Relay) record(first int, lines [][]byte) []answer {
	answers := make([]answer, len(lines))
	var all []source.Announcement
	var at []int // of each in answers
	fail := func(i int, is Outcome, err error) {
		r.o.Counted(is)
		answers[i].Line, answers[i].Error = first+i, err.Error()
	}
	for i, text := range lines {
		if text == nil {
			fail(i, Refused, fmt.Errorf("a line may have %d MiB; send the changes in several", MaxBytes>>20))
			continue
		}
		l, err := parseLine(text, r.o.Prefixes)
		if err == nil {
			err = checkKey(`the field "id"`, l.id)
		}
		if len(l.id) <= maxKey {
			answers[i].ID = l.id
		}
		if err != nil {
			fail(i, Refused, err)
			continue
		}
		all, at = append(all, announcement(l.id, l.changes)), append(at, i)
	}
	if len(all) == 0 {
		return answers
	}
	receipts, err := r.o.Record(all)
	for n, i := range at {
		if err != nil {
			fail(i, Failed, notRecorded(err))
			continue
		}
		a, is, err := outcome(receipts[n])
		if err != nil {
			fail(i, is, err)
			continue
		}
		r.o.Counted(is)
		a.ID = answers[i].ID
		answers[i] = a
	}
	return answers
}
