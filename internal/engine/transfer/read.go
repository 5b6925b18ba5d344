package transfer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/store/seal"
	"github.com/rshub/rshub/subscriptions"
)

// Errors of a file.
var (
	// ErrRefused is wrapped where a file is not one that can be imported: it is no
	// export, of a newer version, or sealed with a key that is not there.
	ErrRefused = errors.New("the file is refused")
	// ErrTruncated is wrapped where the end of a file is missing.
	ErrTruncated = errors.New("lines of the file are missing: it was cut short")
)

// maxLine bounds a line, in bytes. The longest that is written has a topic's 64
// intervals and 100 gaps.
const maxLine = 1 << 20

// maxProblems is how many wrong lines are told of.
const maxProblems = 20

// LineError says what is wrong with a line, counted from 1.
type LineError struct {
	Line int
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns Err.
func (e *LineError) Unwrap() error { return e.Err }

// handler is given the lines of a file once they were validated. An error of it
// ends the reading.
type handler struct {
	topic        func(h journal.Head, remembered []journal.Interval) error
	ping         func(topic string, at time.Time) error
	subscription func(l *subscriptionLine, rec subscriptions.Record) error
	// next is called before the first line of another type than the one before,
	// and after the last line; progress after every page of lines.
	next     func() error
	progress func(Counts)
}

// Check validates a whole file and tells what is in it. An error joins one for
// each wrong line, maxProblems at most, or wraps ErrRefused or ErrTruncated.
// Progress, which may be nil, is called now and then with what was read.
func Check(ctx context.Context, r io.Reader, keys *seal.Keys, progress func(Counts)) (Counts, error) {
	return read(ctx, r, keys, handler{
		topic:        func(journal.Head, []journal.Interval) error { return nil },
		ping:         func(string, time.Time) error { return nil },
		subscription: func(*subscriptionLine, subscriptions.Record) error { return nil },
		next:         func() error { return nil },
		progress:     progress,
	})
}

// read hands the lines of a file to h.
func read(ctx context.Context, r io.Reader, keys *seal.Keys, h handler) (Counts, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 1<<16), maxLine)
	if !lines.Scan() {
		if lines.Err() != nil {
			return Counts{}, fmt.Errorf("%w: line 1: %w", ErrRefused, lines.Err())
		}
		return Counts{}, fmt.Errorf("%w: it is empty", ErrRefused)
	}
	secrets, err := begin(lines.Bytes(), keys)
	if err != nil {
		return Counts{}, err
	}
	f := &file{handler: h, secrets: secrets}
	n := 1
	for lines.Scan() && len(f.problems) < maxProblems {
		n++
		if err := ctx.Err(); err != nil {
			return f.counts, err
		}
		if err := f.line(n, lines.Bytes()); err != nil {
			return f.counts, err
		}
		if h.progress != nil && n%page == 0 {
			h.progress(f.counts)
		}
	}
	if err := h.next(); err != nil {
		return f.counts, err
	}
	switch {
	case len(f.problems) == maxProblems:
		f.problems = append(f.problems, errors.New("that is not all; the rest was not read"))
	case lines.Err() != nil:
		f.problems = append(f.problems, &LineError{n + 1, lines.Err()})
	case !f.ended:
		f.problems = append(f.problems, fmt.Errorf("%w after line %d; make the export again", ErrTruncated, n))
	}
	return f.counts, errors.Join(f.problems...)
}

// file is what is known of a file that is read.
type file struct {
	handler
	secrets  *secrets
	counts   Counts
	before   string // the type of the line before
	ended    bool
	problems []error
}

// begin judges the first line.
func begin(line []byte, keys *seal.Keys) (*secrets, error) {
	var h header
	if err := json.Unmarshal(line, &h); err != nil || h.Type != typeHeader || h.Format < 1 {
		return nil, fmt.Errorf("%w: its first line is not that of an export; make one with rshub export", ErrRefused)
	}
	if h.Format > Format {
		return nil, fmt.Errorf("%w: it has format %d, and this version knows up to %d; import it with the newer version that wrote it (%s)", ErrRefused, h.Format, Format, h.Program)
	}
	if err := strictly(line, &h); err != nil {
		return nil, fmt.Errorf("%w: line 1: %w", ErrRefused, err)
	}
	return secretsOf(h, keys)
}

// line validates one line and hands it on. What is wrong with it is kept as a
// problem; an error is the handler's.
func (f *file) line(n int, text []byte) error {
	var l struct {
		Type string `json:"type"`
	}
	notJSON := json.Unmarshal(text, &l)
	if l.Type != f.before {
		if err := f.next(); err != nil {
			return err
		}
		f.before = l.Type
	}
	var wrong, failed error
	switch {
	case f.ended:
		wrong = errors.New("it stands after the last line")
	case notJSON != nil:
		wrong = fmt.Errorf("it is no JSON object: %w", notJSON)
	case l.Type == typeTopic:
		wrong, failed = f.topicLine(text)
	case l.Type == typePing:
		wrong, failed = f.pingLine(text)
	case l.Type == typeSubscription:
		wrong, failed = f.subscriptionLine(text)
	case l.Type == typeEnd:
		wrong = f.endLine(text)
	default:
		wrong = fmt.Errorf("%q is no type of line", l.Type)
	}
	if wrong != nil {
		f.problems = append(f.problems, &LineError{n, wrong})
	}
	return failed
}

func (f *file) topicLine(text []byte) (wrong, failed error) {
	var l topicLine
	if err := valid(text, &l); err != nil {
		return err, nil
	}
	f.counts.Topics++
	return nil, f.topic(l.topic())
}

func (f *file) pingLine(text []byte) (wrong, failed error) {
	var l pingLine
	if err := valid(text, &l); err != nil {
		return err, nil
	}
	f.counts.Pings++
	return nil, f.ping(l.Topic, utc(l.PingedAt))
}

func (f *file) subscriptionLine(text []byte) (wrong, failed error) {
	var l subscriptionLine
	if err := valid(text, &l); err != nil {
		return err, nil
	}
	rec, err := l.record(f.secrets)
	if err != nil {
		return err, nil
	}
	f.counts.Subscriptions++
	return nil, f.subscription(&l, rec)
}

func (f *file) endLine(text []byte) error {
	var l endLine
	if err := strictly(text, &l); err != nil {
		return err
	}
	f.ended = true
	if len(f.problems) == 0 && l.Counts != f.counts {
		return fmt.Errorf("%w: it counts %v, and there are %v", ErrTruncated, l.Counts, f.counts)
	}
	return nil
}

// strictly decodes one JSON object that has no field but those that are known.
func strictly(line []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("it is not as it was written: %w", err)
	}
	return nil
}

func valid(line []byte, into interface{ check() error }) error {
	if err := strictly(line, into); err != nil {
		return err
	}
	return into.check()
}
