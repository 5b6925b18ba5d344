package resourcesync

import (
	"bytes"
	"io"
	"unicode/utf8"
)

// event is the result of scanner.next.
type event int

const (
	evNone  event = iota // an error, or the end of the document
	evStart              // a start tag: name, local, ns and attrs
	evEnd                // an end tag, or the end of an empty element
	evText               // a piece of character data: text
)

// scanner splits a document into events and refuses everything that is not
// namespace-well-formed. It checks and skips comments, processing instructions and the
// XML declaration.
//
// The data of an event, including its byte slices, is valid until the next call of next.
// The scanner allocates nothing per event: names and values are offsets into the window.
// Data that lives longer (open elements, namespaces in scope) is in arenas that are
// reused.
type scanner struct {
	in window

	tok  int    // where the event begins in buf
	text []byte // of evText: line ends normalised, references replaced

	tag
	scopes   scopes
	open     []frame // the open elements
	names    []byte  // their names, one after the other
	selfEnd  bool    // the start tag just reported was of an empty element
	inCDATA  bool
	started  bool // the byte order mark and the XML declaration were read
	rootSeen bool
	ref      [4]byte // room for one replaced reference
}

// frame is an open element.
type frame struct {
	name     int // where its name begins in scanner.names
	bindings int // how many bindings were in scope outside it
}

func newScanner(r io.Reader, l Limits) *scanner {
	return &scanner{in: newWindow(r, l.withDefaults())}
}

// next returns the next event. It returns evNone and sets in.err after an error, and
// after the last event, when that is io.EOF. Then it returns evNone again.
func (s *scanner) next() event {
	if s.in.err != nil {
		return evNone
	}
	if s.selfEnd {
		s.selfEnd = false
		s.pop()
		return evEnd
	}
	for s.in.err == nil {
		s.in.need(s.in.limits.Token)
		if !s.started {
			s.prolog()
			continue
		}
		s.tok = s.in.p
		switch {
		case s.inCDATA:
			if s.charData() {
				return evText
			}
		case s.in.p == s.in.w:
			s.end()
		case s.in.buf[s.in.p] == '<':
			if ev := s.markup(); ev != evNone {
				return ev
			}
		case len(s.open) == 0:
			s.outside()
		case s.charData():
			return evText
		}
	}
	return evNone
}

// markup scans what begins with "<". It returns evNone if there is nothing to report, and
// after an error.
func (s *scanner) markup() event {
	switch s.in.buf[s.in.p+1] {
	case '/':
		if s.endTag() {
			return evEnd
		}
	case '?':
		s.instruction()
	case '!':
		s.declaration()
	default:
		if s.startTag() {
			return evStart
		}
	}
	return evNone
}

// declaration scans what begins with "<!".
func (s *scanner) declaration() {
	rest := s.in.buf[s.in.p:s.in.w]
	switch {
	case bytes.HasPrefix(rest, []byte("<!--")):
		s.comment()
	case bytes.HasPrefix(rest, []byte("<![CDATA[")) && len(s.open) > 0:
		s.in.p += len("<![CDATA[")
		s.inCDATA = true
	case bytes.HasPrefix(rest, []byte("<![CDATA[")):
		s.in.refuse(s.in.p, "a CDATA section outside the root element")
	case bytes.HasPrefix(rest, []byte("<!DOCTYPE")) && !s.rootSeen:
		s.in.fail(HasDTD, "XML", s.in.p, "the document has a document type declaration (<!DOCTYPE); remove it")
	default:
		s.in.refuse(s.in.p, "\"<!\" begins neither a comment nor a CDATA section here")
	}
}

// end checks the end of the input.
func (s *scanner) end() {
	switch {
	case s.in.over || s.in.readErr != nil:
		s.in.short("the document")
	case !s.rootSeen:
		s.in.refuse(s.in.p, "the document is empty: there is no root element")
	case len(s.open) > 0:
		s.in.refuse(s.in.p, "the document ends before the end tag of %s", quote(s.openName()))
	default:
		s.in.err = io.EOF
	}
}

// outside skips white space outside the root element.
func (s *scanner) outside() {
	p := s.space(s.in.p)
	if p == s.in.p {
		switch {
		case classes[s.in.buf[p]]&(clsText|clsValue) == 0 && s.in.chars(p) == 0:
			s.in.badChar(p, "the document")
		case s.rootSeen:
			s.in.refuse(p, "text after the end of the root element")
		default:
			s.in.refuse(p, "text before the root element; the document must begin with \"<\"")
		}
	}
	s.in.p = p
}

// charData scans a piece of text or of a CDATA section, up to a tag, a reference, a
// carriage return, the end of the section or the end of the window. It returns false at
// the end of a section and after an error. At the beginning of a piece there is always
// room to look ahead, so a piece is never empty.
func (s *scanner) charData() bool {
	b, p := s.in.buf, s.in.p
	for {
		p = plainText(b, p)
		switch c := b[p]; {
		case c == '\n' || c == '\t' || s.inCDATA && (c == '<' || c == '&'):
			p++
		case (c == '<' || c == '&' || c == '\r') && p > s.in.p:
			return s.piece(p)
		case c == '&':
			return s.reference()
		case c == '\r':
			return s.carriageReturn()
		case c == ']':
			end := b[p+1] == ']' && b[p+2] == '>'
			switch {
			case p > s.in.p && (end && s.inCDATA || p+2 >= s.in.w && !s.in.eof):
				return s.piece(p)
			case end && s.inCDATA:
				s.in.p = p + len("]]>")
				s.inCDATA = false
				return false
			case end:
				return s.in.refuse(p, "\"]]>\" in text; write \"]]&gt;\"")
			}
			p++
		default:
			n := s.in.chars(p)
			if n == 0 {
				return s.brokenText(p)
			}
			p += n
		}
	}
}

// brokenText ends a piece at p, where no character of XML begins: the end of the
// window, perhaps within a character, or an error.
func (s *scanner) brokenText(p int) bool {
	switch {
	case p > s.in.p && (p == s.in.w || p+4 > s.in.w && !s.in.eof):
		return s.piece(p)
	case s.inCDATA:
		return s.in.badChar(p, "a CDATA section")
	}
	return s.in.badChar(p, "the text of an element")
}

// piece reports the text up to p.
func (s *scanner) piece(p int) bool {
	s.text = s.in.buf[s.in.p:p]
	s.in.p = p
	return true
}

func (s *scanner) reference() bool {
	r, end := s.parseReference(s.in.p)
	if end < 0 {
		return false
	}
	s.text = utf8.AppendRune(s.ref[:0], r)
	s.in.p = end
	return true
}

// carriageReturn reports the line end at p as a line feed.
func (s *scanner) carriageReturn() bool {
	s.in.p++
	if s.in.buf[s.in.p] == '\n' {
		s.in.p++
	}
	s.text = newline
	return true
}
