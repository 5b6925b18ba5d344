package websub

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// parse is ParseForm of a body that is good.
func parse(t *testing.T, body string) Form {
	t.Helper()
	f, err := ParseForm([]byte(body))
	if err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	return f
}

// refused checks that err is a *FormError about param whose sentence has the
// given words.
func refused(t *testing.T, err error, param, words string) {
	t.Helper()
	var fe *FormError
	if !errors.As(err, &fe) {
		t.Fatalf("error %v, want a *FormError about %q", err, param)
	}
	if fe.Param != param || !strings.Contains(fe.Error(), words) {
		t.Fatalf("param %q, sentence %q; want %q and %q in it", fe.Param, fe, param, words)
	}
	checkSentence(t, fe)
}

// checkSentence checks what every sentence has to be: short, one line, ASCII,
// and with advice after a colon (HUB-14).
func checkSentence(t *testing.T, err error) {
	t.Helper()
	s := err.Error()
	if len(s) > 350 || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) || !strings.Contains(s, ": ") {
		t.Errorf("not a sentence for a stranger: %q", s)
	}
}

// HUB-01: the form encoding, its order and its repeats.
func TestParseForm(t *testing.T) {
	for _, test := range []struct {
		body string
		want []Param
	}{
		{"", nil},
		{"&&", nil},
		{"a=1", []Param{{"a", "1"}}},
		{"a=1&b=2&a=3&", []Param{{"a", "1"}, {"b", "2"}, {"a", "3"}}},
		{"a", []Param{{"a", ""}}},
		{"a=b=c", []Param{{"a", "b=c"}}},
		{"=x", []Param{{"", "x"}}},
		{"a=b;c=d", []Param{{"a", "b;c=d"}}},
		{"a+b=c+d%2B", []Param{{"a b", "c d+"}}},
		{"hub%2Etopic=%C3%BC", []Param{{"hub.topic", "ü"}}},
		{"a=\xc3\xbc", []Param{{"a", "ü"}}},
	} {
		if f := parse(t, test.body); !slices.Equal(f.params, test.want) {
			t.Errorf("%q: %q, want %q", test.body, f.params, test.want)
		}
	}
}

// HUB-01: UTF-8, and escapes that are escapes.
func TestParseFormRefuses_HUB01(t *testing.T) {
	for _, test := range []struct{ body, param, words string }{
		{"hub.topic=%zz", "hub.topic", "percent escape"},
		{"hub.topic=%2", "hub.topic", "percent escape"},
		{"hub.topic=100%", "hub.topic", "percent escape"},
		{"%=1", "", "the form has a parameter name"},
		{"hub.secret=%FF", "hub.secret", "not UTF-8"},
		{"hub.secret=\xff", "hub.secret", "not UTF-8"},
		{"%ff=1", "", "not UTF-8"},
		{"hub.topic=%ED%A0%80", "hub.topic", "not UTF-8"}, // half of a surrogate pair
		{"a%0D%0Ab=%", `"a\r\nb"`, "percent escape"},
		{strings.Repeat("%C3%BC", 999) + "=%", `"` + strings.Repeat(`\u00fc`, 20) + `"...`, "percent escape"},
	} {
		_, err := ParseForm([]byte(test.body))
		refused(t, err, test.param, test.words)
	}
}

func TestParseFormBoundsTheNumberOfParameters(t *testing.T) {
	parse(t, strings.Repeat("a=1&", MaxParams-1)+"a=1")
	body := []byte(strings.Repeat("a=%zz&", 9999) + "a=1")
	_, err := ParseForm(body)
	refused(t, err, "", "the form has 10000 parameters, and 256 are the most")
	// Cheaply: nothing was decoded, and so nothing allocated but the error.
	if n := testing.AllocsPerRun(10, func() { _, _ = ParseForm(body) }); n > 6 {
		t.Errorf("%v allocations to refuse", n)
	}
}

// HUB-09: a parameter that comes twice.
func TestOne_HUB09(t *testing.T) {
	f := parse(t, "a=1&b=2&a=1&b=3&c=")
	if v, sent, err := f.One("a"); v != "1" || !sent || err != nil {
		t.Error(v, sent, err)
	}
	if v, sent, err := f.One("c"); v != "" || !sent || err != nil {
		t.Error(v, sent, err)
	}
	if v, sent, err := f.One("d"); v != "" || sent || err != nil {
		t.Error(v, sent, err)
	}
	_, _, err := f.One("b")
	refused(t, err, "b", "send it once")
	if got := f.All("b"); !slices.Equal(got, []string{"2", "3"}) || f.All("d") != nil {
		t.Error(got)
	}
}

func TestMode_HUB03(t *testing.T) {
	for _, m := range []Mode{ModeSubscribe, ModeUnsubscribe, ModePublish} {
		if got, err := parse(t, "hub.mode="+string(m)).Mode(); got != m || err != nil {
			t.Error(got, err)
		}
	}
	for body, words := range map[string]string{
		"":                   "hub.mode is missing",
		"HUB.MODE=subscribe": "hub.mode is missing",
		"hub.mode=":          `hub.mode is ""`,
		"hub.mode=denied":    `hub.mode is "denied"`,
		"hub.mode=Subscribe": `hub.mode is "Subscribe"`,
		"hub.mode=subscribe&hub.mode=unsubscribe":         "more than once",
		"hub.mode=%3Cb%3E%0A" + strings.Repeat("x", 9999): `"<b>\n`,
	} {
		_, err := parse(t, body).Mode()
		refused(t, err, ParamMode, words)
	}
}

func FuzzParseForm(f *testing.F) {
	for _, s := range []string{
		"", "hub.mode=subscribe&hub.topic=http%3A%2F%2Fa%2F&hub.callback=http%3A%2F%2Fb%2F&hub.secret=s&hub.lease_seconds=60",
		"hub.mode=unsubscribe&hub.topic=http://a/%2520&hub.callback=http://b?x=1%26y=2&hub.lease_seconds=abc",
		"hub.mode=publish&hub.url=http://a&hub.topic=http://b", "a=%&b", "%ff=%c3", "a&&&=;", "hub.mode=%00",
		"hub.mode=subscribe&hub.topic=http://a&hub.callback=http://b&hub.lease_seconds=99999999999999999999",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		form, err := ParseForm(body)
		if err != nil {
			checkSentence(t, err)
			return
		}
		for _, p := range form.params {
			if !utf8.ValidString(p.Name) || !utf8.ValidString(p.Value) {
				t.Fatalf("%q is not UTF-8", p)
			}
		}
		if r, err := ParseSubscribe(form); err != nil {
			checkSentence(t, err)
		} else {
			checkRequest(t, r)
		}
		topics, err := ParsePing(form)
		if err != nil {
			checkSentence(t, err)
		}
		for _, topic := range topics {
			if err := CheckURL("", topic); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// checkRequest checks what is true of every accepted request.
func checkRequest(t *testing.T, r SubscribeRequest) {
	t.Helper()
	ok := r.Mode == ModeSubscribe || r.Mode == ModeUnsubscribe && !r.HasLease
	ok = ok && CheckURL("", r.Topic) == nil && CheckURL("", r.Callback) == nil && len(r.Secret) < 200
	ok = ok && r.HasLease == (r.Lease > 0) && r.Lease >= 0 && r.Lease <= MaxLease
	if !ok {
		t.Fatalf("let through: %+v", r)
	}
}
