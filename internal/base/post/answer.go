package post

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strconv"
	"strings"
)

// maxHead is how many bytes the headers of an answer may have, those of informational answers
// before it included.
const maxHead = 64 << 10

// A malformedError says that what came is not an answer in HTTP/1.
type malformedError string

func (e malformedError) Error() string { return "the answer is not valid HTTP: " + string(e) }

// ErrClosed says that a connection ended before any byte of an answer.
var ErrClosed = errors.New("the server closed the connection before it answered")

// Other ends of a connection that come too early.
var (
	errCutOff  = errors.New("the connection was closed within the header of the answer")
	errTooLong = fmt.Errorf("the header of the answer has more than %d bytes", maxHead)
)

// reader reads an answer from a connection. It reads ahead no further than its buffer.
type reader struct {
	conn net.Conn
	buf  []byte
	r, w int
	got  bool // something came
	eof  bool
}

// fill reads more, after what is in the buffer.
func (r *reader) fill() error {
	switch {
	case r.r == r.w:
		r.r, r.w = 0, 0
	case r.w == len(r.buf) && r.r > 0:
		r.r, r.w = 0, copy(r.buf, r.buf[r.r:r.w])
	case r.w == len(r.buf):
		r.buf = append(r.buf, make([]byte, len(r.buf))...)
	}
	for range 100 {
		n, err := r.conn.Read(r.buf[r.w:])
		r.w += n
		r.got = r.got || n > 0
		r.eof = r.eof || errors.Is(err, io.EOF)
		switch {
		case n > 0:
			return nil // the error comes again
		case err != nil:
			return err
		}
	}
	return io.ErrNoProgress
}

func (r *reader) buffered() int { return r.w - r.r }

// line returns the next line with its end, of at most limit bytes. It is valid until the next call.
func (r *reader) line(limit int) ([]byte, error) {
	for seen := 0; ; {
		if i := bytes.IndexByte(r.buf[r.r+seen:r.w], '\n'); i >= 0 && seen+i < limit {
			line := r.buf[r.r : r.r+seen+i+1]
			r.r += len(line)
			return line, nil
		}
		if seen = r.buffered(); seen >= limit {
			return nil, errTooLong
		}
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
}

// peek returns the next byte.
func (r *reader) peek() (byte, error) {
	for r.buffered() == 0 {
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	return r.buf[r.r], nil
}

// head is what the header of an answer says.
type head struct {
	status     int
	minor      int // of HTTP/1
	retryAfter string
	hasRetry   bool
	odd        bool // it is not written by the letter: the connection is not used again

	length    int64 // of the body; with hasLength
	hasLength bool
	digits    int // of the length
	encodings int // Transfer-Encoding fields
	chunked   bool
	close     bool
	keepAlive bool
	badTrail  bool // Trailer names a field of framing
	bad       error
}

// readHead reads headers up to that of the final answer.
func (r *reader) readHead() (head, error) {
	left := maxHead
	for {
		h, err := r.readOneHead(&left)
		if err != nil {
			if errors.Is(err, io.EOF) {
				if err = ErrClosed; r.got {
					err = errCutOff
				}
			}
			return h, err
		}
		if h.status >= 200 || h.status == 101 {
			return h, nil
		}
	}
}

func (r *reader) readOneHead(left *int) (h head, err error) {
	line, err := r.headLine(left, &h)
	if err != nil {
		return h, err
	}
	if err = h.statusLine(line); err != nil {
		return h, err
	}
	if c, err := r.peek(); err == nil && blank(c) {
		if _, err := r.headLine(left, &h); err != nil {
			return h, err
		}
		return h, malformedError("its first header line begins with a space")
	}
	for {
		line, err := r.headLine(left, &h)
		if err != nil {
			return h, err
		}
		if len(line) == 0 {
			return h, h.framing()
		}
		if bytes.IndexByte(line, ':') < 0 {
			return h, malformedError("a header line has no colon")
		}
		if line, err = r.unfold(line, left, &h); err != nil {
			return h, err
		}
		if err := h.field(line); err != nil {
			return h, err
		}
	}
}

// headLine returns a line of a header without its end.
func (r *reader) headLine(left *int, h *head) ([]byte, error) {
	line, err := r.line(*left)
	if err != nil {
		return nil, err
	}
	*left -= len(line)
	line = line[:len(line)-1]
	if n := len(line) - 1; n >= 0 && line[n] == '\r' {
		return line[:n], nil
	}
	h.odd = true
	return line, nil
}

// unfold appends the lines that continue one.
func (r *reader) unfold(line []byte, left *int, h *head) ([]byte, error) {
	// The line is in the buffer, where a read may overwrite it.
	if r.buffered() > 0 && !blank(r.buf[r.r]) {
		return trim(line), nil
	}
	line = bytes.Clone(trim(line))
	for {
		c, err := r.peek()
		if err != nil || !blank(c) {
			return line, err
		}
		h.odd = true
		more, err := r.headLine(left, h)
		if err != nil {
			return nil, err
		}
		line = append(append(line, ' '), trim(more)...)
	}
}

func blank(c byte) bool { return c == ' ' || c == '\t' }

func trim(b []byte) []byte { return bytes.Trim(b, " \t") }

// statusLine reads "HTTP/1.1 200 OK".
func (h *head) statusLine(line []byte) error {
	version, rest, ok := bytes.Cut(line, []byte{' '})
	if !ok {
		return malformedError("it does not begin with a status line")
	}
	code, _, _ := bytes.Cut(bytes.TrimLeft(rest, " "), []byte{' '})
	if len(code) != 3 || !digit(code[0]) || !digit(code[1]) || !digit(code[2]) || code[0] == '0' {
		return malformedError("its status is not a number of three digits")
	}
	h.status = 100*int(code[0]-'0') + 10*int(code[1]-'0') + int(code[2]-'0')
	minor, ok := bytes.CutPrefix(version, []byte("HTTP/1."))
	if !ok || len(minor) != 1 || !digit(minor[0]) {
		return malformedError("its version is not HTTP/1.0 or HTTP/1.1")
	}
	h.minor = int(minor[0] - '0')
	h.odd = h.odd || h.minor > 1
	return nil
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// cutField takes a header line apart, unfolded and trimmed. Odd: there is a space in the name, which
// net/http accepts as another name.
func cutField(line []byte) (name, value []byte, odd bool, err error) {
	name, value, _ = bytes.Cut(line, []byte{':'})
	value = bytes.TrimLeft(value, " \t")
	for _, c := range value {
		if c < ' ' && c != '\t' || c == 0x7f {
			return nil, nil, false, malformedError("a header line has a control character")
		}
	}
	if len(name) == 0 {
		return nil, nil, false, malformedError("a header line has no name")
	}
	for _, c := range name {
		if c == ' ' {
			odd = true
		} else if !tokenByte[c] {
			return nil, nil, false, malformedError("a header line has a name that is not one")
		}
	}
	return name, value, odd, nil
}

// field reads one line of the header, unfolded and trimmed.
func (h *head) field(line []byte) error {
	name, value, odd, err := cutField(line)
	if err != nil {
		return err
	}
	h.odd = h.odd || odd
	switch len(name) {
	case len("Trailer"):
		if is(name, "Trailer") {
			h.trailer(value)
		}
	case len("Connection"):
		if is(name, "Connection") {
			h.close = h.close || hasToken(value, "close")
			h.keepAlive = h.keepAlive || hasToken(value, "keep-alive")
		}
	case len("Retry-After"):
		if is(name, "Retry-After") && !h.hasRetry {
			h.retryAfter, h.hasRetry = string(value), true
		}
	case len("Content-Length"):
		if is(name, "Content-Length") {
			h.contentLength(value)
		}
	case len("Transfer-Encoding"):
		if is(name, "Transfer-Encoding") {
			h.encodings++
			h.chunked = is(value, "chunked")
		}
	}
	return nil
}

// is compares with a text in ASCII, in upper or lower case.
func is(b []byte, text string) bool {
	if len(b) != len(text) {
		return false
	}
	for i, c := range b {
		if lower(c) != lower(text[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// tokenByte are the bytes of a name (RFC 9110, 5.6.2).
var tokenByte = func() (ok [256]bool) {
	for c := range 256 {
		ok[c] = c < 0x80 && (alphanumeric(byte(c)) || strings.IndexByte("!#$%&'*+-.^_`|~", byte(c)) >= 0)
	}
	return ok
}()

// hasToken reports whether a list has a token.
func hasToken(list []byte, token string) bool {
	for part := range bytes.SplitSeq(list, []byte{','}) {
		if is(trim(part), token) {
			return true
		}
	}
	return false
}

func (h *head) trailer(value []byte) {
	for _, name := range [...]string{"Transfer-Encoding", "Trailer", "Content-Length"} {
		h.badTrail = h.badTrail || hasToken(value, name)
	}
}

func (h *head) contentLength(value []byte) {
	value = trim(value) // a folded line may end with a space
	n, err := strconv.ParseUint(string(value), 10, 63)
	switch {
	case err != nil:
		h.bad = malformedError("its Content-Length is not a number")
	case h.hasLength && (int64(n) != h.length || len(value) != h.digits):
		h.bad = malformedError("it has two different Content-Length")
	}
	h.odd = h.odd || h.hasLength
	h.length, h.digits, h.hasLength = int64(n), len(value), true
}

// framing checks what the fields say together about the end of the body.
func (h *head) framing() error {
	if h.minor == 0 && h.encodings > 0 { // HTTP/1.0 has no Transfer-Encoding
		h.odd, h.encodings, h.chunked = true, 0, false
	}
	switch {
	case h.bad != nil:
		return h.bad
	case h.encodings > 1 || h.encodings == 1 && !h.chunked:
		return malformedError("its Transfer-Encoding is not chunked")
	case h.chunked && h.badTrail:
		return malformedError("its Trailer names a field that cannot be in a trailer")
	}
	h.odd = h.odd || h.chunked && h.hasLength
	return nil
}

// mayReuse reports whether the header allows that the connection is used again.
func (h *head) mayReuse() bool {
	return !h.odd && !h.close && (h.minor == 1 || h.keepAlive) && h.status != 101
}

// bodyless reports whether the answer has no body.
func (h *head) bodyless() bool {
	return h.status < 200 || h.status == 204 || h.status == 304 || !h.chunked && h.hasLength && h.length == 0
}

// drain reads up to most bytes of the body of an answer, and appends up to keep of them to kept.
// Done: it read all of it, and nothing else has come.
func (r *reader) drain(h *head, most, keep int) (kept []byte, done bool) {
	k := keeper{keep: keep}
	switch {
	case h.bodyless():
		done = true
	case h.chunked:
		done = r.chunks(&k, most)
	case h.hasLength:
		done = r.take(&k, h.length, most)
	default: // until the connection ends
		r.take(&k, math.MaxInt64, most)
	}
	return k.kept, done && r.buffered() == 0 && !r.eof
}

type keeper struct {
	kept []byte
	keep int
}

func (k *keeper) add(b []byte) {
	b = b[:min(len(b), k.keep-len(k.kept))]
	if len(b) > 0 {
		k.kept = append(k.kept, b...)
	}
}

// take reads n bytes, but no more than most. It reports whether it read all of them.
func (r *reader) take(k *keeper, n int64, most int) bool {
	left := int(min(n, int64(most)))
	for left > 0 {
		if _, err := r.peek(); err != nil {
			return false
		}
		some := min(left, r.buffered())
		k.add(r.buf[r.r : r.r+some])
		r.r += some
		left -= some
	}
	return n <= int64(most)
}

// chunks reads a body in chunks (RFC 9112, 7.1), of at most most bytes, and no more beside them.
// Anything that is not written by the letter ends it.
func (r *reader) chunks(k *keeper, most int) bool {
	beside := most
	line := func() ([]byte, bool) {
		line, err := r.line(beside)
		if err != nil {
			return nil, false
		}
		beside -= len(line)
		return bytes.CutSuffix(line, []byte("\r\n"))
	}
	for {
		size, ok := line()
		if !ok {
			return false
		}
		size, _, extended := bytes.Cut(size, []byte{';'})
		if extended {
			size = bytes.TrimRight(size, " \t")
		}
		n, ok := hex(size)
		if !ok {
			return false
		}
		if n == 0 {
			break
		}
		if !r.take(k, n, most) {
			return false
		}
		most -= int(n)
		if end, ok := line(); !ok || len(end) > 0 {
			return false
		}
	}
	for { // the trailer, which means nothing
		field, ok := line()
		if !ok || len(field) == 0 {
			return ok
		}
		if _, _, odd, err := cutField(field); odd || err != nil || bytes.IndexByte(field, ':') < 0 {
			return false
		}
	}
}

// hex reads the size of a chunk.
func hex(b []byte) (n int64, ok bool) {
	if len(b) == 0 || len(b) > 15 {
		return 0, false
	}
	for _, c := range b {
		switch c = lower(c); {
		case digit(c):
			n = n<<4 | int64(c-'0')
		case c >= 'a' && c <= 'f':
			n = n<<4 | int64(c-'a'+10)
		default:
			return 0, false
		}
	}
	return n, true
}
