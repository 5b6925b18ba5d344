package egress

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/rshub/rshub/internal/base/post"
)

func newClient(t testing.TB, o Options) *Client {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func prefixes(s ...string) []netip.Prefix {
	out := make([]netip.Prefix, 0, len(s))
	for _, p := range s {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

// alwaysRefused stays so whatever is allowed. The value is a word of the reason.
var alwaysRefused = map[string]string{
	"169.254.169.254":          "metadata",
	"::ffff:169.254.169.254":   "metadata",
	"::ffff:a9fe:a9fe":         "metadata",
	"64:ff9b::a9fe:a9fe":       "metadata",
	"64:ff9b:1::a9fe:a9fe":     "metadata",
	"2002:a9fe:a9fe::1":        "metadata",
	"2001:0:1:2:3:4:5601:5601": "metadata", // Teredo, a9fe a9fe inverted
	"::169.254.169.254":        "metadata",
	"168.63.129.16":            "metadata",
	"100.100.100.200":          "metadata",
	"192.0.0.192":              "metadata",
	"fd00:ec2::254":            "metadata",
	"fd00:ec2::254%eth0":       "metadata",
	"fd20:ce::254":             "metadata",
	"fd00:c1::a9fe:a9fe":       "metadata",
	"fd00:42::42":              "metadata",
	"169.254.0.1":              "link-local",
	"169.254.255.255":          "link-local",
	"169.254.170.2":            "link-local", // credentials of AWS container tasks
	"fe80::1":                  "link-local",
	"fe80::1%lo":               "link-local",
	"febf::1":                  "link-local",
	"224.0.0.1":                "multicast",
	"239.255.255.250":          "multicast",
	"ff02::1":                  "multicast",
	"255.255.255.255":          "broadcast",
	"0.0.0.0":                  "unspecified",
	"0.1.2.3":                  "unspecified",
	"::":                       "unspecified",
	"::ffff:0.0.0.0":           "unspecified",
}

// refusedByDefault may be allowed by name.
var refusedByDefault = []string{
	"127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1", "::ffff:7f00:1", "::127.0.0.1",
	"10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.0.1", "::ffff:192.168.1.1",
	"fc00::1", "fd12:3456:789a::1", "100.64.0.1", "100.127.255.255",
	"192.0.0.1", "192.0.2.1", "198.51.100.1", "203.0.113.1", "198.18.0.1", "198.19.255.255",
	"192.88.99.1", "240.0.0.1", "2001:db8::1", "3fff::1", "3fff:fff:ffff::1",
	"64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::808:808", "2002:7f00:1::", "2002:808:808::1",
	"2001::1", "2001:20::1", "100::1", "5f00::1", "fec0::1", "4000::1",
}

var public = []string{
	"8.8.8.8", "1.1.1.1", "93.184.216.34", "172.15.255.255", "172.32.0.1", "192.167.255.255", "100.63.255.255", "100.128.0.1",
	"11.0.0.1", "126.255.255.255", "128.0.0.1", "169.253.255.255", "169.255.0.1", "223.255.255.255",
	"2606:4700:4700::1111", "2a00:1450:4001::1", "3ffe::1", "::ffff:8.8.8.8", "168.63.129.15",
}

func TestPolicyOfAddresses(t *testing.T) {
	strict := newClient(t, Options{})
	everything := newClient(t, Options{Allow: append(DevAllow(), prefixes("0.0.0.0/0", "::/0", "169.254.0.0/16", "fe80::/10")...)})
	for a, word := range alwaysRefused {
		for name, c := range map[string]*Client{"default": strict, "everything allowed": everything} {
			r := c.policy.check(netip.MustParseAddr(a))
			if r == nil || !strings.Contains(r.Error(), word) || !strings.Contains(r.Error(), "no flag") {
				t.Errorf("%s, %s: %v, want refused for ever as %q", a, name, r, word)
			}
		}
	}
	for _, a := range refusedByDefault {
		r := strict.policy.check(netip.MustParseAddr(a))
		if r == nil || !strings.Contains(r.Error(), "--allow-cidr") {
			t.Errorf("%s: %v, want refused with the flag that would allow it", a, r)
		}
	}
	for _, a := range public {
		if r := strict.policy.check(netip.MustParseAddr(a)); r != nil {
			t.Errorf("refused: %v", r)
		}
	}
}

// The dialler itself refuses, in whichever form the address stands in the URL
// (HUB-02, spec.md 7.24).
func TestDialRefusesAddresses_HUB02(t *testing.T) {
	c := newClient(t, Options{})
	addrs := append([]string(nil), refusedByDefault...)
	for a := range alwaysRefused {
		addrs = append(addrs, a)
	}
	for _, a := range addrs {
		host := a
		if strings.Contains(a, ":") {
			host = "[" + strings.ReplaceAll(a, "%", "%25") + "]"
		}
		for _, u := range []string{"http://" + host + ":8/", "https://" + host + ":8/"} {
			_, err := get(c, u)
			var refused *RefusedError
			if !errors.As(err, &refused) || Classify(err) != FailureRefused {
				t.Errorf("%s: %v, want *RefusedError", u, err)
			}
			if err := c.CheckLiteral(u); !errors.As(err, &refused) {
				t.Errorf("CheckLiteral(%s) = %v, want *RefusedError", u, err)
			}
		}
	}
}

func TestAllowOpensWhatItNames(t *testing.T) {
	c := newClient(t, Options{Allow: prefixes("10.1.2.3/8", "::1/128", "64:ff9b::/96")})
	for a, want := range map[string]bool{
		"10.9.9.9": true, "::ffff:10.9.9.9": true, "::1": true, "8.8.8.8": true,
		"64:ff9b::808:808": true, "64:ff9b::a00:1": true,
		"11.0.0.1": true, "127.0.0.1": false, "192.168.0.1": false,
		"64:ff9b::7f00:1": false, "64:ff9b::c0a8:1": false, // NAT64 to what is not allowed
	} {
		if r := c.policy.check(netip.MustParseAddr(a)); (r == nil) != want {
			t.Errorf("%s: %v, want allowed %v", a, r, want)
		}
	}
}

func TestDevAllowsLoopbackAndPrivateOnly(t *testing.T) {
	c := newClient(t, Options{Allow: DevAllow()})
	for _, a := range []string{"127.0.0.1", "::1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "fd00::1"} {
		if r := c.policy.check(netip.MustParseAddr(a)); r != nil {
			t.Errorf("refused: %v", r)
		}
		if err := newClient(t, Options{}).policy.check(netip.MustParseAddr(a)); !DevWouldAllow(fmt.Errorf("asking: %w", err)) {
			t.Errorf("nothing says that it would be allowed: %v", err)
		}
	}
	for _, a := range []string{"100.64.0.1", "192.0.2.1", "2001:db8::1", "198.18.0.1"} {
		if err := c.policy.check(netip.MustParseAddr(a)); err == nil || DevWouldAllow(err) {
			t.Errorf("%s is allowed, or would be: %v", a, err)
		}
	}
	for _, err := range []error{nil, errors.New("another"), checkPort("127.0.0.1", 9), &RefusedError{"localhost", "is not called", RefusedLoopback}} {
		if DevWouldAllow(err) {
			t.Errorf("would be allowed: %v", err)
		}
	}
}

func TestNewRefusesRangesThatAreNone(t *testing.T) {
	for _, p := range []netip.Prefix{{}, netip.MustParsePrefix("::ffff:10.0.0.0/104")} {
		if _, err := New(Options{Allow: []netip.Prefix{p}}); err == nil || !strings.Contains(err.Error(), "10.0.0.0/8") {
			t.Errorf("%v: %v, want an error with an example", p, err)
		}
	}
}

func TestCheckLiteral(t *testing.T) {
	strict, dev := newClient(t, Options{}), newClient(t, Options{Allow: DevAllow()})
	for _, tc := range []struct {
		url         string
		strict, dev bool // refused
	}{
		{"http://example.org/cb", false, false},
		{"http://8.8.8.8/", false, false},
		{"http://8.8.8.8./", true, true}, // nothing dials that
		{"http://127.0.0.1/", true, false},
		{"http://127.0.0.1./", true, true},
		{"http://example.org./", false, false},
		{"http://example.org../", true, true},
		{"http://localhost../", true, true},
		{"http://127.0.0.1:8080/x?y", true, false},
		{"http://[::1]:8080/", true, false},
		{"http://localhost/", true, false},
		{"http://LOCALHOST.:8080/", true, false},
		{"http://a.b.localhost/", true, false},
		{"http://notlocalhost/", false, false},
		{"http://localhost.example/", false, false},
		// Forms that inet_aton takes for an address.
		{"http://2130706433/", true, true},
		{"http://0x7f000001/", true, true},
		{"http://0X7F.1/", true, true},
		{"http://017700000001/", true, true},
		{"http://127.1/", true, true},
		{"http://0177.0.0.1/", true, true},
		{"http://127.0.0.01/", true, true},
		{"http://134744072/", true, true},
		{"http://1.2.3.256/", true, true},
		{"http://1.2.3.4.5/", true, true},
		{"http://0x/", true, true},
		{"http://a.0x/", true, true},
		{"http://example.1/", true, true},
		{"http://example.1e/", false, false},
		{"http://0x7g/", false, false},
		{"http://169.254.169.254/latest/meta-data/", true, true},
		{"http://[fe80::1%25eth0]/", true, true},
		{"http://[::ffff:169.254.169.254]/", true, true},
	} {
		for name, c := range map[string]*Client{"strict": strict, "dev": dev} {
			want := tc.strict
			if c == dev {
				want = tc.dev
			}
			err := c.CheckLiteral(tc.url)
			var refused *RefusedError
			if (err != nil) != want || err != nil && !errors.As(err, &refused) {
				t.Errorf("%s, %s: %v, want refused %v", tc.url, name, err, want)
			}
		}
	}
	for _, u := range []string{"", "/path", "http://", "http://[::1/", "http://a b/"} {
		var refused *RefusedError
		if err := strict.CheckLiteral(u); err == nil || errors.As(err, &refused) {
			t.Errorf("%q: %v, want an error that is no refusal", u, err)
		}
	}
}

func TestRefusalsAreSentences(t *testing.T) {
	c := newClient(t, Options{})
	for u, want := range map[string]string{
		"http://127.0.0.1/":         "127.0.0.1 is a loopback address, which is not called unless --allow-cidr 127.0.0.0/8 allows it",
		"http://198.18.0.1/":        "198.18.0.1 is not a public address, which is not called unless --allow-cidr 198.18.0.1/32 allows it",
		"http://169.254.169.254/":   "169.254.169.254 is the metadata service of a cloud, which is never called; no flag allows it",
		"http://localhost/":         "localhost stands for 127.0.0.1, which is a loopback address, which is not called unless --allow-cidr 127.0.0.0/8 allows it",
		"http://[64:ff9b::a00:1]/x": "64:ff9b::a00:1 leads to 10.0.0.1, which is a private address, which is not called unless --allow-cidr 10.0.0.0/8 allows it",
	} {
		if err := c.CheckLiteral(u); err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", u, err, want)
		}
	}
	c = newClient(t, Options{Unless: AllowedBy("Options.Allow")})
	if err := c.CheckLiteral("http://127.0.0.1/"); err == nil || err.Error() != "127.0.0.1 is a loopback address, which is not called unless Options.Allow 127.0.0.0/8 allows it" {
		t.Error(err)
	}
}

// way is one of the two ways to send a request, and returns the beginning of an answer that is not 2xx,
// or of any.
type way func(ctx context.Context, c *Client, u string) (string, error)

// bothWays runs a test of what Do and Post both promise.
func bothWays(t *testing.T, test func(*testing.T, way)) {
	t.Run("Do", func(t *testing.T) { test(t, getWith) })
	t.Run("Post", func(t *testing.T) { test(t, postWith) })
}

func postWith(ctx context.Context, c *Client, u string) (string, error) {
	a, err := c.Post(ctx, postTo(u))
	return string(a.Body), err
}

func postTo(u string) *post.Request {
	return &post.Request{
		URL: u, Head: post.NewHead(), Body: []byte("body"),
		Stall: time.Hour, Whole: time.Hour, Rest: time.Second, Read: 4096, Keep: 4096,
	}
}

// get makes a GET and returns the answer's body.
func get(c *Client, u string) (string, error) { return getWith(context.Background(), c, u) }

func getWith(ctx context.Context, c *Client, u string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
	if err != nil {
		return "", err
	}
	_, body, err := do(c, req)
	return body, err
}

func do(c *Client, req *http.Request) (status int, body string, err error) {
	resp, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := ReadBody(resp.Body, 1<<20)
	return resp.StatusCode, string(b), err
}
