package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/rshub/rshub/internal/base/quantity"
	"github.com/rshub/rshub/internal/engine/examine"
)

// AtLeast is n as a flag, which refuses a number below least; what n holds is the
// default.
func AtLeast[T int | int64](n *T, least T) pflag.Value { return number[T]{n, least} }

type number[T int | int64] struct {
	n     *T
	least T
}

// Set implements pflag.Value.
func (v number[T]) Set(text string) error {
	n, err := strconv.ParseInt(text, 0, strconv.IntSize)
	if err != nil {
		return err
	}
	if T(n) < v.least {
		return fmt.Errorf("it must be %d or more", v.least)
	}
	*v.n = T(n)
	return nil
}

// String implements pflag.Value. Pflag asks the zero value, too.
func (v number[T]) String() string {
	if v.n == nil {
		return "0"
	}
	return strconv.FormatInt(int64(*v.n), 10)
}

// Type implements pflag.Value.
func (v number[T]) Type() string { return "int" }

// Size is n bytes as a flag, such as 16GiB, which refuses fewer than least; what n
// holds is the default.
func Size(n *int64, least int64) pflag.Value { return size64{n, least} }

type size64 struct {
	n     *int64
	least int64
}

// Set implements pflag.Value.
func (v size64) Set(text string) error {
	n, err := quantity.Size(text)
	if err != nil {
		return err
	}
	if n < v.least {
		return fmt.Errorf("it must be %s or more", quantity.SizeText(v.least))
	}
	*v.n = n
	return nil
}

// String implements pflag.Value. Pflag asks the zero value, too.
func (v size64) String() string {
	if v.n == nil {
		return "0"
	}
	return quantity.SizeText(*v.n)
}

// Type implements pflag.Value.
func (v size64) Type() string { return "size" }

// Share is a part of a whole as a flag, such as 50% or 0.5, which cannot be nothing;
// what f holds is the default.
func Share(f *float64) pflag.Value { return share{f} }

type share struct{ f *float64 }

// Set implements pflag.Value.
func (v share) Set(text string) error {
	f, err := quantity.Share(text)
	if err != nil {
		return err
	}
	if f == 0 {
		return errors.New("it must be more than 0%; 100% is all")
	}
	*v.f = f
	return nil
}

// String implements pflag.Value. Pflag asks the zero value, too.
func (v share) String() string {
	if v.f == nil {
		return "0%"
	}
	return quantity.ShareText(*v.f)
}

// Type implements pflag.Value.
func (v share) Type() string { return "share" }

// Positive is a time as a flag that can be neither nothing nor off; what s holds is
// the default.
func Positive(s *Span) pflag.Value { return positive{s} }

type positive struct{ *Span }

// Set implements pflag.Value.
func (p positive) Set(text string) error {
	var s Span
	if err := s.Set(text); err != nil {
		return err
	}
	if s <= 0 {
		return errors.New("it must be more than 0s; write it like 90s, 10m or 30d")
	}
	*p.Span = s
	return nil
}

// since is a datetime or how long ago as a flag: the text, which is an instant only
// by the clock of the hub.
type since string

// Set implements pflag.Value.
func (s *since) Set(text string) error {
	if text != "" { // which is as good as no flag
		if _, err := parseSince(text, time.Now()); err != nil {
			return err
		}
	}
	*s = since(text)
	return nil
}

// String implements pflag.Value.
func (s *since) String() string { return string(*s) }

// Type implements pflag.Value.
func (s *since) Type() string { return "TIME" }

// at is the instant, where the clock of the hub says now.
func (s *since) at(now time.Time) (time.Time, error) {
	t, err := parseSince(string(*s), now)
	if err != nil {
		return t, Fail(ExitUsage, "--since: %w", err)
	}
	return t, nil
}

// CheckAddress returns an error for ExitUsage unless raw, which the argument called
// name is, is an http or https URL of a host. That may be one that does not exist.
func CheckAddress(name, raw string) error {
	if u, err := url.Parse(raw); err != nil || !examine.IsWeb(u) {
		return Fail(ExitUsage, "%s %q is no http or https URL of a host; write it like https://example.org/", name, raw)
	}
	return nil
}

// Listen opens the address of --listen. The error is for ExitUsage where that is none,
// and for ExitFailure where it can't be had.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = net.DefaultResolver.LookupPort(ctx, "tcp", port)
	}
	if err != nil {
		return nil, Fail(ExitUsage, "--listen %q is not an address to listen on; write host:port, such as 127.0.0.1:8090, or :8090 for every address of this machine", addr)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, Fail(ExitFailure, "%w; give another address with --listen", err)
	}
	return l, nil
}
