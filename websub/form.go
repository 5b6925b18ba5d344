package websub

import (
	"bytes"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// MaxParams is how many parameters a form may have, known or not.
	MaxParams = 256
	// MaxFormBytes is room enough for every form that is within the other limits: a ping
	// of MaxPing topics of MaxURL bytes, all percent-encoded. ParseForm does not check
	// it: a server need not read more of a body. A hub without pings needs less.
	MaxFormBytes = 1 << 20
)

// FormError says what is wrong with a request, so that a hub can answer it with
// 400 and one plain sentence (HUB-14).
type FormError struct {
	// Param is the parameter at fault, empty if it is the form as a whole.
	Param string
	// Reason continues the parameter's name: what is wrong with it, and what to send
	// instead.
	Reason string
}

// Error returns the whole sentence, without a full stop. It never contains a secret or a
// URL.
func (e *FormError) Error() string {
	if e.Param == "" {
		return "the form " + e.Reason
	}
	return e.Param + " " + e.Reason
}

func formError(param, format string, args ...any) error {
	return &FormError{Param: param, Reason: fmt.Sprintf(format, args...)}
}

// Form has the parameters of a form, in its order and with all repeats. The zero Form is
// empty.
type Form struct{ params []Param }

// ParseForm decodes the body of a request of type
// application/x-www-form-urlencoded, once and once only (HUB-01, HUB-10). An
// error is a *FormError: more than MaxParams parameters, a broken percent
// escape, or text that is not UTF-8. Any & separates, a semicolon does not.
func ParseForm(body []byte) (Form, error) {
	// Count before decoding anything, so that a refusal costs next to nothing.
	if n := bytes.Count(body, []byte("&")) + 1; n > MaxParams {
		return Form{}, formError("", "has %d parameters, and %d are the most that are read: send only those that the request needs", n, MaxParams)
	}
	var f Form
	for piece := range strings.SplitSeq(string(body), "&") {
		if piece == "" {
			continue
		}
		rawName, rawValue, _ := strings.Cut(piece, "=")
		name, reason := decode(rawName)
		if reason != "" {
			return Form{}, formError("", "has a parameter name that %s", reason)
		}
		value, reason := decode(rawValue)
		if reason != "" {
			return Form{}, formError(show(name), "%s", reason)
		}
		f.params = append(f.params, Param{name, value})
	}
	return f, nil
}

// decode undoes the form encoding, or returns why it cannot.
func decode(s string) (decoded, reason string) {
	decoded, err := url.QueryUnescape(s)
	switch {
	case err != nil:
		return "", "has a broken percent escape: follow each % with two hexadecimal digits, and send a % that stands for itself as %25"
	case !utf8.ValidString(decoded):
		return "", "is not UTF-8 once it is decoded: send the form in UTF-8"
	}
	return decoded, ""
}

// show prepares text of a stranger for a sentence: short, and quoted unless it looks like
// a parameter's name.
func show(s string) string {
	const most = 40
	if len(s) <= most && isToken(s) {
		return s
	}
	return quote(s, most)
}

// quote quotes the first bytes of s, which may be anything, in ASCII.
func quote(s string, most int) string {
	if len(s) <= most {
		return strconv.QuoteToASCII(s)
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return strconv.QuoteToASCII(s[:most]) + "..."
}

// All returns the values of a parameter in the order they were sent, nil if it was not
// sent.
func (f Form) All(name string) []string {
	var values []string
	for _, p := range f.params {
		if p.Name == name {
			values = append(values, p.Value)
		}
	}
	return values
}

// One returns the value of a parameter that has one, and whether it was sent. A parameter
// that is sent again with the same value still has one. With another value it is
// ambiguous, and the error is a *FormError (HUB-09).
func (f Form) One(name string) (value string, sent bool, err error) {
	for _, p := range f.params {
		switch {
		case p.Name != name:
		case !sent:
			value, sent = p.Value, true
		case p.Value != value:
			return "", true, formError(name, "is there more than once with different values: send it once")
		}
	}
	return value, sent, nil
}

// Mode returns hub.mode, which is ModeSubscribe, ModeUnsubscribe or ModePublish;
// an error is a *FormError (HUB-03).
func (f Form) Mode() (Mode, error) {
	const send = "send subscribe, unsubscribe or publish, in lower case"
	value, sent, err := f.One(ParamMode)
	switch m := Mode(value); {
	case err != nil:
		return "", err
	case !sent:
		return "", formError(ParamMode, "is missing in the body of the request: %s", send)
	case m != ModeSubscribe && m != ModeUnsubscribe && m != ModePublish:
		return "", formError(ParamMode, "is %s: %s", quote(value, 40), send)
	default:
		return m, nil
	}
}
