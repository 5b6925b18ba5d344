package relay

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rshub/rshub/publisher/source"
)

// change reads the rest of a change whose brace was read.
func (r *reader) change(prefixes []string, more ...field) (source.Given, error) {
	var c written
	if err := r.object(append(c.fields(r), more...)); err != nil {
		return source.Given{}, err
	}
	return c.announced(prefixes)
}

// changes reads the rest of a list of changes whose bracket was read.
func (r *reader) changes(prefixes []string) (all []source.Given, err error) {
	for r.dec.More() {
		if len(all) == MaxChanges {
			return nil, fmt.Errorf("it has more than %d changes; send them in several requests", MaxChanges)
		}
		ok, err := r.begins('{')
		var e source.Given
		switch {
		case err == nil && !ok:
			err = errors.New("it is not an object, such as {\"change\":\"updated\",\"url\":\"https://example.org/a\"}")
		case err == nil:
			e, err = r.change(prefixes)
		}
		if err != nil {
			return nil, numbered(len(all)+1, err)
		}
		all = append(all, e)
	}
	if _, err = r.dec.Token(); err != nil {
		return nil, syntax(err)
	}
	if len(all) == 0 {
		return nil, errors.New("the list has no changes")
	}
	return all, nil
}

// numbered says which change of a list an error is about.
func numbered(n int, err error) error {
	if bad := (*malformed)(nil); errors.As(err, &bad) {
		return err
	}
	return fmt.Errorf("change %d of the list: %w; none of the list is recorded", n, err)
}

// parseJSON reads one change or a list of changes.
func parseJSON(body []byte, prefixes []string) ([]source.Given, error) {
	r, err := read(body)
	if err != nil {
		return nil, err
	}
	t, err := r.dec.Token()
	if err != nil {
		return nil, syntax(err)
	}
	var all []source.Given
	switch t {
	case json.Token(json.Delim('{')):
		all = make([]source.Given, 1)
		all[0], err = r.change(prefixes)
	case json.Token(json.Delim('[')):
		all, err = r.changes(prefixes)
	default:
		err = errors.New("it has to be a change, as an object, or a list of them")
	}
	if err == nil {
		err = r.end()
	}
	return all, err
}

// parseForm reads one change.
func parseForm(body []byte, prefixes []string) ([]source.Given, error) {
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, malformedf("it is not a form: %v", err)
	}
	for name, values := range form {
		switch {
		case !slices.Contains(formFields, name):
			return nil, unknown(name, formFields)
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
			return nil, fmt.Errorf("the field %q is %q, which is not a whole number", "length", shorten(text))
		}
		c.length = &n
	}
	e, err := c.announced(prefixes)
	return []source.Given{e}, err
}

func isControl(r rune) bool { return r < ' ' || r == 0x7F || r == utf8.RuneError }

// line is a line of standard input: one change with its fields, or several in "changes".
type line struct {
	id      string
	changes []source.Given
}

// parseLine reads a line. It returns the id even with an error, if it was read before it.
func parseLine(text []byte, prefixes []string) (l line, err error) {
	r, err := read(text)
	if err != nil {
		return l, err
	}
	ok, err := r.begins('{')
	if err == nil && !ok {
		err = errors.New("it has to be an object, such as {\"id\":\"1\",\"change\":\"updated\",\"url\":\"https://example.org/a\"}")
	}
	if err != nil {
		return l, err
	}
	var c written
	fields := append(c.fields(r), field{"id", &l.id, "a string"}, field{"changes", func() error {
		ok, err := r.begins('[')
		if err == nil && !ok {
			err = errors.New(`the field "changes" has to be a list`)
		}
		if err == nil {
			l.changes, err = r.changes(prefixes)
		}
		return err
	}, "a list"})
	if err = r.object(fields); err != nil {
		return l, err
	}
	if err = r.end(); err != nil {
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
