package resourcesync

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// window is the part of the document that is in memory: buf[p:w] is still to be scanned.
// At buf[w] is a NUL, which is in no class of bytes, so the inner loops need no check for
// the end. A word can be loaded from there.
//
// More is read only between tokens (need), never within one: offsets into buf
// stay good for as long as a token is worked on.
type window struct {
	r      io.Reader
	limits Limits
	advice string // what to do about a document over the limits

	buf  []byte
	p, w int
	base int64 // offset of buf[0] in the document

	// eof says that no more can be read: the document ended, or readErr is set, or it is
	// over limits.Bytes. The bytes before that are scanned first, so the result does not
	// depend on the chunks of the reader.
	eof     bool
	over    bool
	readErr error

	known place
	err   error // the first error; io.EOF after the end
}

// place is an offset whose line and column are known. It moves forward only.
type place struct {
	off       int // in buf
	line, col int // from 0
}

func newWindow(r io.Reader, l Limits) window {
	size := 4 * l.Token
	// A body that is in memory already needs no window larger than itself.
	if m, ok := r.(interface{ Len() int }); ok {
		size = min(size, max(m.Len(), 0))
	}
	return window{r: r, limits: l, advice: "split it in two notifications", buf: make([]byte, size+1+slack)}
}

// need reads until at least n bytes, limits.Token at most, can be scanned, or until no
// more can be read.
func (s *window) need(n int) {
	if s.w-s.p < n && !s.eof {
		s.fill(n)
	}
}

func (s *window) fill(n int) {
	s.locate(s.p)
	s.known.off = 0
	s.base += int64(s.p)
	copy(s.buf, s.buf[s.p:s.w])
	s.w -= s.p
	s.p = 0
	for idle := 0; s.w < n && !s.eof; {
		got, err := s.r.Read(s.buf[s.w : len(s.buf)-slack])
		s.w += got
		if extra := s.base + int64(s.w) - s.limits.Bytes; extra > 0 {
			s.w -= int(extra)
			s.eof, s.over = true, true
		}
		if idle++; got > 0 {
			idle = 0
		}
		switch {
		case errors.Is(err, io.EOF):
			s.eof = true
		case err != nil:
			s.eof, s.readErr = true, err
		case idle > 100:
			s.eof, s.readErr = true, io.ErrNoProgress
		}
		if s.w == len(s.buf)-slack && !s.eof && s.w < n {
			// The reader has more than its Len said.
			s.buf = append(s.buf, make([]byte, n)...)
		}
	}
	s.buf[s.w] = 0
}

// locate moves s.known to off and returns its line and column. For an offset before
// s.known it returns those of s.known.
func (s *window) locate(off int) (line, column int) {
	if off > s.known.off {
		part := s.buf[s.known.off:off]
		if i := bytes.LastIndexByte(part, '\n'); i >= 0 {
			s.known.line += bytes.Count(part[:i+1], newline)
			s.known.col = 0
			part = part[i+1:]
		}
		s.known.col += utf8.RuneCount(part)
		s.known.off = off
	}
	return s.known.line + 1, s.known.col + 1
}

var newline = []byte{'\n'}

// fail ends the scan with an error at buf[off]. It returns false, and so do all that
// follow, for callers that report whether there is anything to return.
func (s *window) fail(kind ErrorKind, rule string, off int, format string, args ...any) bool {
	line, column := s.locate(off)
	s.err = &Error{Kind: kind, Rule: rule, Line: line, Column: column, Msg: fmt.Sprintf(format, args...)}
	return false
}

// refuse fails with NotWellFormed.
func (s *window) refuse(off int, format string, args ...any) bool {
	return s.fail(NotWellFormed, "XML", off, format, args...)
}

// overLimit fails with OverLimit.
func (s *window) overLimit(off int, format string, args ...any) bool {
	return s.fail(OverLimit, "XML", off, format, args...)
}

// short fails because a token needs more bytes than there are.
func (s *window) short(what string) bool {
	switch {
	case !s.eof:
		return s.overLimit(s.p, "%s is longer than %d bytes", what, s.limits.Token)
	case s.readErr != nil:
		s.err = fmt.Errorf("resourcesync: reading the document: %w", s.readErr)
		return false
	case s.over:
		return s.fail(OverLimit, "DOC-60", s.w, "the document is longer than %d bytes; %s", s.limits.Bytes, s.advice)
	}
	return s.refuse(s.w, "the document ends within %s", what)
}

// badChar fails on the byte at off, which cannot stand within what.
func (s *window) badChar(off int, what string) bool {
	r, n := utf8.DecodeRune(s.buf[off:s.w])
	switch cut := !utf8.FullRune(s.buf[off:s.w]); {
	case off >= s.w, cut && (s.over || s.readErr != nil):
		return s.short(what)
	case r < utf8.RuneSelf:
		return s.refuse(off, "the control character U+%04X is not allowed in XML", r)
	case r != utf8.RuneError || n > 1:
		return s.refuse(off, "the character %U is not allowed in XML", r)
	case cut:
		return s.fail(BadEncoding, "XML", off, "the document ends within a UTF-8 character")
	}
	return s.fail(BadEncoding, "XML", off, "the byte 0x%02X is not valid UTF-8 here; send the document in UTF-8", s.buf[off])
}

// chars returns how long the run of characters from U+0080 at off is, as far as
// XML allows them; 0 if it does not allow the first.
func (s *window) chars(off int) int {
	b, n := s.buf[off:s.w], 0
	for n < len(b) && (b[n] >= utf8.RuneSelf || n == 0) {
		r, size := utf8.DecodeRune(b[n:])
		if r == utf8.RuneError && size <= 1 || !isChar(r) {
			break
		}
		n += size
	}
	return n
}

// quote shows a piece of the document in a message: one line, short. It does so
// when the message is made, as most of those about the same are not.
type quote []byte

func (q quote) String() string {
	const most = 60
	if len(q) <= most {
		return fmt.Sprintf("%q", []byte(q))
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(q[cut]) {
		cut--
	}
	return fmt.Sprintf("%q...", []byte(q[:cut]))
}
