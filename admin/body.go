package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
)

// maxRequest is how many bytes the body of a request may have.
const maxRequest = 4 << 10

const mediaJSON = "application/json"

// noBody refuses a body where there is nothing to say in one.
func noBody(r *http.Request) error {
	var b [1]byte
	if n, _ := io.ReadFull(r.Body, b[:]); n > 0 {
		return badRequest("%s %s takes no body.", r.Method, r.URL.Path)
	}
	return nil
}

// readReplay reads the body of a replay.
func readReplay(r *http.Request) (ReplayRequest, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest+1))
	switch {
	case err != nil:
		return ReplayRequest{}, badRequest("The body did not come whole: %s.", err)
	case len(body) > maxRequest:
		return ReplayRequest{}, refuse(http.StatusRequestEntityTooLarge, "The body is longer than %d bytes.", maxRequest)
	case len(body) > 0 && !isJSON(r.Header):
		return ReplayRequest{}, refuse(http.StatusUnsupportedMediaType, "Send the body with Content-Type: %s, and without a Content-Encoding.", mediaJSON)
	}
	req, err := parseReplay(body)
	if err != nil {
		return req, badRequest(`The body is not {"since": "2026-01-31T00:00:00Z"}: %s.`, err)
	}
	return req, nil
}

func isJSON(h http.Header) bool {
	media, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	charset, named := params["charset"]
	return err == nil && media == mediaJSON && (!named || strings.EqualFold(charset, "utf-8")) && h.Get("Content-Encoding") == ""
}

// parseReplay reads one JSON object with the member "since", spelled like that,
// and no other.
func parseReplay(body []byte) (req ReplayRequest, err error) {
	d := json.NewDecoder(bytes.NewReader(body))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return req, errors.New("it does not begin with an object")
	}
	seen := false
	for d.More() {
		name, err := d.Token()
		switch {
		case err != nil:
			return req, err
		case name != "since":
			return req, fmt.Errorf("%q is not known here", name)
		case seen:
			return req, errors.New(`"since" comes twice`)
		}
		seen = true
		var s string
		if err := d.Decode(&s); err != nil {
			return req, fmt.Errorf(`"since": %w`, err)
		}
		if req.Since, err = parseDatetime(s); err != nil {
			return req, fmt.Errorf(`"since": %w`, err)
		}
	}
	if _, err := d.Token(); err != nil {
		return req, fmt.Errorf("it does not end: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return req, errors.New("something follows the object")
	}
	if !seen {
		return req, errors.New(`"since" is missing`)
	}
	return req, nil
}

// parseDatetime reads a W3C datetime with a time and its zone; seconds may be
// left out.
func parseDatetime(s string) (t time.Time, err error) {
	const minutes = len("2006-01-02T15:04")
	whole := s
	if len(s) > minutes && strings.ContainsRune("Z+-", rune(s[minutes])) {
		whole = s[:minutes] + ":00" + s[minutes:]
	}
	if err := t.UnmarshalText([]byte(whole)); err != nil {
		return time.Time{}, fmt.Errorf("%q is not a datetime with a zone, as 2026-01-31T12:00:00Z or 2026-01-31T13:00:00+01:00 are", s)
	}
	return t, nil
}
