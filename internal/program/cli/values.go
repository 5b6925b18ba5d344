package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/rshub/rshub/internal/base/quantity"
	"github.com/rshub/rshub/internal/engine/examine"
	"github.com/rshub/rshub/resourcesync"
	"github.com/rshub/rshub/websub"
)

// value is a flag that parse reads and text writes. What at points to is the default.
type value[T any] struct {
	at    *T
	kind  string // what pflag calls the type
	parse func(text string) (T, error)
	text  func(T) string
}

// Set implements pflag.Value.
func (v value[T]) Set(text string) error {
	got, err := v.parse(text)
	if err == nil {
		*v.at = got
	}
	return err
}

// String implements pflag.Value.
func (v value[T]) String() string { return v.text(*v.at) }

// Type implements pflag.Value.
func (v value[T]) Type() string { return v.kind }

// AtLeast makes n a flag that refuses a number below least. The value of n is the default.
func AtLeast[T int | int64](n *T, least T) pflag.Value {
	parse := func(text string) (T, error) {
		n, err := strconv.ParseInt(text, 0, strconv.IntSize)
		switch {
		case errors.Is(err, strconv.ErrRange) && n > 0:
			err = fmt.Errorf("%q is too large; the most is %d", text, n)
		case err != nil && !errors.Is(err, strconv.ErrRange):
			err = fmt.Errorf("%q is not a whole number; write it like %d", text, max(least, 8))
		case T(n) < least:
			err = fmt.Errorf("it must be %d or more", least)
		}
		return T(n), err
	}
	return value[T]{n, "int", parse, func(n T) string { return strconv.FormatInt(int64(n), 10) }}
}

// Size makes n, in bytes, a flag such as 16GiB that refuses a size below least. The value of n
// is the default.
func Size(n *int64, least int64) pflag.Value {
	parse := func(text string) (int64, error) {
		n, err := quantity.Size(text)
		if err == nil && n < least {
			err = fmt.Errorf("it must be %s or more", quantity.SizeText(least))
		}
		return n, err
	}
	return value[int64]{n, "size", parse, quantity.SizeText}
}

// Fraction makes f a flag for a fraction such as 50% or 0.5, which must be more than 0. The value
// of f is the default.
func Fraction(f *float64) pflag.Value {
	parse := func(text string) (float64, error) {
		f, err := quantity.Share(text)
		if err == nil && f == 0 {
			err = errors.New("it must be more than 0%; 100% is all")
		}
		return f, err
	}
	return value[float64]{f, "share", parse, quantity.ShareText}
}

// Positive makes s a flag for a duration, which must be more than 0 and not off. The value of s
// is the default. If that is 0, an empty text stands for it.
func Positive(s *Span) pflag.Value {
	unset := *s == 0
	parse := func(text string) (s Span, err error) {
		if unset && text == "" {
			return 0, nil
		}
		if err = s.Set(text); err == nil && s <= 0 {
			err = errors.New("it must be more than 0s; write it like 90s, 10m or 30d")
		}
		return s, err
	}
	return value[Span]{s, "duration", parse, func(s Span) string {
		if s == 0 {
			return ""
		}
		return s.String()
	}}
}

// since makes t a flag for a datetime, or for how long ago that was. The zero time is no flag.
func since(t *time.Time) pflag.Value {
	parse := func(text string) (time.Time, error) {
		if text == "" { // the same as no flag
			return time.Time{}, nil
		}
		return parseSince(text, time.Now())
	}
	return value[time.Time]{t, "TIME", parse, func(t time.Time) string { return strings.TrimPrefix(instant(t), "-") }}
}

// After makes at a flag for where a stream begins: at a datetime, that long ago, or at "earliest".
// It becomes a value of the parameter after of a hub.
func After(at *string) pflag.Value {
	parse := func(text string) (string, error) {
		if text == "" || text == "earliest" {
			return text, nil
		}
		t, err := parseSince(text, time.Now())
		if err != nil {
			return "", fmt.Errorf("%w, nor earliest", err)
		}
		return resourcesync.FormatDatetime(t), nil
	}
	return value[string]{at, "TIME", parse, func(s string) string { return s }}
}

// CheckAddress returns an error for ExitUsage unless raw, the argument called name, is an
// http or https URL with a host. It does not ask whether the host exists.
func CheckAddress(name, raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err == nil && u.User != nil: // not repeated: it may be a secret
		return Fail(ExitUsage, "%s has a user name or a password before the host, which are never sent; write the URL without what ends in @", name)
	case err != nil || !examine.IsWeb(u):
		return Fail(ExitUsage, "%s %q is not an http or https URL of a host; write it like https://example.org/", name, raw)
	}
	return nil
}

// CheckURL is CheckAddress for a URL that is sent to a hub, which refuses some others.
func CheckURL(flag, raw string) error {
	if err := CheckAddress(flag, raw); err != nil {
		return err
	}
	if err := websub.CheckURL(flag, raw); err != nil {
		return Fail(ExitUsage, "%w", err)
	}
	return nil
}

// checkListen returns an error for ExitUsage unless addr, the value of flag, has a host and a port.
// Ask it before what the host means: text without a port is no address that others can reach.
func checkListen(flag, addr string) error {
	if _, port, err := net.SplitHostPort(addr); err != nil || port == "" {
		return noAddress(flag, addr)
	}
	return nil
}

func noAddress(flag, addr string) error {
	return Fail(ExitUsage, "%s %q is not an address to listen on; write host:port, such as 127.0.0.1:8090, or :8090 for every address of this machine", flag, addr)
}

// Listen opens the address of a flag such as --listen. The error is for ExitUsage if addr is
// not an address, and for ExitFailure if it cannot be opened.
func Listen(ctx context.Context, flag, addr string) (net.Listener, error) {
	err := checkListen(flag, addr)
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	if _, err = net.DefaultResolver.LookupPort(ctx, "tcp", port); err != nil {
		return nil, noAddress(flag, addr)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, Fail(ExitFailure, "%w; give another address with %s", err, flag)
	}
	return l, nil
}
