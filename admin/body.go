package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"
)

// maxRequest is how many bytes the body of a request may have.
const maxRequest = 4 << 10

const mediaJSON = "application/json"

// noBody refuses any body except an empty one and {}, which many clients send with every
// POST.
func noBody(r *http.Request) error {
	body, err := readBody(r)
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	if err := parseObject(body, func(name string, _ *json.Decoder) error {
		return fmt.Errorf("%q is not known here", name)
	}); err != nil {
		return badRequest("%s %s accepts no body, or {}: %s.", r.Method, r.URL.Path, err)
	}
	return nil
}

// readBody reads a body of maxRequest bytes at most.
func readBody(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest+1))
	switch {
	case err != nil:
		return nil, badRequest("The body did not come whole: %s.", err)
	case len(body) > maxRequest:
		return nil, refuse(http.StatusRequestEntityTooLarge, "The body is longer than %d bytes.", maxRequest)
	}
	return body, nil
}

// readReplay reads the body of a replay.
func readReplay(r *http.Request) (req ReplayRequest, err error) {
	const example = `{"since": "2026-01-31T00:00:00Z"}`
	err = readObject(r, example, members{"since": &req.Since}, "since")
	return req, err
}

// readObject reads a body that is one JSON object with some of these members, and all of
// those that are needed.
func readObject(r *http.Request, example string, known members, needed ...string) error {
	body, err := readBody(r)
	switch {
	case err != nil:
		return err
	case len(body) > 0 && !isJSON(r.Header):
		return refuse(http.StatusUnsupportedMediaType, "Send the body with Content-Type: %s, and without a Content-Encoding.", mediaJSON)
	}
	if err := known.parse(body, needed...); err != nil {
		return badRequest("The body is not %s: %s.", example, err)
	}
	return nil
}

func isJSON(h http.Header) bool {
	media, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	charset, named := params["charset"]
	return err == nil && media == mediaJSON && (!named || strings.EqualFold(charset, "utf-8")) && h.Get("Content-Encoding") == ""
}

// members says where the values of an object go: a *time.Time gets a datetime, and any other
// pointer what encoding/json decodes. Names count in this spelling, and each comes once at
// most.
type members map[string]any

// parse reads one JSON object.
func (m members) parse(body []byte, needed ...string) error {
	var seen []string
	err := parseObject(body, func(name string, d *json.Decoder) error {
		into := m[name]
		switch {
		case into == nil:
			return fmt.Errorf("%q is not known here", name)
		case slices.Contains(seen, name):
			return fmt.Errorf("%q comes twice", name)
		}
		seen = append(seen, name)
		at, isTime := into.(*time.Time)
		var text string
		if isTime {
			into = &text
		}
		err := d.Decode(into)
		if err == nil && isTime {
			*at, err = parseDatetime(text)
		}
		if err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
		return nil
	})
	for _, name := range needed {
		if err == nil && !slices.Contains(seen, name) {
			err = fmt.Errorf("%q is missing", name)
		}
	}
	return err
}

// parseObject reads one JSON object. It calls member to decode each value.
func parseObject(body []byte, member func(name string, d *json.Decoder) error) error {
	d := json.NewDecoder(bytes.NewReader(body))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.New("it does not begin with an object")
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := t.(string) // nothing else stands there
		if err := member(name, d); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("it does not end: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the object")
	}
	return nil
}

// parseDatetime reads a W3C datetime with a time and its zone; seconds may be
// left out. It refuses the instant that stands for none (DOC-13).
func parseDatetime(s string) (t time.Time, err error) {
	const minutes = len("2006-01-02T15:04")
	whole := s
	if len(s) > minutes && strings.ContainsRune("Z+-", rune(s[minutes])) {
		whole = s[:minutes] + ":00" + s[minutes:]
	}
	if err := t.UnmarshalText([]byte(whole)); err != nil {
		return time.Time{}, fmt.Errorf("%q is not a datetime with a zone, as 2026-01-31T12:00:00Z or 2026-01-31T13:00:00+01:00 are", s)
	}
	if t.IsZero() { // programs send it for a time that they did not set
		return t, fmt.Errorf("%q stands for no time", s)
	}
	return t, nil
}
