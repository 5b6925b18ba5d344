package cli

import (
	"errors"
	"math"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// A value that makes no sense is refused when the flag is read, and the default stays.
func TestValuesOfFlags(t *testing.T) {
	for _, c := range []struct {
		arg  string
		good bool
	}{
		{"--n=1", true},
		{"--n=0x10", true},
		{"--n=0", false},
		{"--n=-3", false},
		{"--n=x", false},
		{"--n=99999999999999999999", false},
		{"--most=0", true},
		{"--most=-1", false},
		{"--wait=1ns", true},
		{"--wait=2d", true},
		{"--wait=0", false},
		{"--wait=0d", false},
		{"--wait=-5s", false},
		{"--wait=off", false},
		{"--wait=soon", false},
		{"--every=0", true},
		{"--every=off", true},
		{"--every=-5s", false},
	} {
		n, most, wait, every := 8, int64(9), Span(time.Minute), Span(time.Hour)
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		flags.Var(AtLeast(&n, 1), "n", "`N`")
		flags.Var(AtLeast(&most, 0), "most", "`N`")
		flags.Var(Positive(&wait), "wait", "`TIME`")
		flags.Var(&every, "every", "`TIME`")
		err := flags.Parse([]string{c.arg})
		if (err == nil) != c.good {
			t.Errorf("%s: %v", c.arg, err)
		}
		if n < 1 || most < 0 || wait <= 0 {
			t.Errorf("%s: %d, %d, %v", c.arg, n, most, wait)
		}
	}
	if none, never := Span(0), Span(-1); none.OrNever() >= 0 || never.OrNever() >= 0 || Span(time.Second).OrNever() != time.Second {
		t.Error("what is never")
	}
}

// What is no number, and what is out of range, gets a text without the names of Go.
func TestNumberError(t *testing.T) {
	for text, want := range map[string]string{
		"abc":                   `"abc" is not a whole number; write it like 8`,
		"":                      `"" is not a whole number; write it like 8`,
		"1.5":                   `"1.5" is not a whole number; write it like 8`,
		"99999999999999999999":  `"99999999999999999999" is too large; the most is ` + strconv.Itoa(math.MaxInt),
		"-99999999999999999999": "it must be 1 or more",
	} {
		n := 5
		if err := AtLeast(&n, 1).Set(text); err == nil || err.Error() != want || n != 5 {
			t.Errorf("%q: %v, want %s; the value is %d", text, err, want, n)
		}
	}
	command(t, nil, "", "callback", "--status", "abc").want(t, ExitUsage, `"abc" is not a whole number; write it like 200`)
	command(t, nil, "", "callback", "--status", "199").want(t, ExitUsage, "it must be 200 or more")
	command(t, nil, "", "callback", "--status", "600").want(t, ExitUsage, "give one from 200 to 599")
	command(t, nil, "", "validate", "--json=abc", "-").want(t, ExitUsage, `invalid argument "abc" for "--json" flag: "abc" is neither true nor false`)
}

func TestCheckAddress(t *testing.T) {
	for raw, good := range map[string]bool{
		"https://example.org": true, "http://127.0.0.1:8090/a?b#c": true, "http://[::1]/": true, "https://user:word@example.org/": false, "https://user@example.org/": false,
		"": false, "nosuch": false, "foo bar": false, "ht!tp://": false, "http://": false, "http:///a": false, "https://:80/": false,
		"ftp://example.org/": false, "http://127.0.0.1:99999/": false, "http://127.0.0.1:0/": false, "http://[::1": false, "http://a b/": false,
	} {
		err := CheckAddress("SOURCE", raw)
		var e *Error
		if (err == nil) != good || err != nil && (!errors.As(err, &e) || e.Code != ExitUsage) {
			t.Errorf("%q: %v", raw, err)
		}
		if err != nil && strings.Contains(err.Error(), "user:word") {
			t.Errorf("a password is repeated: %v", err)
		}
	}
}

// An address that is none is wrong usage, and one that somebody has a failure.
func TestListen(t *testing.T) {
	taken, err := Listen(t.Context(), "--listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	for addr, code := range map[string]int{
		"bogus": ExitUsage, "127.0.0.1": ExitUsage, ":99999": ExitUsage, ":-1": ExitUsage, "127.0.0.1:no-such-service": ExitUsage, "::1:80": ExitUsage,
		taken.Addr().String(): ExitFailure, net.JoinHostPort("192.0.2.1", "0"): ExitFailure,
	} {
		var e *Error
		if _, err := Listen(t.Context(), "--listen", addr); !errors.As(err, &e) || e.Code != code {
			t.Errorf("%s: %v, want the exit code %d", addr, err, code)
		}
	}
	command(t, nil, "", "callback", "--listen", "bogus").want(t, ExitUsage, `"bogus" is not an address`)
	command(t, nil, "", "validate", "https://:80/").want(t, ExitUsage, "no http or https URL")
	command(t, nil, "", "validate", "--pause", "-1s", "-").want(t, ExitUsage, "negative")
	command(t, nil, "", "validate", "--max-documents", "0", "-").want(t, ExitUsage, "it must be 1 or more")
}
