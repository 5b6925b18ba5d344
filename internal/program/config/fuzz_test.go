package config

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The hub's own URL goes out in Link headers and is compared to the byte.
func FuzzParsePublicURL(f *testing.F) {
	for _, s := range []string{"https://hub.example.org/", "http://[::1]:8080", "", "https://a/?", "https://u@a/", "https://a/%zz", "https:a", "HTTPS://A/\u00e9"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parsePublicURL(s)
		if err != nil || s == "" {
			return
		}
		u, err := url.Parse(s)
		if got != s || err != nil || u.Hostname() == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
			t.Errorf("%q was accepted as %q", s, got)
		}
		for _, c := range []byte(s) {
			if c <= ' ' || c >= 0x7f || strings.IndexByte("<>\"?#", c) >= 0 {
				t.Errorf("%q holds %q", s, c)
			}
		}
	})
}

// Where traces go is logged, and is a URL with a path.
func FuzzParseEndpoint(f *testing.F) {
	for _, s := range []string{"http://127.0.0.1:4318", "https://[::1]/v1/traces", "", "collector:4318", "http://u:p@c/", "http://c/?k", "http:///x", "HTTP://c:0/%zz"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseEndpoint(s)
		if err != nil || s == "" {
			return
		}
		u, err := url.Parse(got)
		if err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || len(u.Path) < 2 || u.Scheme != "http" && u.Scheme != "https" {
			t.Errorf("%q was accepted as %q", s, got)
		}
		if again, err := parseEndpoint(got); err != nil || again != got {
			t.Errorf("%q is %q, which is read as %q, %v", s, got, again, err)
		}
	})
}

// A password is in no error and in nothing that is shown, however wrong the rest
// is.
func FuzzParseProxy(f *testing.F) {
	const password = "s3cr3tpassw0rd"
	for _, s := range []string{"http://u:%s@proxy:3128", "https://%s@[::1]", "", "%s", "http://u:%s@/", "%s://@", "http://u:%s@p:x", "http://u:%s@p/?q#f", "http://u:%s\x7f@p", "socks5://u:%s@p"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.Replace(s, "%s", password, 1)
		got, err := parseProxy(s)
		if err != nil && strings.Contains(err.Error(), password) {
			t.Errorf("the error of %q has the password: %v", s, err)
		}
		u, perr := url.Parse(s)
		if err == nil && s != "" && (perr != nil || u.Hostname() == "" || string(got) != s) {
			t.Errorf("%q was accepted as %q", s, string(got))
		}
		for _, err := range []error{second(parsePublicURL(s)), second(parseEndpoint(s))} {
			if err != nil && perr == nil && u.User != nil && !strings.Contains(u.Scheme+u.Host+u.Path+u.RawQuery+u.Fragment, password) && strings.Contains(err.Error(), password) {
				t.Errorf("the error of %q has the password: %v", s, err)
			}
		}
		if shown := hideUser(s); perr == nil && u.User != nil && strings.Contains(u.User.String(), password) &&
			!strings.Contains(u.Host, password) && strings.Contains(shown, password) {
			t.Errorf("%q is shown as %q", s, shown)
		}
	})
}

func second(_ string, err error) error { return err }

// No range opens link-local addresses on purpose, however it is written.
func FuzzParseAllowed(f *testing.F) {
	for _, s := range []string{"10.0.0.0/8", "169.254.169.254", "fe80::/10", "::ffff:169.254.0.0/112", "fd00::1/8", "0.0.0.0/0", "10.0.0.1%eth0", "1/8"} {
		f.Add(s)
	}
	local := []netip.Prefix{netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("fe80::/10")}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParseAllowedRange(s)
		if err != nil {
			return
		}
		if !p.IsValid() || p != p.Masked() || p.Addr().Zone() != "" {
			t.Errorf("%q was accepted as %v", s, p)
		}
		for _, l := range local {
			if l.Contains(p.Addr().Unmap()) && p.Bits() >= 16 {
				t.Errorf("%q opens %v", s, p)
			}
		}
	})
}

// An accepted address has the form of one to listen on.
func FuzzParseAddr(f *testing.F) {
	for _, s := range []string{":8080", "127.0.0.1:0", "[::1]:65535", "a:65536", "a:+1", "::1:80", "a/b:1", "host:"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseAddr(s)
		if err != nil {
			return
		}
		_, port, err := net.SplitHostPort(got)
		if _, perr := strconv.ParseUint(port, 10, 16); got != s || err != nil || perr != nil {
			t.Errorf("%q was accepted as %q, %v", s, got, perr)
		}
	})
}

// The items of a list, joined again, are the same list.
func FuzzSplit(f *testing.F) {
	for _, s := range []string{"", " , ,", "a,b c", "https://a/x,y,https://b/*", "a,http://,http://,,", "*,https://b\t\nhttp://c,"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		list := split(s)
		for _, one := range list {
			if one == "" || strings.TrimSpace(one) != one {
				t.Errorf("%q holds %q", s, one)
			}
		}
		if again := split(strings.Join(list, " ")); !slices.Equal(again, list) {
			t.Errorf("%q is %q, which is %q", s, list, again)
		}
	})
}

// A rate of both kinds is what its parts are, each at most once.
func FuzzParsePublishRate(f *testing.F) {
	for _, s := range []string{"600/m", "2GiB/h", "1B/s,1/s", "0", "1/s,2/s", "0,1/s", ",", "1/s,1/s,1B/s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		requests, bytes, err := parsePublishRate(s)
		if err != nil {
			if requests != (Rate{}) || bytes != (Rate{}) {
				t.Errorf("%q is refused, and %v, %v", s, requests, bytes)
			}
			return
		}
		for _, r := range []Rate{requests, bytes} {
			if r.Count < 0 || (r.Count > 0) != (r.Per > 0) {
				t.Errorf("%q holds %+v", s, r)
			}
		}
		if n := strings.Count(s, ",") + 1; n > 2 || s != "0" && (requests.Count > 0) == (bytes.Count > 0) != (n == 2) {
			t.Errorf("%q is %v, %v", s, requests, bytes)
		}
	})
}
