package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rshub/rshub/internal/base/quantity"
)

// Rate is a number of things per time. The zero Rate sets no limit.
type Rate struct {
	Count int
	Per   time.Duration
}

var rateUnits = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}

// parseRate reads a rate such as 600/m. Units are s, m, h and d; 0 is no limit.
func parseRate(s string) (Rate, error) {
	return parseRateOf(s, "600/m", parseCount)
}

// parsePublishRate reads a rate of requests such as 600/m, a rate of bytes such as
// 2GiB/h, or both with a comma between them. 0 is no limit.
func parsePublishRate(s string) (requests, bytes Rate, err error) {
	for part := range strings.SplitSeq(s, ",") {
		count, _, _ := strings.Cut(part, "/")
		rate, parse, example := &requests, parseCount, "600/m"
		if _, err := quantity.Digits(count); errors.Is(err, strconv.ErrSyntax) {
			rate, parse, example = &bytes, parseBytes, "2GiB/h"
		}
		switch {
		case part == "0" && part != s:
			return Rate{}, Rate{}, fmt.Errorf("%q has 0, which means no limit and has to be alone", s)
		case rate.Count > 0:
			return Rate{}, Rate{}, fmt.Errorf("%q has two rates of one kind; write requests, bytes or both, such as 600/m,2GiB/h", s)
		}
		if *rate, err = parseRateOf(part, example, parse); err != nil {
			return Rate{}, Rate{}, err
		}
	}
	return requests, bytes, nil
}

func parseRateOf(s, example string, parse func(string) (int, error)) (Rate, error) {
	count, unit, ok := strings.Cut(s, "/")
	n, err := parse(count)
	per, known := rateUnits[unit]
	switch {
	case s == "0":
		return Rate{}, nil
	case err != nil && ok && count != "" && strings.Trim(count, "0123456789") == "":
		return Rate{}, fmt.Errorf("%q is too large; the most is %d before the slash", s, math.MaxInt32)
	case err != nil || !ok:
		return Rate{}, fmt.Errorf("%q is not a rate; write a whole number, a slash and s, m, h or d, such as %s, or 0 for no limit", s, example)
	case n == 0:
		return Rate{}, fmt.Errorf("%q allows nothing; write 0 for no limit", s)
	case !known:
		return Rate{}, fmt.Errorf("%q has an unknown unit of time; write s, m, h or d after the slash, such as %s", s, example)
	}
	return Rate{n, per}, nil
}

// parseBytes is quantity.Size for a Rate, which counts in int.
func parseBytes(s string) (int, error) {
	n, err := quantity.Size(s)
	if err == nil && n > math.MaxInt {
		err = strconv.ErrRange
	}
	return int(n), err
}

func parseCount(s string) (int, error) {
	n, err := quantity.Digits(s)
	switch {
	case errors.Is(err, strconv.ErrRange) || n > math.MaxInt32:
		return 0, fmt.Errorf("%q is too large; the most is %d", s, math.MaxInt32)
	case err != nil:
		return 0, fmt.Errorf("%q is not a count; write a whole number such as 1000", s)
	}
	return int(n), nil
}

func parseBool(s string) (bool, error) {
	if s != "true" && s != "false" {
		return false, fmt.Errorf("%q is neither true nor false", s)
	}
	return s == "true", nil
}

// parseAddr checks host:port. The host may be empty, and the port 0.
func parseAddr(s string) (string, error) {
	host, port, err := net.SplitHostPort(s)
	n, perr := quantity.Digits(port)
	if err != nil || perr != nil || n > math.MaxUint16 || strings.ContainsAny(host, "/ ") {
		return "", fmt.Errorf("%q is not an address to listen on; write host:port, such as 127.0.0.1:8080, or :8080 for every address of this machine", s)
	}
	return s, nil
}

// parseHost checks a host name or an address, without a port.
func parseHost(s string) (string, error) {
	if _, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")); err == nil {
		return s, nil
	}
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("/:*@?#[]%", r) }) {
		return "", fmt.Errorf("%q is not a host name; write it without scheme and port, like hub.internal or 10.0.0.1", hideUser(s))
	}
	return s, nil
}

// parseOrigin parses an origin as browsers write it, or *.
func parseOrigin(s string) (string, error) {
	u, bad := parseBase(s, "which no origin has")
	switch {
	case s == "*":
		return s, nil
	case bad != "":
		return "", fmt.Errorf("%q %s; write an origin like https://app.example, or *", hideUser(s), bad)
	case u.Path != "" && u.Path != "/":
		return "", fmt.Errorf("%q has a path, which no origin has; write it like https://app.example", s)
	}
	return strings.ToLower(u.Scheme + "://" + u.Host), nil
}

// parseBase parses an absolute http or https URL without user, query and fragment. Bad says
// what is wrong. Shown ends that sentence for a URL with a user name or password.
func parseBase(s, shown string) (u *url.URL, bad string) {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, "is not an absolute http or https URL"
	case u.User != nil:
		return nil, "has a user name or password, " + shown
	case strings.ContainsAny(s, "?#"):
		return nil, "has a query or a fragment"
	case wrongPort(u):
		return nil, noPort
	}
	return u, ""
}

const noPort = "has a port that is not a number from 1 to 65535"

// wrongPort reports whether a URL has a port that no server can have.
func wrongPort(u *url.URL) bool {
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	return u.Port() != "" && (err != nil || port == 0)
}

// parsePublicURL checks the hub URI, which the hub sends exactly as given.
func parsePublicURL(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	u, bad := parseBase(s, "which everyone would see")
	if bad == "" && (strings.ContainsAny(s, "<> \t\"\\") || u.String() != s) {
		bad = "has characters that must be percent-encoded"
	}
	if bad != "" {
		return "", fmt.Errorf("%q %s; write it like https://hub.example.org/", hideUser(s), bad)
	}
	return s, nil
}

// parseEndpoint reads the URL that traces go to, and adds the usual path if it has none.
func parseEndpoint(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	u, bad := parseBase(s, "which would be logged; put the header that the collector needs into OTEL_EXPORTER_OTLP_HEADERS")
	if bad != "" {
		return "", fmt.Errorf("%q %s; write it like http://127.0.0.1:4318", hideUser(s), bad)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	return u.String(), nil
}

// parseProxy checks the proxy for outbound requests. Errors do not contain the value, which
// may include a password.
func parseProxy(s string) (Secret, error) {
	if s == "" {
		return "", nil
	}
	u, err := url.Parse(s)
	bad := ""
	switch {
	case err != nil:
		bad = "is not a URL; in a password, percent-encode what is neither a letter nor a digit"
	case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		bad = "is not an http or https URL with a host"
	case u.Path != "" && u.Path != "/", strings.ContainsAny(s, "?#"):
		bad = "has a path, a query or a fragment after the host"
	case wrongPort(u):
		bad = noPort
	case u.User.Username() == masked:
		bad = "has asterisks where the user name and password were; replace them with the real ones"
	}
	if bad != "" {
		return "", fmt.Errorf("the proxy's address %s; write it like http://gate.example.org:3128, with USER:PASSWORD@ before the host if the proxy asks for them", bad)
	}
	return Secret(s), nil
}

// hideUser masks the user name and password in s, even if s is not a valid URL.
func hideUser(s string) string {
	i := strings.LastIndexByte(s, '@')
	if i < 0 {
		return s
	}
	scheme, _, ok := strings.Cut(s[:i], "://")
	if !ok {
		return masked + s[i:]
	}
	return scheme + "://" + masked + s[i:]
}

// parsePattern checks only how a pattern begins; package validate parses the rest.
func parsePattern(s string) (string, error) {
	if s != "*" && !strings.HasPrefix(s, "http://") && !strings.HasPrefix(s, "https://") {
		return "", fmt.Errorf("%q is not a topic pattern; write it like https://example.org/*", s)
	}
	return s, nil
}

// ParseRange reads a range of addresses; a single address is a range of one. IPv4 addresses
// in IPv6 notation become those that connections are compared by.
func ParseRange(s string) (netip.Prefix, error) {
	const mapped = 96 // bits before an IPv4 address in ::ffff:10.0.0.1
	p, err := netip.ParsePrefix(s)
	if a, none := netip.ParseAddr(s); none == nil && a.Zone() == "" {
		p, err = netip.PrefixFrom(a, a.BitLen()), nil
	}
	if err != nil {
		return p, fmt.Errorf("%q is not a range of addresses; write it like 10.0.0.0/8 or fd00::/8", s)
	}
	if p.Addr().Is4In6() && p.Bits() >= mapped {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
	}
	return p.Masked(), nil
}

// ParseAllowedRange is ParseRange for ranges that outbound requests may reach.
func ParseAllowedRange(s string) (netip.Prefix, error) {
	p, err := ParseRange(s)
	if err == nil && p.Addr().IsLinkLocalUnicast() && p.Bits() >= 10 {
		return p, fmt.Errorf("%q is link-local: such addresses, which include those of cloud metadata, are never called", s)
	}
	return p, err
}

// oneOf accepts only the given words.
func oneOf(words ...string) func(string) (string, error) {
	return func(s string) (string, error) {
		if slices.Contains(words, s) {
			return s, nil
		}
		return "", fmt.Errorf("%q is not one of %s", s, strings.Join(words, ", "))
	}
}

// atLeast is parse with a least value, in the same notation.
func atLeast[T int | int64 | time.Duration](least string, parse func(string) (T, error)) func(string) (T, error) {
	lowest, err := parse(least)
	if err != nil {
		panic(err) // a mistake in the table of settings
	}
	return func(s string) (T, error) {
		v, err := parse(s)
		if err == nil && v < lowest {
			return v, fmt.Errorf("%q is too small; the least is %s", s, least)
		}
		return v, err
	}
}

// wholeSeconds is quantity.Duration for leases, which go over the wire in seconds.
func wholeSeconds(s string) (time.Duration, error) {
	d, err := quantity.Duration(s)
	if err == nil && (d < time.Second || d%time.Second != 0) {
		return 0, fmt.Errorf("%q is not a whole number of seconds, at least one; write it like 300s", s)
	}
	return d, err
}

func anyText(s string) (string, error) { return s, nil }

func notEmpty(s string) (string, error) {
	if s == "" {
		return "", errors.New("it is empty")
	}
	return s, nil
}

// parseHeaderName parses the name of an HTTP header, into its canonical form; empty: there is none.
func parseHeaderName(s string) (string, error) {
	if strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	}) {
		return "", fmt.Errorf("%q is not the name of a header; write it like X-Forwarded-User", s)
	}
	return http.CanonicalHeaderKey(s), nil
}
