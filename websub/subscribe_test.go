package websub

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	good      = "hub.mode=subscribe&hub.topic=http%3A%2F%2Fexample.org%2Ft&hub.callback=http%3A%2F%2Fexample.com%2Fc"
	goodUnsub = "hub.mode=unsubscribe&hub.topic=http%3A%2F%2Fexample.org%2Ft&hub.callback=http%3A%2F%2Fexample.com%2Fc"
)

func TestParseSubscribe(t *testing.T) {
	want := SubscribeRequest{Mode: ModeSubscribe, Topic: "http://example.org/t", Callback: "http://example.com/c"}
	with := func(change func(*SubscribeRequest)) SubscribeRequest {
		r := want
		change(&r)
		return r
	}
	unsub := with(func(r *SubscribeRequest) { r.Mode = ModeUnsubscribe })
	for _, test := range []struct {
		name, body string
		want       SubscribeRequest
	}{
		{"the least there can be", good, want},
		{"HUB-09 unknown parameters", good + "&foo=bar&hub.foo=hub.bar&hub.verify=sync&hub.verify=async&hub.verify_token=x", want},
		{"HUB-09 the same value twice", good + "&hub.mode=subscribe&hub.topic=http://example.org/t", want},
		{"HUB-05 lease", good + "&hub.lease_seconds=86400", with(func(r *SubscribeRequest) { r.Lease, r.HasLease = 24*time.Hour, true })},
		{"HUB-05 empty lease", good + "&hub.lease_seconds=", want},
		{"HUB-05 leading zeros", good + "&hub.lease_seconds=0060", with(func(r *SubscribeRequest) { r.Lease, r.HasLease = time.Minute, true })},
		{"HUB-07 secret", good + "&hub.secret=s%26%3D+%2B", with(func(r *SubscribeRequest) { r.Secret = "s&= +" })},
		{"HUB-07 empty secret", good + "&hub.secret=", want},
		{"HUB-03 unsubscribe", goodUnsub, unsub},
		{"HUB-06 lease of an unsubscribe", goodUnsub + "&hub.lease_seconds=60", unsub},
		{"HUB-06 bad lease of an unsubscribe", goodUnsub + "&hub.lease_seconds=abc&hub.lease_seconds=-1", unsub},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := ParseSubscribe(parse(t, test.body))
			if err != nil || got != test.want {
				t.Errorf("%+v, %v\nwant %+v", got, err, test.want)
			}
		})
	}
}

// Tests of HUB-02, HUB-03, HUB-04 and HUB-09: what is missing or ambiguous.
func TestParseSubscribeRefuses(t *testing.T) {
	const topic, callback = "&hub.topic=http://a/", "&hub.callback=http://b/"
	for _, test := range []struct{ body, param, words string }{
		{"", ParamMode, "missing"},
		{"hub.mode=publish" + topic + callback, ParamMode, "publish"},
		{"hub.mode=subscribe" + topic, ParamCallback, "missing"},
		{"hub.mode=subscribe" + topic + "&hub.callback=", ParamCallback, "missing"},
		{"hub.mode=subscribe" + callback, ParamTopic, `missing in the body of the request: send the topic's URL`},
		{"hub.mode=subscribe" + topic + "&hub.callback=ftp://b/", ParamCallback, "http or https"},
		{"hub.mode=unsubscribe&hub.topic=//a/" + callback, ParamTopic, "http or https"},
		{"hub.mode=subscribe" + topic + callback + "&hub.callback=http://c/", ParamCallback, "more than once"},
		{"hub.mode=subscribe" + topic + callback + "&hub.topic=http://a", ParamTopic, "more than once"},
		{"hub.mode=subscribe" + topic + callback + "&hub.secret=a&hub.secret=b", ParamSecret, "more than once"},
		{"hub.mode=subscribe" + topic + callback + "&hub.secret=a&hub.secret=", ParamSecret, "more than once"},
		{"hub.mode=subscribe" + topic + callback + "&hub.lease_seconds=1&hub.lease_seconds=2", ParamLeaseSeconds, "more than once"},
	} {
		r, err := ParseSubscribe(parse(t, test.body))
		refused(t, err, test.param, test.words)
		if r != (SubscribeRequest{}) {
			t.Errorf("%+v beside an error", r)
		}
	}
}

// What is not a positive decimal integer is refused, and named.
func TestLeaseThatIsNoNumberIsRefused_HUB05(t *testing.T) {
	for _, v := range []string{" ", "0", "000", "-1", "abc", "1.5", "1e3", "0x10", "60s", " 60", "60 ", "+60", "٣", "1_000", strings.Repeat("9", 400) + "x"} {
		_, err := ParseSubscribe(parse(t, good+"&hub.lease_seconds="+url.QueryEscape(v)))
		refused(t, err, ParamLeaseSeconds, "seconds greater than 0")
	}
}

// HUB-05: a number out of range is the hub's to clamp, and never overflows.
func TestGreatLeaseStaysGreat_HUB05(t *testing.T) {
	for v, want := range map[string]time.Duration{
		"2678400":                 31 * 24 * time.Hour,
		"9223372036":              MaxLease,
		"9223372035":              MaxLease - time.Second,
		"9223372037":              MaxLease,
		"18446744073":             MaxLease, // times 10^9 it is a small number mod 2^64
		"9223372036854775807":     MaxLease,
		"9223372036854775808":     MaxLease,
		"99999999999999999999":    MaxLease,
		strings.Repeat("9", 5000): MaxLease,
	} {
		r, err := ParseSubscribe(parse(t, good+"&hub.lease_seconds="+v))
		if err != nil || !r.HasLease || r.Lease != want {
			t.Errorf("%.30s: %v, %v; want %v", v, r.Lease, err, want)
		}
	}
}

// HUB-07: under 200 bytes of decoded UTF-8, not characters, not escapes.
func TestSecretIsUnder200Bytes_HUB07(t *testing.T) {
	for secret, ok := range map[string]bool{
		strings.Repeat("x", 199):        true,
		strings.Repeat("x", 200):        false,
		strings.Repeat("ü", 99) + "x":   true,
		strings.Repeat("ü", 100):        false,
		strings.Repeat("\u00a0", 101):   false,
		strings.Repeat("&", 199):        true, // 597 bytes on the wire
		strings.Repeat("😀", 49) + "xyz": true,
	} {
		r, err := ParseSubscribe(parse(t, good+"&hub.secret="+url.QueryEscape(secret)))
		if ok && (err != nil || r.Secret != secret) {
			t.Errorf("%d bytes: %v", len(secret), err)
		}
		if !ok {
			refused(t, err, ParamSecret, fmt.Sprintf("is %d bytes long: send a secret of at most 199 bytes", len(secret)))
			if strings.Contains(err.Error(), secret) {
				t.Error("the sentence holds the secret")
			}
		}
	}
}

// HUB-10: decoded once, never twice.
func TestURLsAreDecodedOnce_HUB10(t *testing.T) {
	r, err := ParseSubscribe(parse(t, "hub.mode=subscribe"+
		"&hub.topic=http%3A%2F%2Fexample.org%2F%7Euser%2Fa%2520b%252Fc"+
		"&hub.callback=http%3A%2F%2Fexample.com%2F%3Fx%3D%2526%26y%3D%252B"))
	if err != nil || r.Topic != "http://example.org/~user/a%20b%2Fc" || r.Callback != "http://example.com/?x=%26&y=%2B" {
		t.Errorf("%+v, %v", r, err)
	}
}

// HUB-04, HUB-11: the pair is the subscription, so neither is normalised.
func TestURLsAreNotNormalised_HUB11(t *testing.T) {
	for _, u := range []string{
		"HTTP://Example.ORG:80/a/../b/./c//", "http://example.org", "http://example.org/", "http://example.org/?",
		"http://example.org/%7euser", "http://example.org/%7Euser", "http://example.org/?b=2&a=1&b=1&&", "https://example.org:443/",
	} {
		r, err := ParseSubscribe(parse(t, "hub.mode=subscribe&hub.topic="+url.QueryEscape(u)+"&hub.callback="+url.QueryEscape(u)))
		if err != nil || r.Topic != u || r.Callback != u {
			t.Errorf("%q became %+v, %v", u, r, err)
		}
	}
}

func TestParsePing_HUB60(t *testing.T) {
	for body, want := range map[string][]string{
		"hub.mode=publish&hub.url=http://a/":                                                  {"http://a/"},
		"hub.mode=publish&hub.topic=http://a/":                                                {"http://a/"},
		"hub.url=http://b/&hub.topic=http://a/&hub.url=http://c/&foo=x":                       {"http://b/", "http://a/", "http://c/"},
		"hub.url=http://a/&hub.topic=http://a/&hub.url=http://a/&hub.url=http://a":            {"http://a/", "http://a"},
		"hub.url=" + url.QueryEscape("http://a/?x=%20&y=1") + "&hub.mode=publish&hub.secret=": {"http://a/?x=%20&y=1"},
	} {
		if got, err := ParsePing(parse(t, body)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v", body, got, err)
		}
	}
	for _, test := range []struct{ body, param, words string }{
		{"hub.mode=publish", "", "the form names no topic"},
		{"hub.mode=publish&hub.url[]=http://a/&hub.url%5B%5D=http://b/", "", "without brackets, and once more for each further topic"},
		{"hub.mode=publish&hub.topic[0]=http://a/", "", "without brackets"},
		{"hub.mode=publish&hub.url=", ParamURL, "empty"},
		{"hub.url=http://a/&hub.topic=mailto:x", ParamTopic, "http or https"},
	} {
		topics, err := ParsePing(parse(t, test.body))
		refused(t, err, test.param, test.words)
		if topics != nil {
			t.Error(topics)
		}
	}
}

func TestParsePingTakesUpTo100_HUB60(t *testing.T) {
	var b strings.Builder
	for i := range MaxPing {
		fmt.Fprintf(&b, "&hub.url=http://a/%d&hub.topic=http://a/%d", i, i)
	}
	if topics, err := ParsePing(parse(t, b.String())); err != nil || len(topics) != 100 {
		t.Error(len(topics), err)
	}
	_, err := ParsePing(parse(t, b.String()+"&hub.url=http://b/"))
	refused(t, err, "", "more than 100 topics")
}

// MaxFormBytes really has room for every form that is within the limits.
func TestMaxFormBytes(t *testing.T) {
	longest := len("hub.topic=&") + 3*MaxURL
	if n := MaxPing * longest; n > MaxFormBytes {
		t.Error(n)
	}
}
