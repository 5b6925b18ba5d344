package web

import (
	"errors"
	"fmt"
	"io"
)

// endedError says that an answer ended early, in words.
type endedError struct {
	text string
	err  error
}

func (e *endedError) Error() string { return e.text }
func (e *endedError) Unwrap() error { return e.err }

// EndedEarly explains the error of a body that ended after so many bytes of the whole; whole is
// negative if the answer does not state it. Other errors stay as they are.
func EndedEarly(err error, bytes, whole int64) error {
	switch {
	case !errors.Is(err, io.ErrUnexpectedEOF):
		return err
	case whole < 0:
		return &endedError{fmt.Sprintf("the answer ended early, after %d bytes", bytes), err}
	}
	return &endedError{fmt.Sprintf("the answer ended after %d of %d bytes", bytes, whole), err}
}

// Explained returns the body of an answer, with errors that EndedEarly explains. Whole is the length that
// the answer states, or negative.
func Explained(body io.ReadCloser, whole int64) io.ReadCloser {
	return &explained{ReadCloser: body, whole: whole}
}

type explained struct {
	io.ReadCloser
	n, whole int64
}

func (b *explained) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n += int64(n)
	return n, EndedEarly(err, b.n, b.whole)
}
