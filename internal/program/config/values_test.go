package config

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// textOf returns a rate as parseRate reads it.
func textOf(r Rate) string {
	for unit, per := range rateUnits {
		if r.Per == per {
			return fmt.Sprintf("%d/%s", r.Count, unit)
		}
	}
	return "0"
}

func TestParseRate(t *testing.T) {
	for s, want := range map[string]Rate{
		"0": {}, "600/m": {600, time.Minute}, "1/s": {1, time.Second}, "5/h": {5, time.Hour}, "2147483647/d": {math.MaxInt32, 24 * time.Hour},
	} {
		got, err := parseRate(s)
		if err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", s, got, err, want)
		}
		if textOf(got) != s {
			t.Errorf("%v comes back as %v", s, got)
		}
	}
	for _, s := range []string{"", "600", "/m", "600/", "600/w", "-1/s", "0/m", "1.5/s", "600/m/s", "2147483648/s", "600 / m"} {
		if got, err := parseRate(s); err == nil {
			t.Errorf("%q was accepted as %v", s, got)
		}
	}
}

func TestParseAddressesAndURLs(t *testing.T) {
	for s, ok := range map[string]bool{
		":8080": true, "127.0.0.1:0": true, "[::1]:8080": true, "localhost:65535": true,
		"": false, "8080": false, "::1:8080": false, ":http": false, ":65536": false, ":-1": false, "http://h:80": false,
	} {
		if _, err := parseAddr(s); (err == nil) != ok {
			t.Errorf("address %q: %v", s, err)
		}
	}
	for s, ok := range map[string]bool{
		"": true, "https://hub.example.org/": true, "http://[::1]:8080/hub/": true, "https://hub.example.org": true,
		"hub.example.org": false, "ftp://h/": false, "https://h/?a=b": false, "https://h/#f": false, "https://h/?": false,
		"https://u:p@h/": false, "https:///x": false, "https://h/a b": false, "https://h/<x>": false, "http://:80/": false,
	} {
		if _, err := parsePublicURL(s); (err == nil) != ok {
			t.Errorf("public URL %q: %v", s, err)
		}
	}
	for s, want := range map[string]string{
		"http://127.0.0.1:4318": "http://127.0.0.1:4318/v1/traces", "https://c.example.org/": "https://c.example.org/v1/traces",
		"http://[::1]:4318/v1/traces": "http://[::1]:4318/v1/traces", "https://c/otlp/v1/traces": "https://c/otlp/v1/traces",
		"127.0.0.1:4318": "", "collector:4318": "", "grpc://c:4317": "", "http://u:p@c/": "", "http://c/?key=1": "", "http:///v1/traces": "",
	} {
		if got, err := parseEndpoint(s); got != want || (err == nil) != (want != "") {
			t.Errorf("endpoint %q: %q, %v, want %q", s, got, err, want)
		}
	}
	for s, want := range map[string]string{
		"10.1.2.3/8": "10.0.0.0/8", "10.0.0.1": "10.0.0.1/32", "::1": "::1/128", "0.0.0.0/0": "0.0.0.0/0",
		"::ffff:10.1.2.3": "10.1.2.3/32", "::ffff:10.0.0.0/104": "10.0.0.0/8", "::FFFF:a00:1/128": "10.0.0.1/32", "::/0": "::/0", "::ffff:169.254.1.1": "",
		"169.254.169.254": "", "fe80::/10": "", "fe80::1%eth0": "", "10.0.0.0/33": "", "localhost": "", "": "",
	} {
		got, err := ParseAllowedRange(s)
		if (err == nil) != (want != "") || err == nil && got.String() != want {
			t.Errorf("range %q: %v, %v, want %q", s, got, err, want)
		}
	}
}

func TestSplit(t *testing.T) {
	for s, want := range map[string]string{
		"content,token":           "content|token",
		" content , token ":       "content|token",
		"":                        "",
		",":                       "",
		"10.0.0.0/8 fd00::/8":     "10.0.0.0/8|fd00::/8",
		"https://a.example/x,y/*": "https://a.example/x,y/*",
		"https://a.example/*,https://b.example/*":     "https://a.example/*|https://b.example/*",
		"https://a.example/* http://b.example/*":      "https://a.example/*|http://b.example/*",
		"https://a.example/x,y/*, http://b.example/*": "https://a.example/x,y/*,|http://b.example/*",
	} {
		if got := strings.Join(split(s), "|"); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
}

func TestParsePublishRate(t *testing.T) {
	perMinute := Rate{600, time.Minute}
	for s, want := range map[string][2]Rate{
		"0": {}, "600/m": {perMinute, {}}, "2GiB/h": {{}, {2 << 30, time.Hour}},
		"600/m,2GiB/h": {perMinute, {2 << 30, time.Hour}}, "50MiB/s,600/m": {perMinute, {50 << 20, time.Second}},
	} {
		requests, bytes, err := parsePublishRate(s)
		if err != nil || [2]Rate{requests, bytes} != want {
			t.Errorf("%q is %v and %v, %v", s, requests, bytes, err)
		}
	}
	for _, s := range []string{"", ",", "600/m,", "600/m,600/m", "1MiB/s,1GiB/h", "0,1GiB/h", "600/m,0", "0KiB/h", "2GiB", "2GiB/w", "2 GiB/h", "-1MiB/h", "600/m 2GiB/h", "99999999TiB/s"} {
		if requests, bytes, err := parsePublishRate(s); err == nil {
			t.Errorf("%q is accepted as %v and %v", s, requests, bytes)
		}
	}
	c, _ := load(t, []string{"--publish-rate=600/m,1GiB/h"}, nil)
	if c.PublishRate != perMinute || c.PublishBytes != (Rate{1 << 30, time.Hour}) {
		t.Errorf("%v, %v", c.PublishRate, c.PublishBytes)
	}
	wantError(t, []string{"--publish-rate=600/m,1MiB/s"}, nil, "publish-rate", "max-body")
}

// A number that is too large is not called something other than a number.
func TestTooLarge(t *testing.T) {
	for s, want := range map[string]string{
		"--max-inflight=abc":                    `"abc" is not a count; write a whole number such as 1000`,
		"--max-inflight=99999999999999999999":   `"99999999999999999999" is too large; the most is 2147483647`,
		"--max-inflight=2147483648":             `"2147483648" is too large; the most is 2147483647`,
		"--publish-rate=99999999999999999999/m": `"99999999999999999999/m" is too large; the most is 2147483647 before the slash`,
		"--subscribe-rate=2147483648/m":         `"2147483648/m" is too large; the most is 2147483647 before the slash`,
	} {
		wantError(t, []string{s}, nil, want)
	}
}

func FuzzParseRate(f *testing.F) {
	for _, s := range []string{"600/m", "0", "0/m", "01/s", "1/d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := parseRate(s)
		if err != nil {
			return
		}
		if r.Count < 0 || r.Per < 0 {
			t.Fatalf("%q was accepted as %+v", s, r)
		}
		if again, err := parseRate(textOf(r)); err != nil || again != r {
			t.Errorf("%q is %s, which reads as %v, %v", s, textOf(r), again, err)
		}
	})
}

func TestParseProxy(t *testing.T) {
	for text, ok := range map[string]bool{
		"": true, "http://proxy.example:3128": true, "http://proxy.example:3128/": true, "https://u:p%40@proxy.example": true, "http://token@[fd00::1]:80": true,
		"proxy.example:3128": false, "proxy.example": false, "socks5://proxy.example": false, "http://": false, "http://u:p@": false,
		"http://proxy.example/path": false, "http://proxy.example?": false, "http://proxy.example#": false, "http://********@proxy.example": false, "http://u:p%@proxy.example": false,
	} {
		got, err := parseProxy(text)
		if ok != (err == nil) || ok && string(got) != text {
			t.Errorf("%q: %q, %v", text, string(got), err)
		}
		if err != nil && !strings.Contains(err.Error(), "http://gate.example.org:3128, with USER:PASSWORD@ before the host") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// The proxy's password is in nothing that is printed: not in the settings as they
// are shown, nor as a file, nor in the Config itself, nor in an error.
func TestProxyPasswordIsNotShown(t *testing.T) {
	const password = "pa55word"
	c, origins, err := Load([]string{"--egress-proxy=http://hub:" + password + "@proxy.example:3128"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(c.EgressProxy), password) {
		t.Error("the password was lost")
	}
	file, err := origins.YAML()
	if err != nil {
		t.Fatal(err)
	}
	one := origins.Get("egress-proxy")
	for _, shown := range []string{string(file), one.Text(), origins.Says("egress-proxy")} {
		if !strings.Contains(shown, "http://********@proxy.example:3128") {
			t.Errorf("it is shown as %q", shown)
		}
	}
	for _, shown := range []string{string(file), fmt.Sprintf("%v %+v %#v %v", c, c, c, origins)} {
		if strings.Contains(shown, password) {
			t.Errorf("the password is in %q", shown)
		}
	}
	if _, _, err := Load(nil, []string{"RSHUB_EGRESS_PROXY=ftp://hub:" + password + "@proxy.example"}); err == nil ||
		strings.Contains(err.Error(), password) || !strings.Contains(err.Error(), "RSHUB_EGRESS_PROXY") {
		t.Errorf("a mistake is reported as %v", err)
	}
}
