package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"code.dny.dev/ssrf"
)

// DevAllow returns the ranges that `--dev` allows: loopback and the private
// ranges of IPv4 and IPv6.
func DevAllow() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("127.0.0.0/8"),
		netip.MustParsePrefix("10.0.0.0/8"),
		netip.MustParsePrefix("172.16.0.0/12"),
		netip.MustParsePrefix("192.168.0.0/16"),
		netip.MustParsePrefix("::1/128"),
		netip.MustParsePrefix("fc00::/7"),
	}
}

// DevHint says what the flag --dev does to an address that is not called (DevWouldAllow).
const DevHint = "--dev allows loopback and private addresses"

// DevWouldAllow reports whether err says that an address is not called which the ranges of DevAllow contain.
func DevWouldAllow(err error) bool {
	var refused *RefusedError
	if !errors.As(err, &refused) {
		return false
	}
	addr, err := netip.ParseAddr(refused.Addr)
	return err == nil && slices.ContainsFunc(DevAllow(), func(p netip.Prefix) bool { return p.Contains(addr.WithZone("").Unmap()) }) &&
		(refused.Kind == RefusedLoopback || refused.Kind == RefusedPrivate)
}

// Refusal is why an address was not called, in a word for counting.
type Refusal string

// The refusals.
const (
	RefusedMetadata    Refusal = "metadata"      // the metadata service of a cloud
	RefusedLinkLocal   Refusal = "link_local"    // the same network
	RefusedNoHost      Refusal = "no_host"       // multicast, broadcast, unspecified
	RefusedLoopback    Refusal = "loopback"      // the hub's own machine
	RefusedPrivate     Refusal = "private"       // a private network, or a carrier's
	RefusedTranslation Refusal = "translation"   // NAT64, 6to4, Teredo
	RefusedOther       Refusal = "not_public"    // for documentation, or reserved
	RefusedForm        Refusal = "ambiguous"     // a host that some take for another, such as 0x7f.1
	RefusedPort        Refusal = "port"          // a port of another protocol
	RefusedOwn         Refusal = "own_hub"       // the hub's own listener
	RefusedBudget      Refusal = "verify_budget" // too many unconfirmed requests to it
)

// Refusals are all of them.
func Refusals() []Refusal {
	return []Refusal{
		RefusedMetadata, RefusedLinkLocal, RefusedNoHost, RefusedLoopback, RefusedPrivate,
		RefusedTranslation, RefusedOther, RefusedForm, RefusedPort, RefusedOwn, RefusedBudget,
	}
}

// A named range, what a person calls an address in it, and how it is counted.
type named struct {
	prefix netip.Prefix
	name   string
	kind   Refusal
}

func ranges(kind Refusal, name string, prefixes ...string) []named {
	out := make([]named, 0, len(prefixes))
	for _, p := range prefixes {
		out = append(out, named{netip.MustParsePrefix(p), name, kind})
	}
	return out
}

// never is refused whatever is allowed: what answers there belongs to the
// machine the hub runs on or to the cloud around it, and hands out credentials,
// or is not one host.
var never = slices.Concat(
	ranges(RefusedMetadata, "the metadata service of a cloud",
		"169.254.169.254/32",     // AWS, Azure, GCP, Oracle, OpenStack, ...
		"168.63.129.16/32",       // Azure's wire server, a public address
		"100.100.100.200/32",     // Alibaba
		"192.0.0.192/32",         // Oracle
		"fd00:ec2::/32",          // AWS: metadata, DNS, time
		"fd20:ce::254/128",       // GCP
		"fd00:c1::a9fe:a9fe/128", // Oracle
		"fd00:42::42/128",        // Scaleway
	),
	ranges(RefusedLinkLocal, "a link-local address", "169.254.0.0/16", "fe80::/10"),
	ranges(RefusedNoHost, "a multicast address", "224.0.0.0/4", "ff00::/8"),
	ranges(RefusedNoHost, "the broadcast address", "255.255.255.255/32"),
	ranges(RefusedNoHost, "an unspecified address", "0.0.0.0/8", "::/128"),
)

// known names ranges that an operator may allow, for the sentence of a refusal.
var known = slices.Concat(
	ranges(RefusedLoopback, "a loopback address", "127.0.0.0/8", "::1/128"),
	ranges(RefusedPrivate, "a private address", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"),
	ranges(RefusedPrivate, "a site-local address", "fec0::/10"), // RFC 3879: no longer made, still routed where they were
	ranges(RefusedPrivate, "a shared address (carrier-grade NAT)", "100.64.0.0/10"),
	ranges(RefusedOther, "an address for documentation", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20"),
	ranges(RefusedTranslation, "a NAT64 address", "64:ff9b::/96", "64:ff9b:1::/48"),
	ranges(RefusedTranslation, "a 6to4 address", "2002::/16"),
	ranges(RefusedTranslation, "a Teredo address", "2001::/32"),
)

// policy says which addresses are called.
type policy struct {
	guard  *ssrf.Guardian
	own    []netip.AddrPort
	unless func(netip.Prefix) string // Options.Unless
}

// AllowedBy is an Options.Unless for a setting that has ranges.
func AllowedBy(setting string) func(netip.Prefix) string {
	return func(r netip.Prefix) string { return fmt.Sprintf("%s %v allows it", setting, r) }
}

func newPolicy(allow []netip.Prefix, own ...netip.AddrPort) (policy, error) {
	var v4, v6 []netip.Prefix
	for _, p := range allow {
		switch {
		case !p.IsValid():
			return policy{}, fmt.Errorf("allowed range %v is not a range of addresses: write it like 10.0.0.0/8", p)
		case p.Addr().Is4In6():
			return policy{}, fmt.Errorf("allowed range %v: write a range of IPv4 addresses as IPv4, like 10.0.0.0/8", p)
		case p.Addr().Is4():
			v4 = append(v4, p.Masked())
		default:
			v6 = append(v6, p.Masked())
		}
	}
	return policy{own: own, unless: AllowedBy("--allow-cidr"), guard: ssrf.New(
		ssrf.WithAnyPort(),
		ssrf.WithAllowedV4Prefixes(v4...),
		ssrf.WithAllowedV6Prefixes(v6...),
		ssrf.WithDeniedV6Prefixes(netip.MustParsePrefix("3fff::/20")), // documentation, RFC 9637
	)}, nil
}

// check returns nil where addr may be called.
func (p policy) check(addr netip.Addr) *RefusedError {
	// A prefix contains no address that has a zone, and no IPv4 address in the
	// clothes of an IPv6 one.
	addr = addr.WithZone("").Unmap()
	for _, r := range never {
		if r.prefix.Contains(addr) {
			return &RefusedError{addr.String(), "is " + r.name + ", which is never called; no flag allows it", r.kind}
		}
	}
	for _, inner := range embedded(addr) {
		// Where a translation prefix is allowed, what it leads to has to be.
		if refused := p.check(inner); refused != nil {
			return &RefusedError{addr.String(), "leads to " + refused.Addr + ", which " + refused.Reason, refused.Kind}
		}
	}
	if p.guard.SafeAddr(addr) == nil {
		return nil
	}
	in := named{netip.PrefixFrom(addr, addr.BitLen()), "not a public address", RefusedOther}
	if i := slices.IndexFunc(known, func(r named) bool { return r.prefix.Contains(addr) }); i >= 0 {
		in = known[i]
	}
	return &RefusedError{addr.String(), fmt.Sprintf("is %s, which is not called unless %s", in.name, p.unless(in.prefix)), in.kind}
}
