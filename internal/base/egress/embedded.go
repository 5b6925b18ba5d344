package egress

import (
	"bytes"
	"encoding/binary"
	"net/netip"
)

// embedded returns the IPv4 addresses that an IPv6 address may lead to, by one
// mechanism of translating or tunnelling or another. IPv4-mapped addresses are
// not among them: netip knows those.
func embedded(addr netip.Addr) []netip.Addr {
	if !addr.Is6() {
		return nil
	}
	b := addr.As16()
	head := binary.BigEndian.Uint32(b[:4])
	switch {
	case head == 0x0064ff9b && zero(b[4:12]), // NAT64, RFC 6052
		zero(b[:12]) && binary.BigEndian.Uint32(b[12:]) > 1,           // IPv4-compatible, neither :: nor ::1
		zero(b[:8]) && binary.BigEndian.Uint32(b[8:12]) == 0xffff0000: // IPv4-translated, RFC 2765
		return []netip.Addr{netip.AddrFrom4([4]byte(b[12:]))}
	case head == 0x0064ff9b && b[4] == 0 && b[5] == 1:
		return localNAT64(b)
	case head>>16 == 0x2002: // 6to4, RFC 3056
		return append(isatap(b), netip.AddrFrom4([4]byte(b[2:6])))
	case head == 0x20010000: // Teredo, RFC 4380: the client's address, inverted
		return append(isatap(b), netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}))
	default:
		return isatap(b)
	}
}

// isatap returns the address in an interface identifier of ISATAP (RFC 5214),
// which any prefix may stand before.
func isatap(b [16]byte) []netip.Addr {
	if binary.BigEndian.Uint32(b[8:12])&^0x02000000 != 0x5efe {
		return nil
	}
	return []netip.Addr{netip.AddrFrom4([4]byte(b[12:]))}
}

// localNAT64 reads an address of 64:ff9b:1::/48, which a network uses as it
// likes (RFC 8215): a prefix of 48, 56, 64 or 96 bits comes before the address,
// byte 8 is left out, and zeros come after it (RFC 6052, 2.2). Where more than one
// reading fits, all are returned.
func localNAT64(b [16]byte) []netip.Addr {
	var out []netip.Addr
	for _, form := range []struct {
		at   [4]int
		rest int // what follows is zero from here on
	}{{[4]int{6, 7, 9, 10}, 11}, {[4]int{7, 9, 10, 11}, 12}, {[4]int{9, 10, 11, 12}, 13}} {
		v4 := [4]byte{b[form.at[0]], b[form.at[1]], b[form.at[2]], b[form.at[3]]}
		if b[8] == 0 && v4 != [4]byte{} && zero(b[form.rest:]) {
			out = append(out, netip.AddrFrom4(v4))
		}
	}
	if out == nil || !zero(b[12:]) {
		out = append(out, netip.AddrFrom4([4]byte(b[12:])))
	}
	return out
}

func zero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }
