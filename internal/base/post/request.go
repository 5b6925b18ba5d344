package post

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// Request is one POST.
type Request struct {
	// URL is an absolute http or https URL.
	URL string
	// Head has the fields that are the same for many requests, and Own those of this one.
	// Post adds Host and Content-Length.
	Head *Head
	Own  []Field
	// Body is sent as it is. It must not change until Post returns, and is not used after
	// that.
	Body []byte

	// Stall is how long the other side may make no progress: read nothing more of the body,
	// or not answer. Whole is how long the exchange may take. Both have to be above 0.
	Stall, Whole time.Duration
	// Rest is how long the exchange may go on once the header of the answer is there. It is
	// no reason for an error.
	Rest time.Duration
	// Read is how many bytes of the body of an answer are read at most, so that the
	// connection can be used again. Keep is how many are returned if the status is not 2xx.
	Read, Keep int
}

// Field is a field of a header. Its name is sent as it is spelled.
type Field struct{ Name, Value string }

// Head is the part of a request's header that is the same for many requests. It may be shared
// between goroutines.
type Head struct {
	fields []Field
	text   []byte // the fields as they are sent
	err    error
}

// NewHead returns a Head of some fields. If one is not valid, each request with it fails.
func NewHead(fields ...Field) *Head {
	size := 0
	for _, f := range fields {
		if err := f.check(); err != nil {
			return &Head{err: err}
		}
		size += len(f.Name) + len(f.Value) + len(": \r\n")
	}
	h := &Head{fields: fields, text: make([]byte, 0, size)}
	for _, f := range fields {
		h.text = f.appendTo(h.text)
	}
	return h
}

// Bytes is about how much memory h takes.
func (h *Head) Bytes() int { return 2 * len(h.text) }

func (f Field) check() error {
	if !httpguts.ValidHeaderFieldName(f.Name) || !httpguts.ValidHeaderFieldValue(f.Value) {
		return fmt.Errorf("the value of the header field %q cannot be sent: it has a control character", f.Name)
	}
	return nil
}

func (f Field) appendTo(b []byte) []byte {
	b = append(append(b, f.Name...), ": "...)
	return append(append(b, f.Value...), "\r\n"...)
}

// Answer is the answer to a Request.
type Answer struct {
	Status int
	// RetryAfter is the value of the first Retry-After; empty: there is none.
	RetryAfter string
	// Body is the beginning of the body, where the status is not 2xx (Request.Keep).
	Body []byte
}

func success(status int) bool { return status >= 200 && status <= 299 }

// SlowError says that an exchange was ended because of Request.Stall or Request.Whole.
type SlowError struct {
	After   time.Duration
	Stalled bool
}

func (e *SlowError) Error() string {
	if e.Stalled {
		return fmt.Sprintf("the callback made no progress for %v", e.After)
	}
	return fmt.Sprintf("the exchange took longer than %v", e.After)
}

// Timeout says that the error is a timeout, as those of package net do.
func (e *SlowError) Timeout() bool { return true }

// target is the URL of a request in parts.
type target struct {
	origin string // scheme, host and port as they stand in the URL
	secure bool
	host   string // the value of Host
	path   string // with the query; it may have to begin with "/"
}

// ErrNotPlain says that a URL is for HTTP to send to. A Pool sends to an http or https URL with a
// host in ASCII, without user name or fragment, which is sent as it is written.
var ErrNotPlain = errors.New("the URL has an unusual form")

// parse takes a plain URL apart.
func parse(url string) (t target, ok bool) {
	rest, secure := strings.CutPrefix(url, "https://")
	if !secure {
		if rest, ok = strings.CutPrefix(url, "http://"); !ok {
			return t, false
		}
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	t = target{origin: url[:len(url)-len(rest)+end], secure: secure, host: rest[:end], path: rest[end:]}
	return t, plainHost(t.host) && plainPath(t.path)
}

// plainHost reports whether host is a name or an address with or without a port.
func plainHost(host string) bool {
	name, port := host, "1"
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		name, port = host[:i], host[i+1:]
	}
	if port == "" || len(port) > 5 || strings.Trim(port, "0123456789") != "" {
		return false
	}
	if inner, ok := strings.CutPrefix(name, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		addr, err := netip.ParseAddr(inner)
		return ok && err == nil && addr.Is6() && addr.Zone() == ""
	}
	for i := range len(name) {
		if c := name[i]; !alphanumeric(c) && c != '.' && c != '-' && c != '_' {
			return false
		}
	}
	return name != ""
}

func alphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// plainPath reports whether a path with its query is sent as it is written.
func plainPath(path string) bool {
	if strings.HasPrefix(path, "//") {
		return false
	}
	query := false
	for i := 0; i < len(path); i++ {
		switch c := path[i]; {
		case c <= ' ' || c >= 0x7f || c == '#':
			return false
		case c == '?':
			query = true
		case c == '%' && !query && (i+2 >= len(path) || !hexDigit(path[i+1]) || !hexDigit(path[i+2])):
			return false
		}
	}
	return true
}

func hexDigit(c byte) bool { return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f' }

// addr is the host:port to connect to.
func (t target) addr() string {
	switch {
	case strings.LastIndexByte(t.host, ':') > strings.LastIndexByte(t.host, ']'):
		return t.host
	case t.secure:
		return t.host + ":443"
	default:
		return t.host + ":80"
	}
}

// check checks what is sent.
func (r *Request) check() error {
	if r.Head.err != nil {
		return r.Head.err
	}
	for _, f := range r.Own {
		if err := f.check(); err != nil {
			return err
		}
	}
	return nil
}

// appendHead appends the header of a request.
func (r *Request) appendHead(b []byte, t target) []byte {
	b = append(b, "POST "...)
	if t.path == "" || t.path[0] != '/' {
		b = append(b, '/')
	}
	b = append(append(b, t.path...), " HTTP/1.1\r\nHost: "...)
	b = append(append(b, t.host...), "\r\n"...)
	b = append(b, r.Head.text...)
	for _, f := range r.Own {
		b = f.appendTo(b)
	}
	b = append(b, "Content-Length: "...)
	b = strconv.AppendInt(b, int64(len(r.Body)), 10)
	return append(b, "\r\n\r\n"...)
}
