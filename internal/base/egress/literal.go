package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"unicode"
)

// CheckLiteral returns a *RefusedError where the host of a URL is an address, or
// a name that always stands for one (localhost), that would be refused when
// dialled, and where its port is one that is never called. It lets a request be
// answered at once with the reason; it looks nothing up, so that nil promises
// nothing of a name. Hosts that some take for an address and others for a name
// ("0x7f.1", "2130706433") are refused: no domain ends in a number; and so are
// those that no DNS name is written like, a name in letters beyond ASCII among
// them. Another error: the URL has no host.
func (c *Client) CheckLiteral(rawURL string) error {
	u, err := url.Parse(rawURL)
	if err != nil {
		return fmt.Errorf("not a URL: %w", WithoutURL(err))
	}
	_, err = c.checkURL(u)
	return err
}

// checkURL checks a URL by its text alone, and returns its target for a Budget: an address,
// or a name.
func (c *Client) checkURL(u *url.URL) (target string, err error) {
	host := u.Hostname()
	if host == "" {
		return "", errors.New("the URL has no host: write it like https://example.org/")
	}
	target, refused := c.checkHost(host)
	if refused == nil {
		refused = c.policy.checkOwn(u)
	}
	if refused == nil {
		refused = checkPortText(host, u.Port())
	}
	if refused != nil {
		c.refused(refused.Kind)
		return "", refused
	}
	return target, nil
}

// checkHost is checkURL for a host.
func (c *Client) checkHost(host string) (target string, refused *RefusedError) {
	name := strings.ToLower(host)
	if addr, err := netip.ParseAddr(name); err == nil {
		return addrTarget(addr), c.policy.check(addr)
	}
	name = strings.TrimSuffix(name, ".") // an address has no root: it is not dialled with a dot after it
	switch {
	case isLocalhost(name):
		if c.policy.check(netip.IPv6Loopback()) == nil {
			return nameTarget(name), nil
		}
		if refused := c.policy.check(netip.AddrFrom4([4]byte{127, 0, 0, 1})); refused != nil {
			return "", &RefusedError{host, "stands for " + refused.Addr + ", which " + refused.Reason, refused.Kind}
		}
	case endsInNumber(name):
		return "", &RefusedError{host, "is a number in a form that is not called: write an address as four decimal numbers without a dot after them, like 192.0.2.1", RefusedForm}
	case !isName(name), !isASCII(host):
		return "", &RefusedError{host, "is not written like a name of the DNS: letters, digits, hyphens and dots, other letters in their xn-- form", RefusedForm}
	}
	return nameTarget(name), nil
}

// isName reports whether a name is one that resolvers look up as it stands. What
// else may stand in a URL is taken for something else by some of them: full-width
// digits for an address, a null or a percent sign for the end.
func isName(name string) bool {
	if name == "" || len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return true
}

// isASCII tells apart the letters whose lower case is one of ASCII, such as the sign of the kelvin.
func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII })
}

// endsInNumber reports whether the last label of a lower-case host is all digits or a
// hexadecimal number, as the URL standard (whatwg, "ends in a number") has it.
func endsInNumber(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}
