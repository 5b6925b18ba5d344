package egress

import (
	"fmt"
	"slices"
	"strconv"
)

// otherProtocols are ports whose servers may act on a request, or on lines of it, as
// if it were meant for them: a mail server that takes a line of a body for a command,
// say. In order. They are those that browsers never call (WHATWG Fetch, "bad port"),
// and the ones below, of servers that stand in the networks around a hub.
var otherProtocols = slices.Sorted(slices.Values(slices.Concat(badPorts, innerPorts)))

// badPorts is the whole list of the Fetch standard, and 0.
var badPorts = []uint16{
	0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110, 111,
	113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548,
	554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566,
	6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
}

// innerPorts are the registered ports of databases, queues, files and desktops. None
// is a port that web servers commonly have as well, or that kernels give to clients.
var innerPorts = []uint16{
	88, 445, 464, 873, 3260, 3268, 3269, // Kerberos, SMB, rsync, iSCSI, the global catalogue of LDAP
	3389, 5900, 5901, // remote desktops: RDP, VNC
	1433, 1434, 1521, 3050, 3306, 5432, 6432, // SQL Server, Oracle, Firebird, MySQL, PostgreSQL and its pooler
	6379, 6380, 11211, 26379, // Redis and Sentinel, memcached
	7687, 9042, 27017, 27018, 27019, // Neo4j, Cassandra, MongoDB
	1883, 4222, 5671, 5672, 8883, 9092, 61613, 61616, // queues: MQTT, NATS, AMQP, Kafka, ActiveMQ
	2181, 4369, // ZooKeeper, Erlang
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
