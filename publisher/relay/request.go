package relay

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rshub/rshub/internal/base/strictjson"
	"github.com/rshub/rshub/publisher/source"
)

// reader reads what applications send as JSON.
type reader struct{ *strictjson.Reader }

func read(text []byte) (*reader, error) {
	r, err := strictjson.New(text)
	return &reader{r}, err
}

// change reads a change, which is an object.
func (r *reader) change(prefixes []string) (source.Given, error) {
	var c written
	if err := r.Object(c.fields(r)); err != nil {
		return source.Given{}, err
	}
	return c.announced(prefixes)
}

// changes reads a list of changes.
func (r *reader) changes(prefixes []string) (all []source.Given, err error) {
	err = r.List(func() error {
		if len(all) == MaxChanges {
			return fmt.Errorf("it has more than %d changes; send them in several requests", MaxChanges)
		}
		err := errors.New("it is not an object, such as {\"change\":\"updated\",\"url\":\"https://example.org/a\"}")
		var g source.Given
		if r.Kind() == '{' {
			g, err = r.change(prefixes)
		}
		if err != nil {
			return fmt.Errorf("change %d of the list: %w; none of the list is recorded", len(all)+1, err)
		}
		all = append(all, g)
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case len(all) == 0:
		return nil, errors.New("the list has no changes")
	}
	return all, nil
}

// parseJSON reads one change or a list of changes.
func parseJSON(body []byte, prefixes []string) ([]source.Given, error) {
	r, err := read(body)
	if err != nil {
		return nil, err
	}
	switch r.Kind() {
	case '{':
		g, err := r.change(prefixes)
		return []source.Given{g}, err
	case '[':
		return r.changes(prefixes)
	}
	return nil, errors.New("it has to be a change, as an object, or a list of them")
}

// parseForm reads one change.
func parseForm(body []byte, prefixes []string) ([]source.Given, error) {
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, &notForm{err}
	}
	for name, values := range form {
		switch {
		case !slices.Contains(formFields, name):
			return nil, strictjson.Unknown(name, formFields)
		case len(values) > 1:
			return nil, fmt.Errorf("the field %q is there %d times; a form is one change, and JSON can be a list of them", name, len(values))
		case strings.ContainsFunc(values[0], isControl):
			return nil, fmt.Errorf("the field %q has a control character", name)
		}
	}
	c := written{
		url: form.Get("url"), change: form.Get("change"), hash: form.Get("hash"), mediaType: form.Get("type"),
		encoding: form.Get("encoding"), lastMod: form.Get("lastmod"),
	}
	if text := form.Get("length"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the field %q is %q, which is not a whole number", "length", strictjson.Shorten(text))
		}
		c.length = &n
	}
	e, err := c.announced(prefixes)
	return []source.Given{e}, err
}

// notForm is the error of a body that is no form.
type notForm struct{ err error }

func (e *notForm) Error() string { return fmt.Sprintf("it is not a form: %v", e.err) }

func isControl(r rune) bool { return r < ' ' || r == 0x7F || r == utf8.RuneError }

// line is a line of standard input: one change with its fields, or several in "changes".
type line struct {
	id      string
	changes []source.Given
}

// parseLine reads a line. It returns the id even with an error, unless the line is no JSON.
func parseLine(text []byte, prefixes []string) (l line, err error) {
	r, err := read(text)
	if err != nil {
		return l, err
	}
	if r.Kind() != '{' {
		return l, errors.New("it has to be an object, such as {\"id\":\"1\",\"change\":\"updated\",\"url\":\"https://example.org/a\"}")
	}
	var c written
	fields := append(c.fields(r), strictjson.Field{Name: "id", Into: &l.id}, strictjson.Field{Name: "changes", Into: func() (err error) {
		if r.Kind() != '[' {
			return errors.New(`the field "changes" has to be a list`)
		}
		l.changes, err = r.changes(prefixes)
		return err
	}})
	if err = r.Object(fields); err != nil {
		return l, err
	}
	switch {
	case l.changes != nil && !c.empty():
		err = errors.New(`it has "changes" and fields of a change as well; write one or the other`)
	case l.changes == nil:
		var e source.Given
		if e, err = c.announced(prefixes); err == nil {
			l.changes = []source.Given{e}
		}
	}
	return l, err
}

// maxKey is how long the name of a request may be.
const maxKey = 255

// checkKey refuses a name that nobody could print.
func checkKey(what, key string) error {
	if len(key) > maxKey {
		return fmt.Errorf("%s has %d bytes, and may have %d", what, len(key), maxKey)
	}
	if strings.ContainsFunc(key, isControl) {
		return fmt.Errorf("%s has a control character", what)
	}
	return nil
}
