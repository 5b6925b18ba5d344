package relay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rshub/rshub/internal/base/nearest"
)

// malformed is the error of bytes that are not what their type says.
type malformed struct{ text string }

func (e *malformed) Error() string { return e.text }

func malformedf(format string, args ...any) error {
	return &malformed{fmt.Sprintf(format, args...)}
}

// field is a field of a JSON object: where its value goes, and what it has to be.
type field struct {
	name string
	into any
	is   string // "a string", for people
}

// reader reads JSON more strictly than package json does: a name is written exactly as it is
// known, and stands once.
type reader struct{ dec *json.Decoder }

// read returns a reader of text, which has to be UTF-8.
func read(text []byte) (*reader, error) {
	if !utf8.Valid(text) {
		return nil, malformedf("it is not UTF-8")
	}
	return &reader{json.NewDecoder(bytes.NewReader(text))}, nil
}

// begins reports whether the next value begins with a bracket, which it reads.
func (r *reader) begins(bracket json.Delim) (bool, error) {
	t, err := r.dec.Token()
	if err != nil {
		return false, syntax(err)
	}
	return t == bracket, nil
}

// end wants nothing more.
func (r *reader) end() error {
	if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
		return malformedf("something follows the end of the JSON")
	}
	return nil
}

// object reads the rest of an object whose brace was read.
func (r *reader) object(fields []field) error {
	seen := make([]bool, len(fields))
	for r.dec.More() {
		t, err := r.dec.Token()
		if err != nil {
			return syntax(err)
		}
		name, _ := t.(string) // no other token stands here
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		switch {
		case i < 0:
			return unknown(name, namesOf(fields))
		case seen[i]:
			return fmt.Errorf("the field %q is there twice", name)
		}
		seen[i] = true
		if err := r.value(&fields[i]); err != nil {
			return err
		}
	}
	_, err := r.dec.Token()
	return syntax(err)
}

// value reads the value of a field.
func (r *reader) value(f *field) error {
	if read, ok := f.into.(func() error); ok {
		return read()
	}
	err := r.dec.Decode(f.into)
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		return fmt.Errorf("the field %q has to be %s, and is %s", f.name, f.is, article(wrong.Value))
	}
	return syntax(err)
}

// article puts an article before what package json calls a value.
func article(value string) string {
	switch {
	case strings.HasPrefix(value, "number "):
		return "the " + value
	case value == "array" || value == "object":
		return "an " + value
	}
	return "a " + value
}

func namesOf(fields []field) []string {
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].name
	}
	return names
}

// unknown is the error of a field that nobody knows.
func unknown(name string, known []string) error {
	return fmt.Errorf("there is no field %q%s (the fields are %s)", shorten(name), nearest.DidYouMean(name, known), strings.Join(known, ", "))
}

// syntax is the error of text that is no JSON.
func syntax(err error) error {
	var at *json.SyntaxError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &at):
		return malformedf("it is not JSON: %v, at byte %d", at, at.Offset)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return malformedf("it is not JSON: it ends too early")
	}
	return malformedf("it is not JSON: %v", err)
}

// longestQuoted is how many bytes of a value an error quotes.
const longestQuoted = 100

func shorten(s string) string {
	if len(s) <= longestQuoted {
		return s
	}
	return strings.ToValidUTF8(s[:longestQuoted], "") + "..."
}
