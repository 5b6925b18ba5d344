package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// CheckLiteral returns a *RefusedError where the host of a URL is an address, or
// a name that always stands for one (localhost), that would be refused when
// dialled. It lets a request be answered at once with the reason; it looks
// nothing up, so that nil promises nothing of a name. Hosts that some
// resolvers take for an address and others for a name ("0x7f.1", "2130706433") are
// refused: no domain ends in a number. Another error: the URL has no host.
func (c *Client) CheckLiteral(rawURL string) error {
	err := c.checkLiteral(rawURL)
	var refused *RefusedError
	if errors.As(err, &refused) {
		c.refused(refused.Kind)
	}
	return err
}

func (c *Client) checkLiteral(rawURL string) error {
	u, err := url.Parse(rawURL)
	if err != nil {
		return fmt.Errorf("not a URL: %w", err)
	}
	host := u.Hostname()
	if host == "" {
		return fmt.Errorf("the URL %q has no host", rawURL)
	}
	name := strings.TrimSuffix(strings.ToLower(host), ".")
	if addr, err := netip.ParseAddr(name); err == nil {
		return asError(c.policy.check(addr))
	}
	if name == "localhost" || strings.HasSuffix(name, ".localhost") { // RFC 6761, 6.3
		if c.policy.check(netip.IPv6Loopback()) == nil {
			return nil
		}
		if refused := c.policy.check(netip.AddrFrom4([4]byte{127, 0, 0, 1})); refused != nil {
			return &RefusedError{host, "stands for " + refused.Addr + ", which " + refused.Reason, refused.Kind}
		}
		return nil
	}
	if endsInNumber(name) {
		return &RefusedError{host, "is a number in a form that is not called: write an address as four decimal numbers, like 192.0.2.1", RefusedForm}
	}
	return nil
}

// asError keeps a nil *RefusedError from becoming an error that is not nil.
func asError(refused *RefusedError) error {
	if refused == nil {
		return nil
	}
	return refused
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
