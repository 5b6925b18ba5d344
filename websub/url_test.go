package websub

import (
	"net/url"
	"strings"
	"testing"
)

// HUB-02, HUB-04
func TestCheckURL_HUB02(t *testing.T) {
	for _, raw := range []string{
		"http://example.org", "https://example.org/", "HTTPS://EXAMPLE.org/x", "http://example.org:8080/a?b=c&d", "http://example.org:/",
		"http://127.0.0.1:1/", "http://[::1]/", "http://[2001:db8::1]:65535/x", "http://localhost/", "http://example.org?x",
		"http://xn--bcher-kva.example/", "http://example.org/a@b:c", "http://example.org/?u=http://a@b/",
		"http://example.org/?a|b{c}", "http://example.org?x=/{y}", "http://example.org/x?y://z/?", "http://example.org/,;=%20'()*!", "http://example.org/?%zz",
		"http://example.org/" + strings.Repeat("x", MaxURL-19),
		"http://" + strings.Repeat("a.", 126) + "a:80/", "http://" + strings.Repeat("a.", 126) + "a./",
	} {
		if err := CheckURL("p", raw); err != nil {
			t.Errorf("%q: %v", raw, err)
		}
	}
	for _, test := range []struct{ raw, words string }{
		{"", "is empty"},
		{"http://example.org/" + strings.Repeat("x", MaxURL-18), "is 2049 bytes long: send a URL of at most 2048 bytes"},
		{"example.org/x", "not an http or https URL"},
		{"//example.org/x", "not an http or https URL"},
		{"/x", "not an http or https URL"},
		{"ftp://example.org/", "not an http or https URL"},
		{"javascript:alert(1)", "not an http or https URL"},
		{"httpss://example.org/", "not an http or https URL"},
		{"http:example.org", "no host"},
		{"http:///x", "no host"},
		{"http://:80/", "no host"},
		{"http://", "no host"},
		{"http:", "no host"},
		{"http://" + strings.Repeat("a.", 126) + "aa/", "host of more than 253 characters"},
		{"http://user@example.org/", "user name or password"},
		{"http://user:password@example.org/", "user name or password"},
		{"http://@example.org/", "user name or password"},
		{"http://example.org/#f", "fragment"},
		{"http://example.org/#", "fragment"},
		{"http://example.org:0/", "port"},
		{"http://example.org:65536/", "port"},
		{"http://example.org:99999999999999999999/", "port"},
		{"http://example.org:http/", "can't be read"},
		{"http://example.org/%zz", "a % in its path that no two hexadecimal digits follow"},
		{"http://example.org/100%", "stands for itself as %25"},
		{"http://example.org:http/%", "stands for itself as %25"},
		{"http%3A%2F%2Fexample.org%2F", "percent-encoded once too often"},
		{"https%3a//example.org/", "percent-encoded once too often"},
		{"HTTPS%3A%2F%2Fexample.org", "percent-encoded once too often"},
		{"http%3", "can't be read"},
		{"http://[::1/", "can't be read"},
		{"http://[fe80::1%25eth0]/", "percent escape in its host"},
		{"http://b%C3%BCcher.example/", "percent escape in its host"},
		{"http://ex%61mple.org/", "can't be read"},
		{"http://example.org/a b", "0x20 at byte 21"},
		{" http://example.org/", "a space or a line end before or after the URL: send the URL alone"},
		{"http://example.org/\r\n", "a space or a line end before or after the URL"},
		{"http://example.org/\nx", "0x0A at byte 20"},
		{"http://example.org/\x00", "0x00"},
		{"http://example.org/\x7f", "0x7F"},
		{"http://example.org/ü", "0xC3"},
		{"http://example.org/?x=ü", "0xC3"},
		{"http://bücher.example/", "letters in its host that are not ASCII: send the host in its xn-- form"},
		{"http://example.ü", "in its host"},
		{"ü://example.org/", "0xC3 at byte 1"},
		{"http://example.org/a|b{c}", "in its path"},
		{"http://example.org/a|b?x=/a%7Cb", "in its path"},
		{"http://example.org/<", "0x3C"},
		{"http://example.org/>;rel=hub", "0x3E"},
		{"http://example.org/\"", "0x22"},
		{"http://good.example\\@evil.example/", "0x5C"},
	} {
		err := CheckURL("hub.callback", test.raw)
		refused(t, err, "hub.callback", test.words)
		if len(test.raw) > 8 && strings.Contains(err.Error(), test.raw) {
			t.Errorf("the sentence holds the URL: %v", err)
		}
	}
}

func TestCallbackQueryIsAppended_HUB23(t *testing.T) {
	params := []Param{{ParamMode, "subscribe"}, {ParamTopic, "http://example.org/?a=b&c=d e+f#g"}}
	const appended = "hub.mode=subscribe&hub.topic=http%3A%2F%2Fexample.org%2F%3Fa%3Db%26c%3Dd%20e%2Bf%23g"
	for callback, want := range map[string]string{
		"http://a":                              "http://a?" + appended,
		"http://a/":                             "http://a/?" + appended,
		"http://a/?":                            "http://a/?" + appended,
		"http://a/?x=1":                         "http://a/?x=1&" + appended,
		"http://a/?x=1&":                        "http://a/?x=1&" + appended,
		"http://a/?z=1&a=%7e&z=2&a=+":           "http://a/?z=1&a=%7e&z=2&a=+&" + appended,
		"http://a/?hub.topic=x&hub.mode=denied": "http://a/?hub.topic=x&hub.mode=denied&" + appended,
		"http://a/?x;y=%zz&&":                   "http://a/?x;y=%zz&&" + appended,
		"http://a/x&":                           "http://a/x&?" + appended,
		"http://a/?a?":                          "http://a/?a?&" + appended,
		"http://a/?x=1#f?":                      "http://a/?x=1&" + appended + "#f?",
	} {
		if got := AppendQuery(callback, params...); got != want {
			t.Errorf("%q\n got %q\nwant %q", callback, got, want)
		}
	}
	if got := AppendQuery("http://a/?b&"); got != "http://a/?b&" {
		t.Errorf("nothing was to be appended: %q", got)
	}
	if got := AppendQuery("http://a/", Param{"ü&", "\x00%"}); got != "http://a/?%C3%BC%26=%00%25" {
		t.Error(got)
	}
}

func FuzzAppendQuery(f *testing.F) {
	f.Add("http://a/", "hub.topic", "http://b/?c=d")
	f.Add("http://a/?x=1&x=2&", "", " +%&=;")
	f.Add("http://a/?x;=%zz", "ü", "\xff\x00")
	f.Add("http://a/?a?#f", "?", "#")
	f.Fuzz(func(t *testing.T, raw, name, value string) {
		got := AppendQuery(raw, Param{name, value}, Param{"last", "1"})
		base, fragment, has := strings.Cut(raw, "#")
		rest, ok := strings.CutPrefix(got, base)
		if has && ok {
			rest, ok = strings.CutSuffix(rest, "#"+fragment)
		}
		if !ok {
			t.Fatalf("%q was changed: %q", raw, got)
		}
		// What was appended is the end of the query and parses back.
		if strings.Contains(base, "?") {
			rest = strings.TrimPrefix(rest, "&")
		} else if rest, ok = strings.CutPrefix(rest, "?"); !ok {
			t.Fatalf("no query: %q", got)
		}
		q, err := url.ParseQuery(rest)
		if err != nil || q.Get("last") != "1" || name != "last" && (len(q[name]) != 1 || q[name][0] != value || len(q) != 2) {
			t.Fatalf("%q gives %q, %v", rest, q, err)
		}
		// So does all of it, behind what the URL had before.
		_, before, _ := strings.Cut(base, "?")
		_, query, _ := strings.Cut(strings.TrimSuffix(got, "#"+fragment), "?")
		if old, err := url.ParseQuery(before); err == nil {
			all, err := url.ParseQuery(query)
			if err != nil || len(all[name]) < len(old[name])+1 || all[name][len(old[name])] != value {
				t.Fatalf("%q gives %q, %v", got, all, err)
			}
		}
	})
}
