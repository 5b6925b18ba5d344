package egress

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// target stands in for what an attacker is after: servers on loopback addresses
// of one port, which count the connections that they get. One more, on 127.0.0.2,
// may be called.
type target struct {
	port string
	hits atomic.Int32 // connections that nobody may make
	good atomic.Int32 // requests that anybody may make
}

func newTarget(t *testing.T) *target {
	t.Helper()
	x := new(target)
	x.port = portOf(t, serve(t, "127.0.0.2", "", ok(&x.good)))
	for network, ip := range map[string]string{"tcp4": "127.0.0.1", "tcp6": "::1"} {
		l, err := new(net.ListenConfig).Listen(t.Context(), network, net.JoinHostPort(ip, x.port))
		if err != nil && network == "tcp6" {
			continue // a machine without IPv6
		}
		if err != nil {
			t.Skipf("port %s is taken on %s: %v", x.port, ip, err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				x.hits.Add(1)
				_ = conn.Close()
			}
		}()
		t.Cleanup(func() { _ = l.Close(); <-done })
	}
	return x
}

// trickHosts are refused, by name or by address. The name server takes every name
// that it does not know for 127.0.0.1, as a lenient resolver does "0x7f.1" and as
// an attacker's does anything.
var trickHosts = []string{
	// 127.0.0.1 in the forms of inet_aton.
	"127.0.0.1", "127.0.0.1.", "127.0.0.1..", "127.1", "127.0.1", "127.000.000.001", "127.0.0.01", "0177.0.0.1", "0177.0.0.01",
	"0x7f.0.0.1", "0x7f.1", "0X7F.0x0.0x0.0x1", "0x7f000001", "0X7F000001", "2130706433", "2130706433.", "017700000001", "00000000017700000001",
	"4294967297", "127.0.0.257", "127.0.0.1.1", "0", "0.0.0.0", "00.00", "127.255.255.254",
	// 127.0.0.1 and ::1 in IPv6.
	"[::1]", "[0:0:0:0:0:0:0:1]", "[0000:0000:0000:0000:0000:0000:0000:0001]", "[::1%25lo]", "[::ffff:127.0.0.1]", "[::FFFF:7f00:1]",
	"[0:0:0:0:0:ffff:127.0.0.1]", "[::127.0.0.1]", "[::ffff:0:127.0.0.1]", "[64:ff9b::127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b:1::127.0.0.1]",
	"[64:ff9b:1:7f00:0:100::]", "[64:ff9b:1:7f:0:1::]", "[64:ff9b:1:0:7f:0:100::]", "[2002:7f00:1::]", "[2001:0:102:304:0:0:80ff:fffe]",
	"[2606:4700::5efe:127.0.0.1]", "[2606:4700::200:5efe:127.0.0.1]", "[::]", "[::%25lo]", "[fe80::1%25lo]", "[fe80::5efe:7f00:1]",
	// Letters and digits that become others.
	"localhost", "LOCALHOST", "localhost.", "any.localhost", "\uff11\uff12\uff17.0.0.1", "\uff11\uff12\uff17\u3002\uff10\u3002\uff10\u3002\uff11", "127\u30020\u30020\u30021",
	"\u2460\u2461\u2466.\u24ea.\u24ea.\u2460", "\u24db\u24de\u24d2\u24d0\u24db\u24d7\u24de\u24e2\u24e3", "loc\u0430lhost", "%E2%91%A0%E2%91%A1%E2%91%A6.0.0.1", "%EF%BC%91%EF%BC%92%EF%BC%97.1",
	// Cloud metadata.
	"169.254.169.254", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518", "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]",
	"[64:ff9b::a9fe:a9fe]", "[64:ff9b:1:a9fe:a9:fe00::]", "[2002:a9fe:a9fe::1]", "[2606:4700::5efe:a9fe:a9fe]", "[fd00:ec2::254]", "[fd00:ec2:0:0::254%25eth0]",
	"[fd20:ce::254]", "[fe80::a9fe:a9fe]", "100.100.100.200", "168.63.129.16", "192.0.0.192", "169.254.170.2",
	// Other networks, and none.
	"10.0.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "192.0.0.8", "192.0.2.1", "192.31.196.1", "192.52.193.1", "192.88.99.1", "192.175.48.1",
	"198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255", "[fc00::1]", "[fdff::1]", "[fec0::1]",
	"[ff02::1]", "[ff0e::1]", "[100::1]", "[2001:2::1]", "[2001:10::1]", "[2001:20::1]", "[2001:db8::1]", "[2002:808:808::1]", "[2620:4f:8000::1]", "[3fff::1]", "[5f00::1]", "[4000::1]",
	// Names, told by the name server below.
	"anything.test", "v6.test", "mapped.test", "compatible.test", "translated.test", "nat64.test", "local-nat64.test", "sixtofour.test", "teredo.test", "isatap.test",
	"alias.test", "chain.test", "to-localhost.test", "to-number.test", "zero.test", "zero6.test", "private.test", "both.test", "site-local.test", "linklocal6.test",
	"metadata.google.internal", "metadata6.test", "alibaba.test", "azure.test", "cgnat.test", "documentation.test", "multicast.test", "broadcast.test", "srv6.test",
}

// trickURLs are whole URLs, in which P is the port of the target. They are refused,
// or are none.
var trickURLs = []string{
	"http://example.com@127.0.0.1:P/", "http://example.com:P@127.0.0.1:P/", "http://a:b@c:d@127.0.0.1:P/", "http://127.0.0.1:P\\@example.com/",
	"http://127.0.0.1:P#@example.com/", "http://127.0.0.1:P?@example.com/", "http://127.0.0.1:P;@127.0.0.1:P/", "http://example.com%40127.0.0.1:P/",
	"HTTP://127.0.0.1:P/", "hTtPs://127.0.0.1:P/", "http:///127.0.0.1:P/", "http:127.0.0.1:P", "//127.0.0.1:P/", "http://127.0.0.1:P:P/", "http://[::1]P/", "http://[::1", "http://::1:P/",
	"http://%31%32%37.0.0.1:P/", "http://127%2e0%2e0%2e1:P/", "http://127.0.0.1%00.example.com:P/", "http://127.0.0.1%0d%0a:P/", "http://127.0.0.1\r\n:P/", "http:// 127.0.0.1:P/", "http://127.0.0.1\t:P/",
	"http://127.0.0.1:0/", "http://127.0.0.2:0/", "http://127.0.0.2:00/", "http://127.0.0.2:65536/", "http://127.0.0.2:-1/", "http://127.0.0.2:+P/", "http://127.0.0.2:0xP/", "http://127.0.0.2:http/",
	"http://127.0.0.2:22/", "http://127.0.0.2:025/", "https://127.0.0.2:25/", "http://good.test:25/", "http://good.test:6379/", "http://good.test:11211/",
	"file:///etc/passwd", "gopher://127.0.0.1:P/_x", "ftp://127.0.0.1:P/", "unix:///run/docker.sock", "data:,x", "javascript:1", "ws://127.0.0.1:P/", "",
}

// portsOfOthers are all ports that browsers block, from the table of the Fetch
// standard ("port blocking"), and some of databases, queues, files and desktops.
var portsOfOthers = []int{
	0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110, 111, 113, 115, 117, 119,
	123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990,
	993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
	445, 873, 1433, 1521, 1883, 3306, 3389, 5432, 5672, 5900, 6379, 9042, 9092, 11211, 26379, 27017, 61616,
}

var trickNames = map[string][][]string{
	"*":                        {{"127.0.0.1"}},
	"good.test":                {{"127.0.0.2"}},
	"v6.test":                  {{"::1"}},
	"mapped.test":              {{"::ffff:127.0.0.1"}},
	"compatible.test":          {{"::127.0.0.1"}},
	"translated.test":          {{"::ffff:0:127.0.0.1"}},
	"nat64.test":               {{"64:ff9b::7f00:1"}},
	"local-nat64.test":         {{"64:ff9b:1::7f00:1"}},
	"sixtofour.test":           {{"2002:7f00:1::1"}},
	"teredo.test":              {{"2001:0:102:304:0:0:80ff:fffe"}},
	"isatap.test":              {{"2606:4700::5efe:7f00:1"}},
	"alias.test":               {{"unknown.test"}},
	"chain.test":               {{"chain2.test"}},
	"chain2.test":              {{"chain3.test"}},
	"chain3.test":              {{"v6.test"}},
	"to-localhost.test":        {{"localhost"}},
	"to-number.test":           {{"0x7f.1"}},
	"zero.test":                {{"0.0.0.0"}},
	"zero6.test":               {{"::"}},
	"private.test":             {{"10.0.0.1", "192.168.0.1", "172.16.0.1", "fd00::1"}},
	"both.test":                {{"127.0.0.1", "::1"}},
	"site-local.test":          {{"fec0::1"}},
	"linklocal6.test":          {{"fe80::1"}},
	"metadata.google.internal": {{"169.254.169.254"}},
	"metadata6.test":           {{"fd00:ec2::254"}},
	"alibaba.test":             {{"100.100.100.200"}},
	"azure.test":               {{"168.63.129.16"}},
	"cgnat.test":               {{"100.64.0.1"}},
	"documentation.test":       {{"3fff::1", "2001:db8::1", "203.0.113.1"}},
	"multicast.test":           {{"224.0.0.1", "ff02::1"}},
	"broadcast.test":           {{"255.255.255.255"}},
	"srv6.test":                {{"5f00::1"}},
}

// None of the tricks connects to anything but what is allowed, by the real client
// and real connections (spec.md 1 and 7.24).
func TestTricks_HUB02(t *testing.T) { bothWays(t, testTricks) }

func testTricks(t *testing.T, send way) {
	x := newTarget(t)
	c := newClient(t, Options{Allow: prefixes("127.0.0.2/32"), ConnectTimeout: time.Minute, Resolver: resolver(t, trickNames)})
	if n := len(trickHosts) + len(trickURLs); n < 60 {
		t.Fatalf("%d tricks", n)
	}
	for _, host := range trickHosts {
		for _, u := range []string{"http://" + host + ":" + x.port + "/", "https://" + host + ":" + x.port + "/"} {
			named := strings.HasSuffix(host, ".test") || strings.HasSuffix(host, ".internal")
			_, err := send(t.Context(), c, u)
			var none *net.DNSError // numbers are not even looked up
			if Classify(err) != FailureRefused && (named || !errors.As(err, &none) || !none.IsNotFound) {
				t.Errorf("%s: %v, want a refusal", u, err)
			}
			if !named && c.CheckLiteral(u) == nil {
				t.Errorf("%s: its text tells nothing", u)
			}
		}
	}
	for _, raw := range trickURLs {
		u := strings.ReplaceAll(raw, "P", x.port)
		if _, err := send(t.Context(), c, u); err == nil {
			t.Errorf("%q was called", u)
		}
	}
	for _, port := range portsOfOthers {
		for _, host := range []string{"127.0.0.2", "good.test"} {
			for _, scheme := range []string{"http", "https"} {
				_, err := send(t.Context(), c, fmt.Sprintf("%s://%s:%d/", scheme, host, port))
				var refused *RefusedError
				if !errors.As(err, &refused) || refused.Kind != RefusedPort {
					t.Errorf("port %d of %s: %v, want a refusal", port, host, err)
				}
			}
		}
	}
	if x.hits.Load() != 0 || x.good.Load() != 0 {
		t.Errorf("%d connections to what is refused, and %d requests elsewhere", x.hits.Load(), x.good.Load())
	}
	// And the target is there: the client would have reached it.
	open := newClient(t, Options{Allow: DevAllow(), Resolver: resolver(t, trickNames)})
	for _, host := range []string{"127.0.0.1", "mapped.test", "chain3.test", "anything.test"} {
		if _, err := send(t.Context(), open, "http://"+host+":"+x.port+"/"); Classify(err) == FailureRefused {
			t.Errorf("%s: %v", host, err)
		}
	}
	if x.hits.Load() == 0 {
		t.Error("the target counts nothing")
	}
}

// A name that changes with every lookup leads where it may, or nowhere: the
// address that was judged is the one that is dialled.
func TestTricksOfRebinding_HUB02(t *testing.T) {
	x := newTarget(t)
	var flips [][]string
	for i := range 40 {
		flips = append(flips, [][]string{
			{"127.0.0.2"},
			{"127.0.0.1"},
			{"127.0.0.2", "127.0.0.1"},
			{"127.0.0.1", "127.0.0.2"},
			{"::1", "127.0.0.2"},
			{"loop.test"},
			{"good.test"},
			{"0.0.0.0", "::", "::ffff:127.0.0.1", "127.0.0.2"},
		}[i%8])
	}
	var many []string
	for i := range 20 {
		many = append(many, fmt.Sprintf("127.0.0.%d", 10+i))
	}
	names := map[string][][]string{
		"flip.test": flips, "loop.test": {{"127.0.0.1", "::1"}}, "good.test": {{"127.0.0.2"}},
		"late.test": {append(slices.Clone(many), "127.0.0.2")}, "early.test": {append([]string{"127.0.0.2"}, many...)},
	}
	c := newClient(t, Options{Allow: prefixes("127.0.0.2/32"), Resolver: resolver(t, names)})
	u := "http://flip.test:" + x.port + "/"
	reached, refused := 0, 0
	for range flips {
		if err := c.CheckLiteral(u); err != nil {
			t.Fatalf("a name was refused unseen: %v", err)
		}
		switch _, err := get(c, u); Classify(err) {
		case FailureNone:
			reached++
		case FailureRefused:
			refused++
		default:
			t.Errorf("%v", err)
		}
		c.CloseIdleConnections()
	}
	if reached < 10 || refused < 10 {
		t.Errorf("%d reached, %d refused: the name did not change", reached, refused)
	}
	// One of many addresses, so that none of the others is called: where it comes
	// after more than are tried, it is not called either.
	if _, err := get(c, "http://early.test:"+x.port+"/"); err != nil {
		t.Errorf("early: %v", err)
	}
	if _, err := get(c, "http://late.test:"+x.port+"/"); Classify(err) != FailureRefused {
		t.Errorf("late: %v", err)
	}
	if x.hits.Load() != 0 || int(x.good.Load()) != reached+1 {
		t.Errorf("%d connections to what is refused; %d requests, want %d", x.hits.Load(), x.good.Load(), reached+1)
	}
}

// Whatever is allowed, link-local and metadata addresses and those that are not
// one host stay refused, and so does all that leads to them.
func TestAllowNeverOpens_HUB02(t *testing.T) { bothWays(t, testAllowNeverOpens) }

func testAllowNeverOpens(t *testing.T, send way) {
	c := newClient(t, Options{ConnectTimeout: time.Minute, Allow: prefixes(
		"0.0.0.0/0", "::/0", "169.254.0.0/16", "169.254.169.254/32", "fe80::/10", "fd00:ec2::254/128", "100.100.100.200/32", "168.63.129.16/32",
		"64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "2606:4700::/32", "224.0.0.0/4", "ff00::/8",
	), Resolver: resolver(t, map[string][][]string{
		"a.test": {{"169.254.169.254"}}, "b.test": {{"fd00:ec2::254"}}, "c.test": {{"64:ff9b:1:a9fe:a9:fe00::"}}, "d.test": {{"fe80::1", "::ffff:169.254.0.1", "0.0.0.0"}},
	})})
	for _, host := range []string{
		"169.254.169.254", "169.254.0.1", "[fe80::1]", "[fe80::1%25lo]", "[::ffff:169.254.169.254]", "[::169.254.169.254]", "[::ffff:0:169.254.169.254]",
		"[64:ff9b::a9fe:a9fe]", "[64:ff9b:1::a9fe:a9fe]", "[64:ff9b:1:a9fe:a9:fe00::]", "[64:ff9b:1:a9:fe:a9fe::]", "[64:ff9b:1:0:a9:fea9:fe00:0]",
		"[2002:a9fe:a9fe::]", "[2001:0:102:304::5601:5601]", "[2606:4700::5efe:a9fe:a9fe]", "[2606:4700::200:5efe:a9fe:a9fe]", "[2002:808:808::5efe:a9fe:a9fe]",
		"[fd00:ec2::254]", "[fd00:ec2::253]", "[fd00:ec2::23]", "[fd20:ce::254]", "[fd00:42::42]", "[fd00:c1::a9fe:a9fe]", "100.100.100.200", "168.63.129.16", "192.0.0.192", "169.254.170.23",
		"0.0.0.0", "[::]", "224.0.0.1", "[ff02::1]", "255.255.255.255", "a.test", "b.test", "c.test", "d.test",
	} {
		_, err := send(t.Context(), c, "http://"+host+":8/")
		var refused *RefusedError
		if !errors.As(err, &refused) || !strings.Contains(refused.Error(), "no flag") {
			t.Errorf("%s: %v, want refused for ever", host, err)
		}
	}
	for _, addr := range []string{"64:ff9b:1::a00:1", "64:ff9b:1:808:8:800::", "2606:4700::5efe:a00:1", "2002:808:808::1", "10.0.0.1", "127.0.0.1"} {
		if err := c.CheckLiteral("http://" + (&net.TCPAddr{IP: net.ParseIP(addr), Port: 8080}).String() + "/"); err != nil {
			t.Errorf("%v, though it is allowed", err)
		}
	}
}
