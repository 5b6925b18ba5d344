package egress

import (
	"fmt"
	"slices"
	"strconv"
)

// otherProtocols are ports whose servers may act on lines of a request as if
// they were meant for them: a mail server that takes a line of a body for a
// command, say. They are those that browsers do not call either (WHATWG Fetch,
// "bad port"), but for those where nothing is lost, and the one of Redis and of
// memcached each. In order.
var otherProtocols = []uint16{
	0, 7, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110, 111, 113, 115, 117,
	119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556,
	563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6379, 6566,
	6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080, 11211,
}

// checkPort returns nil where port may be called. At is the host or host:port
// that the refusal is about.
func checkPort(at string, port uint16) *RefusedError {
	if _, found := slices.BinarySearch(otherProtocols, port); !found {
		return nil
	}
	return &RefusedError{at, fmt.Sprintf("is at port %d, which is that of another protocol and never called; no flag allows it", port), RefusedPort}
}

// checkPortText is checkPort for the port in a URL; empty is the scheme's.
func checkPortText(at, port string) *RefusedError {
	if port == "" {
		return nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return &RefusedError{at, "is at port " + port + ", which does not exist", RefusedPort}
	}
	return checkPort(at, uint16(n))
}
