package websub

import "testing"

// A hub's URL without a path is the same as with "/" (RFC 3986, 6.2.3), and nothing
// else is made the same.
func TestHubURL(t *testing.T) {
	for raw, want := range map[string]string{
		"http://h":               "http://h/",
		"https://h:8443":         "https://h:8443/",
		"HTTP://H":               "HTTP://H/",
		"http://[::1]:80":        "http://[::1]:80/",
		"http://h?a=http://b":    "http://h/?a=http://b",
		"http://h/":              "http://h/",
		"http://h/websub":        "http://h/websub",
		"http://h/websub/":       "http://h/websub/",
		"http://h//":             "http://h//",
		"http://h/?a":            "http://h/?a",
		"":                       "",
		"h":                      "h",
		"//h":                    "//h",
		"http://":                "http://",
		"http://?x":              "http://?x",
		"urn:x":                  "urn:x",
		"ftp://h":                "ftp://h",
		"/redirect?to=http://ha": "/redirect?to=http://ha",
	} {
		if got := HubURL(raw); got != want {
			t.Errorf("%q is %q, want %q", raw, got, want)
		}
		if again := HubURL(want); again != want {
			t.Errorf("%q is %q", want, again)
		}
	}
	hubs := []string{"https://a", "https://b/websub"}
	for hub, want := range map[string]bool{
		"https://a": true, "https://a/": true, "http://a/": false, "https://a//": false, "https://A/": false,
		"https://b/websub": true, "https://b/websub/": false, "https://b": false,
	} {
		if got := HasHub(hubs, hub); got != want {
			t.Errorf("%q is among %q: %v", hub, hubs, got)
		}
	}
}
