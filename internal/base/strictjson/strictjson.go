package strictjson

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rshub/rshub/internal/base/excerpt"
	"github.com/rshub/rshub/internal/base/nearest"
)

// Malformed is the error of text that is no JSON. It wraps io.ErrUnexpectedEOF if the text ends too early, and
// ErrMore if something follows.
type Malformed struct {
	text  string
	cause error
}

func (e *Malformed) Error() string { return e.text }

// Unwrap returns the cause.
func (e *Malformed) Unwrap() error { return e.cause }

// ErrMore says that something follows the JSON value.
var ErrMore = errors.New("something follows the end of the JSON")

// Field is a field of an object. Into is where its value goes: a *string, *bool or *int, a **int64, which
// stays nil if the field is absent, or a func() error, which reads the value itself.
type Field struct {
	Name string
	Into any
}

// Reader reads a JSON value from memory, which has to stay as it is meanwhile. It is for one goroutine.
type Reader struct {
	text []byte // it is valid
	at   int
}

// New returns a Reader of text. The error is a *Malformed.
func New(text []byte) (*Reader, error) {
	if !utf8.Valid(text) {
		return nil, &Malformed{text: "it is not UTF-8"}
	}
	if !json.Valid(text) {
		return nil, malformed(text)
	}
	return &Reader{text: text}, nil
}

// malformed says why text is no JSON value.
func malformed(text []byte) error {
	var value json.RawMessage
	err := json.NewDecoder(bytes.NewReader(text)).Decode(&value)
	var at *json.SyntaxError
	switch {
	case err == nil:
		return &Malformed{ErrMore.Error(), ErrMore}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &Malformed{"it is not JSON: it ends too early", io.ErrUnexpectedEOF}
	case errors.As(err, &at):
		return &Malformed{fmt.Sprintf("it is not JSON: %v, at byte %d", at, at.Offset), err}
	}
	return &Malformed{fmt.Sprintf("it is not JSON: %v", err), err}
}

// Kind returns the first byte of the next value, which it does not read: one of {, [, ", t, f, n, - and the digits.
func (r *Reader) Kind() byte {
	for r.at < len(r.text) {
		switch b := r.text[r.at]; b {
		case ' ', '\t', '\n', '\r':
			r.at++
		default:
			return b
		}
	}
	return 0
}

// Null reads a null. If something else is next, it returns false and reads nothing.
func (r *Reader) Null() bool {
	if r.Kind() != 'n' {
		return false
	}
	r.skip()
	return true
}

// Object reads an object, whose Kind was seen. The error is about the first field that is wrong; the others were
// read.
func (r *Reader) Object(fields []Field) (err error) {
	var few [16]bool // most objects have no more fields
	seen := append(few[:0], make([]bool, len(fields))...)
	r.at++
	for r.Kind() != '}' {
		name := r.bytes()
		r.Kind()
		r.at++ // the colon
		r.Kind()
		value := r.at
		if failed := r.field(name, fields, seen); failed != nil {
			err = cmp.Or(err, failed)
			r.at = value
			r.skip()
		}
		if r.Kind() == ',' {
			r.at++
		}
	}
	r.at++
	return err
}

// List reads a list, whose Kind was seen. It calls each for each value, which each has to read. It ends with the first
// error of each.
func (r *Reader) List(each func() error) error {
	r.at++
	for r.Kind() != ']' {
		if err := each(); err != nil {
			return err
		}
		if r.Kind() == ',' {
			r.at++
		}
	}
	r.at++
	return nil
}

// field reads the value of a field.
func (r *Reader) field(name []byte, fields []Field, seen []bool) error {
	i := slices.IndexFunc(fields, func(f Field) bool { return f.Name == string(name) })
	switch {
	case i < 0:
		names := make([]string, len(fields))
		for i := range fields {
			names[i] = fields[i].Name
		}
		return Unknown(string(name), names)
	case seen[i]:
		return fmt.Errorf("the field %q is there twice", name)
	}
	seen[i] = true
	if read, ok := fields[i].Into.(func() error); ok {
		return read()
	}
	if r.Null() {
		return nil
	}
	is := ""
	switch into := fields[i].Into.(type) {
	case *string:
		if r.Kind() == '"' {
			*into = r.string()
			return nil
		}
		is = "a string"
	case *bool:
		if k := r.Kind(); k == 't' || k == 'f' {
			*into = k == 't'
			r.skip()
			return nil
		}
		is = "true or false"
	case *int:
		if n, ok := r.number(strconv.IntSize); ok {
			*into = int(n)
			return nil
		}
		is = "a whole number"
	case **int64:
		if n, ok := r.number(64); ok {
			*into = &n
			return nil
		}
		is = "a whole number"
	default:
		panic(fmt.Sprintf("strictjson: a field cannot be a %T", into))
	}
	return fmt.Errorf("the field %q has to be %s, and is %s", name, is, r.Is())
}

// number reads a whole number of at most some bits. If something else is next, it reads nothing.
func (r *Reader) number(bits int) (int64, bool) {
	if k := r.Kind(); k != '-' && (k < '0' || k > '9') {
		return 0, false
	}
	begin := r.at
	r.skip()
	n, err := strconv.ParseInt(string(r.text[begin:r.at]), 10, bits)
	if err != nil {
		r.at = begin
	}
	return n, err == nil
}

// Is says what the next value is, for people.
func (r *Reader) Is() string {
	switch r.Kind() {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "a bool"
	case 'n':
		return "null"
	}
	begin := r.at
	r.skip()
	text := string(r.text[begin:r.at])
	r.at = begin
	return "the number " + Shorten(text)
}

// string reads a string.
func (r *Reader) string() string { return string(r.bytes()) }

// bytes reads a string. Its bytes may be those of the text.
func (r *Reader) bytes() []byte {
	begin, escaped := r.at, false
	for r.at++; r.text[r.at] != '"'; r.at++ {
		if r.text[r.at] == '\\' {
			escaped = true
			r.at++
		}
	}
	r.at++
	if !escaped {
		return r.text[begin+1 : r.at-1]
	}
	var s string
	_ = json.Unmarshal(r.text[begin:r.at], &s) // it is valid
	return []byte(s)
}

// skip reads a value.
func (r *Reader) skip() {
	for depth := 0; ; {
		switch r.Kind() {
		case '{', '[':
			depth++
			r.at++
		case '}', ']':
			depth--
			r.at++
		case ',', ':':
			r.at++
			continue
		case '"':
			for r.at++; r.text[r.at] != '"'; r.at++ {
				if r.text[r.at] == '\\' {
					r.at++
				}
			}
			r.at++
		default: // a number, or a word
			for r.at < len(r.text) && !strings.ContainsRune(" \t\n\r,:]}", rune(r.text[r.at])) {
				r.at++
			}
		}
		if depth == 0 {
			return
		}
	}
}

// Unknown is the error of a field that is none of the known ones.
func Unknown(name string, known []string) error {
	return fmt.Errorf("there is no field %q%s (the fields are %s)", Shorten(name), nearest.DidYouMean(name, known), strings.Join(known, ", "))
}

// longestQuoted is how many bytes of a value an error quotes.
const longestQuoted = 100

// Shorten returns what an error quotes of a value.
func Shorten(s string) string { return excerpt.Cut(s, longestQuoted) }
