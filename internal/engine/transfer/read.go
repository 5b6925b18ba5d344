package transfer

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/rshub/rshub/store/seal"
)

// Errors of a file.
var (
	// ErrRefused is wrapped if a file cannot be imported: it is neither a backup nor an export, a
	// newer version wrote it, or its key is not there.
	ErrRefused = errors.New("the file is refused")
	// ErrTruncated is wrapped if the end of a file is missing.
	ErrTruncated = errors.New("lines of the file are missing: it was cut short")
)

// maxLine bounds a line, in bytes. The longest lines have the body of a notification, which is
// limited by --max-body.
const maxLine = 1 << 30

// maxProblems is how many wrong lines are reported.
const maxProblems = 20

// LineError says what is wrong with a line, counted from 1.
type LineError struct {
	Line int
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns Err.
func (e *LineError) Unwrap() error { return e.Err }

// line is a line of a file between the first one and the last one.
type line interface {
	check() error                                    // returns an error if the line by itself is wrong
	counter(c *Counts) *int                          // returns the count of such lines
	merge(ctx context.Context, into *importer) error // stores what a checked line says
}

// lineTypes create an empty line of each type.
var lineTypes = map[string]func(secrets *secrets) line{
	typeNotification: func(*secrets) line { return new(notificationLine) },
	typeTopic:        func(*secrets) line { return new(topicLine) },
	typePing:         func(*secrets) line { return new(pingLine) },
	typeSubscription: func(secrets *secrets) line { return &subscriptionLine{secrets: secrets} },
}

// handler receives the lines of a file after they were checked. Its error ends the reading.
type handler struct {
	line     func(line) error
	progress func(Counts) // called after every page of lines; may be nil
}

// Check validates a whole file and counts its lines. The error joins one for each wrong line,
// maxProblems at most, or wraps ErrRefused or ErrTruncated. Progress, which may be nil, is called
// now and then with what was read.
func Check(ctx context.Context, r io.Reader, keys *seal.Keys, progress func(Counts)) (Counts, error) {
	return read(ctx, r, keys, handler{line: func(line) error { return nil }, progress: progress})
}

// Name returns a name for a backup that no other file has. It reads the first line, and then seeks
// back to the beginning. The error wraps ErrRefused if secrets were left out of the file.
func Name(file io.ReadSeeker) (string, error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(io.LimitReader(file, 1<<16)).ReadBytes('\n')
	if err != nil {
		return "", err
	}
	var h header
	if err := json.Unmarshal(line, &h); err == nil && h.Secrets == SecretsLeftOut {
		return "", fmt.Errorf("%w: it is no backup, as the secrets of subscribers were left out of it; `rshub import` reads it", ErrRefused)
	}
	_, err = file.Seek(0, io.SeekStart)
	return fmt.Sprintf("%x", sha256.Sum256(line)), err
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
		if err := f.add(n, lines.Bytes()); err != nil {
			return f.counts, err
		}
		if h.progress != nil && n%page == 0 {
			h.progress(f.counts)
		}
	}
	switch {
	case len(f.problems) == maxProblems:
		f.problems = append(f.problems, errors.New("there may be more mistakes; the rest was not read"))
	case lines.Err() != nil:
		f.problems = append(f.problems, &LineError{n + 1, lines.Err()})
	case !f.ended:
		f.problems = append(f.problems, fmt.Errorf("%w after line %d; make the file again", ErrTruncated, n))
	}
	return f.counts, errors.Join(f.problems...)
}

// file is the state of reading a file.
type file struct {
	handler
	secrets  *secrets
	counts   Counts
	before   *notificationLine // the line before; nil: it had another type
	ended    bool
	problems []error
}

// begin checks the first line.
func begin(line []byte, keys *seal.Keys) (*secrets, error) {
	var h header
	if err := json.Unmarshal(line, &h); err != nil || h.Type != typeHeader || h.Format < 1 {
		return nil, fmt.Errorf("%w: its first line is not that of a backup or an export; write the file with rshub backup or rshub export", ErrRefused)
	}
	if h.Format > Format {
		return nil, fmt.Errorf("%w: it has format %d, and this version knows up to %d; import it with the newer version that wrote it (%s)", ErrRefused, h.Format, Format, h.Program)
	}
	if err := strictly(line, &h); err != nil {
		return nil, fmt.Errorf("%w: line 1: %w", ErrRefused, err)
	}
	return secretsOf(h, keys)
}

// add checks one line and passes it to the handler. Mistakes in the line are collected as
// problems; an error is the handler's.
func (f *file) add(n int, text []byte) error {
	var of struct {
		Type string `json:"type"`
	}
	notJSON := json.Unmarshal(text, &of)
	var wrong error
	switch newLine := lineTypes[of.Type]; {
	case f.ended:
		wrong = errors.New("it comes after the last line")
	case notJSON != nil:
		wrong = fmt.Errorf("it is not a JSON object: %w", notJSON)
	case of.Type == typeEnd:
		wrong = f.end(text)
	case newLine == nil:
		wrong = fmt.Errorf("%q is not a type of line", of.Type)
	default:
		l := newLine(f.secrets)
		if wrong = strictly(text, l); wrong == nil {
			wrong = l.check()
		}
		if wrong == nil {
			wrong = f.follows(l)
		}
		if wrong == nil {
			*l.counter(&f.counts)++
			return f.line(l)
		}
	}
	if wrong != nil {
		f.problems = append(f.problems, &LineError{n, wrong})
	}
	return nil
}

// follows returns an error if a line may not come after the one before.
func (f *file) follows(l line) error {
	before := f.before
	f.before = nil
	switch l := l.(type) {
	case *notificationLine:
		f.before = &notificationLine{Topic: l.Topic, Position: l.Position}
		if before == nil || before.Topic == l.Topic && before.Position < l.Position {
			return nil
		}
	case *topicLine:
		none := l.Retained == nil || l.Retained.Bytes == 0 // all that it retains may be damaged
		if before == nil && none || before != nil && before.Topic == l.Topic && before.Position <= l.Last.Position {
			return nil
		}
	default:
		if before == nil {
			return nil
		}
	}
	return errors.New("it is not in the right order: first the notifications of a topic, oldest first, and then the topic")
}

// end reads the last line.
func (f *file) end(text []byte) error {
	var l endLine
	if err := strictly(text, &l); err != nil {
		return err
	}
	f.ended = true
	if len(f.problems) == 0 && l.Counts != f.counts {
		return fmt.Errorf("%w: it counts %v, and the file has %v", ErrTruncated, l.Counts, f.counts)
	}
	return nil
}

// strictly decodes one JSON object. It refuses unknown fields.
func strictly(line []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("it is not as rshub writes it: %w", err)
	}
	return nil
}
